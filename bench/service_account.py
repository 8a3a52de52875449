"""A daemon of ours as it runs in a pod: with a service account's token, over TLS.

Run as `python -m bench.service_account ADDRESS FOLDER node ...` (or `extender ...`): the API
server's URL, the folder that has the service account's `token` and `ca.crt`, and the daemon's
arguments. Only where these are is another than in a pod; the daemon's code that reads them
is the same.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpushare_plugin.app import credentials as reaching

if TYPE_CHECKING:
    from gpushare_plugin.adapters.kube.credentials import Credentials


def main(address: str, folder: str) -> None:
    """Run the daemon."""
    from gpushare_plugin.cli import main as daemon  # noqa: PLC0415

    async def credentials(kubeconfig: Path | None) -> "Credentials":
        from gpushare_plugin.adapters.kube.credentials import InCluster  # noqa: PLC0415

        del kubeconfig
        server = urlsplit(address)
        environ = {
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }
        return InCluster(environ, Path(folder))

    # Before the daemon's own modules are imported, which take the function from there.
    reaching.credentials = credentials
    daemon()


if __name__ == "__main__":
    main(sys.argv.pop(1), sys.argv.pop(1))
