"""The demo: the real node daemon and extender over simulated peers, a process each.

What belongs here: the story, its checks and its picture. What must not: a part of the
product that the demo alone needs; everything it shows is what a node would do.
"""

import asyncio
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from gpushare_plugin.demo.peers import small_cluster
from gpushare_plugin.demo.picture import Picture
from gpushare_plugin.demo.stage import Stage
from gpushare_plugin.demo.story import tell


def run_demo(*, keep: bool) -> bool:
    """Play the story and print it; say whether all of it happened as it should."""
    held = False
    # With --keep, Ctrl-C is the way out.
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        held = asyncio.run(_play(keep=keep))
    return held or keep


async def _play(*, keep: bool) -> bool:
    picture = Picture()
    playing = asyncio.current_task()
    if playing is not None:
        # Whoever ends us, what we started ends with us.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    # A short path: a socket's path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="gpushare-demo-") as folder:
        async with small_cluster(Path(folder)) as peers:
            held = await tell(Stage(peers), picture)
            if keep:
                picture.how_to_play(peers)
                await peers.daemon.ended.wait()
    return held
