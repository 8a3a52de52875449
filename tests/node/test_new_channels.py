"""A kubelet that comes back is tried afresh: no wait of an earlier try is inherited."""

from pathlib import Path

import pytest

from gpushare_plugin.adapters.kubelet import KubeletClient
from gpushare_plugin.adapters.podresources import PodResourcesClient
from gpushare_plugin.errors import KubeletUnavailable, PodResourcesError
from gpushare_plugin.ports import Registration
from gpushare_plugin.sim.kubelet import SimKubelet
from tests.node.nodes import RESOURCE, kubelet_settings


async def test_the_first_registration_with_a_new_kubelet_is_not_refused_for_the_old_ones_sake(
    short_path: Path,
) -> None:
    settings = kubelet_settings(short_path, dial_seconds=0.2)
    socket = settings.plugin_dir / "kubelet.sock"
    registration = Registration(endpoint="nobody.sock", resource_name=RESOURCE)
    client = KubeletClient(socket)
    async with SimKubelet(settings) as kubelet:
        await kubelet.stop()
        for _ in range(4):
            with pytest.raises(KubeletUnavailable, match="no kubelet answers"):
                await client.register(registration, timeout_seconds=5)

        await kubelet.start()
        # It is reached, and only then fails to dial a plugin that is not there.
        with pytest.raises(KubeletUnavailable, match="did not register"):
            await client.register(registration, timeout_seconds=15)


async def test_the_first_list_of_a_new_kubelet_is_answered(short_path: Path) -> None:
    settings = kubelet_settings(short_path)
    client = PodResourcesClient(settings.pod_resources_socket)
    try:
        async with SimKubelet(settings) as kubelet:
            await client.list_pods(RESOURCE, timeout_seconds=5)
            await kubelet.stop()
            for _ in range(4):
                with pytest.raises(PodResourcesError):
                    await client.list_pods(RESOURCE, timeout_seconds=5)

            await kubelet.start()
            assert await client.list_pods(RESOURCE, timeout_seconds=5) == []
    finally:
        await client.close()
