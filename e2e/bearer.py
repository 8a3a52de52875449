"""The API server asked with somebody else's token.

kubectl reads an object before it changes it, and the daemon's account may not read all
that it may change.
"""

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from e2e.cluster.foreign import Kubernetes
from e2e.cluster.kubectl import Refused

_SERVER = "jsonpath={.clusters[0].cluster.server}"


class Bearer:
    """Requests with one token."""

    def __init__(self, cluster: Kubernetes, token: str) -> None:
        self._server = cluster.kubectl("config", "view", "--minify", "-o", _SERVER)
        self._token = token
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    def get(self, path: str) -> Any:
        """Read an object. Raises Refused."""
        return self._ask("GET", path, None)

    def patch(self, path: str, change: object) -> Any:
        """Change an object by a merge patch. Raises Refused."""
        return self._ask("PATCH", path, json.dumps(change).encode())

    def _ask(self, verb: str, path: str, body: bytes | None) -> Any:
        request = urllib.request.Request(f"{self._server}{path}", data=body, method=verb)  # noqa: S310  # the kubeconfig's
        request.add_header("Authorization", f"Bearer {self._token}")
        request.add_header("Content-Type", "application/merge-patch+json")
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=10) as answer:  # noqa: S310  # as above
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(json.load(error)["message"]) from None
