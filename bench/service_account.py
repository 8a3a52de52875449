"""The node daemon as it runs in a pod: its credentials load no `kubernetes`.

Run as `python -m bench.service_account ADDRESS node ...`: the API server at the address asks
for no token and speaks no TLS, and the rest of the arguments are the daemon's.
"""

import sys
from pathlib import Path

from gpushare_plugin.adapters.kube.credentials import Credentials, Fixed
from gpushare_plugin.app import cluster


def main(address: str) -> None:
    """Run the daemon."""
    from gpushare_plugin.cli import main as daemon  # noqa: PLC0415

    async def fixed(kubeconfig: Path | None) -> Credentials:
        del kubeconfig
        return Fixed(address)

    cluster.credentials = fixed  # type: ignore[attr-defined]  # it is imported there
    daemon()


if __name__ == "__main__":
    main(sys.argv.pop(1))
