"""Who we are towards the API server: by a kubeconfig file, or by our pod's service account."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpushare_plugin.adapters.kube.credentials import Credentials


async def credentials(kubeconfig: Path | None) -> "Credentials":
    """Return the file's credentials; without a file, the service account's.

    Raises:
        ConfigError: there are none.
    """
    if kubeconfig is not None:
        from gpushare_plugin.adapters.kube.kubeconfig import KubeConfig  # noqa: PLC0415  # 1 s

        return await asyncio.to_thread(KubeConfig, kubeconfig, os.environ)
    from gpushare_plugin.adapters.kube.credentials import InCluster  # noqa: PLC0415  # 150 ms

    return InCluster(os.environ)
