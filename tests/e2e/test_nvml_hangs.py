"""A driver whose calls hang in the middle of the run: the process serves on, and ends."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gpushare_plugin.sim.gpus import EventsFile
from gpushare_plugin.sim.kubelet import Phase
from tests.e2e.processes import daemon, kubelet, node_arguments, pod, ready

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(60),
    pytest.mark.skipif(shutil.which("cc") is None, reason="the hanging call is written in C"),
]

HANGING_STAT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>

/* The simulated driver looks at its events file in every call: that look hangs here. */
int stat(const char *path, struct stat *status)
{
    static int (*real)(const char *, struct stat *);
    const char *events = getenv("HANG_ON"), *switched_on = getenv("HANG_IF");
    if (!real)
        real = (int (*)(const char *, struct stat *))dlsym(RTLD_NEXT, "stat");
    while (events && switched_on && !strcmp(path, events) && access(switched_on, F_OK) == 0)
        usleep(10000);
    return real(path, status);
}
"""


@pytest.fixture(scope="session")
def hanging_stat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that, loaded first, makes every call to the simulated driver hang on demand."""
    folder = tmp_path_factory.mktemp("hanging")
    source, library = folder / "hanging.c", folder / "hanging.so"
    source.write_text(HANGING_STAT, encoding="utf-8")
    compiler = shutil.which("cc")
    assert compiler is not None
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture
def environ(short_path: Path, hanging_stat: Path) -> dict[str, str]:
    """Lets the driver hang for as long as the file `hang` is there."""
    events, switch = short_path / "events", short_path / "hang"
    events.touch()
    return {"LD_PRELOAD": str(hanging_stat), "HANG_ON": str(events), "HANG_IF": str(switch)}


async def test_b21_a_hanging_driver_holds_up_no_pod_and_no_stop(
    short_path: Path, environ: dict[str, str]
) -> None:
    arguments = node_arguments(short_path, "--probe-seconds", "0.1")
    async with kubelet(short_path) as driven, daemon(arguments, environ=environ) as node:
        await ready(driven)
        await driven.admit(pod("before", 4))

        (short_path / "hang").touch()
        # It hangs for good by the time that a restarted kubelet has been served.
        await driven.restart(gap_seconds=0.5)
        await ready(driven, registrations=2)
        status = await driven.admit(pod("during", 4))

        assert status.phase is Phase.RUNNING
        assert "200 OK" in await node.page("/healthz")
        assert await node.stop() == 0
    assert not list((short_path / "plugins").glob("aliyungpushare-*.sock"))


async def test_what_a_hanging_driver_has_to_tell_is_heard_once_it_answers(
    short_path: Path, environ: dict[str, str]
) -> None:
    arguments = node_arguments(short_path, "--probe-seconds", "0.1")
    async with kubelet(short_path) as driven, daemon(arguments, environ=environ) as node:
        await ready(driven)
        (short_path / "hang").touch()
        EventsFile(short_path / "events").xid(1, 79)
        await driven.restart(gap_seconds=0.5)
        await ready(driven, registrations=2)
        assert not node.of("gpu_event")

        (short_path / "hang").unlink()
        await ready(driven, units=15, registrations=2)

    assert [line["reason"] for line in node.of("card_unhealthy")] == ["XID 79"]
