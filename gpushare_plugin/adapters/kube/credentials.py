"""Who we are towards the API server, and how we know that it is the right one.

Rule 1: the server's certificate is verified, always.
Rule 2: files are looked at again before each request: the kubelet replaces a service
account's token (and its CA) under us, by turning the symbolic link `..data`.
Rule 3: kubeconfig files are for `kubeconfig`, so that a daemon in a cluster imports
no `kubernetes`.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpushare_plugin.adapters.kube.proxies import proxy_for
from gpushare_plugin.errors import ApiRefused, ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the API server is, and by whose word."""

    server: str
    """Its URL, without a slash at the end."""
    source: str
    """Where the credentials come from, for messages."""
    proxy: str | None = None
    server_name: str | None = None
    """The name in its certificate, where that is not the host's."""


class Credentials(Protocol):
    """What a request needs beside itself."""

    @property
    def endpoint(self) -> Endpoint:
        """Where to."""

    def tls(self) -> ssl.SSLContext | None:
        """Return how the server is verified, the same object while nothing changed.

        None where the server speaks no TLS.

        Raises:
            ApiRefused: the certificates cannot be read.
        """

    async def authorization(self, *, anew: bool = False) -> str:
        """Return the Authorization header, empty for none; `anew` after a 401.

        Raises:
            ApiRefused: they cannot be had.
        """


def verifying(
    *,
    ca_file: str | None = None,
    ca_pem: str | None = None,
    client: tuple[str, str | None] = ("", None),
) -> ssl.SSLContext:
    """Return a TLS context that trusts these authorities alone (the host's, if none is given).

    Raises:
        OSError, ValueError: a file or a certificate cannot be read.
    """
    context = ssl.create_default_context(cafile=ca_file, cadata=ca_pem)
    # Many clusters' own authorities lack what strict X.509 asks for, and Go does not ask.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    certificate, key = client
    if certificate:
        context.load_cert_chain(certificate, key)
    return context


class Fixed:
    """A server, a token and an authority that are given; they never change."""

    def __init__(self, server: str, *, token: str = "", ca_pem: str | None = None) -> None:
        self.endpoint = Endpoint(server=server.rstrip("/"), source="the token that was given")
        self._token = token
        self._tls = verifying(ca_pem=ca_pem) if server.startswith("https:") else None

    def tls(self) -> ssl.SSLContext | None:
        """Return the one context."""
        return self._tls

    async def authorization(self, *, anew: bool = False) -> str:
        """Return the one header."""
        del anew
        return f"Bearer {self._token}" if self._token else ""


class InCluster:
    """The service account of the pod that we run in."""

    def __init__(self, environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> None:
        """Find the server.

        Raises:
            ConfigError: this is no pod of a cluster.
        """
        host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
        token = folder / "token"
        if not host or not port:
            raise ConfigError(
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, as they are in"
                " a pod; outside of a cluster, name a kubeconfig file"
            )
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.endpoint = Endpoint(
            server=server,
            source=f"the service account's token {token}",
            proxy=proxy_for(server, environ),
        )
        self._token = _FileText(token)
        self._ca = _FileText(folder / "ca.crt")
        self._tls: ssl.SSLContext | None = None
        self._trusted = ""

    def tls(self) -> ssl.SSLContext | None:
        """Return the context, made again when the authority's file is another one."""
        pem = self._ca.read()
        if self._tls is None or pem != self._trusted:
            try:
                self._tls = verifying(ca_pem=pem)
            except (OSError, ValueError) as error:
                raise ApiRefused(
                    f"{self._ca.path}: expected the certificate of the cluster's authority: {error}"
                ) from error
            self._trusted = pem
        return self._tls

    async def authorization(self, *, anew: bool = False) -> str:
        """Return the header with the token as its file has it now."""
        return f"Bearer {self._token.read(anew=anew)}"


class _FileText:
    """A file's text, read again when the path leads to another file or the file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = ""
        self._identity: tuple[int, int, int] | None = None

    def read(self, *, anew: bool = False) -> str:
        try:
            status = self.path.stat()
            identity = (status.st_ino, status.st_mtime_ns, status.st_size)
            if anew or identity != self._identity:
                self._text = self.path.read_text(encoding="ascii").strip()
                self._identity = identity
        except (OSError, ValueError) as error:
            raise ApiRefused(
                f"{self.path}: {error}; the pod's service account must be mounted"
                " (automountServiceAccountToken)"
            ) from error
        if not self._text:
            raise ApiRefused(f"{self.path}: empty, expected the service account's {self.path.name}")
        return self._text
