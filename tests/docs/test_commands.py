"""The commands of README and tutorial, run as they stand there, or named here with why not."""

import asyncio
import re
import shlex
import socket
import sys
import textwrap
import urllib.error
import urllib.request
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.recordings import REPOSITORY

README = REPOSITORY / "README.md"
TUTORIAL = REPOSITORY / "docs" / "tutorial" / "first-ten-minutes.md"
BLOCK = re.compile(r"^(?P<indent> *)```sh\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)

LEFT_OUT = {
    "make demo": "takes too long here; what it prints is compared with the README elsewhere",
    "make test": "is what runs this",
    "curl -s http://127.0.0.1:EXTENDER-PORT/": "needs the demo's extender, at a port of its own",
    "echo 'xid gpu=0 code=48' >> EVENTS-FILE": "needs the demo's event file",
    "curl -s http://127.0.0.1:PORT/metrics": "needs the demo's daemon, at a port of its own",
    "echo 'lost gpu=0' >> EVENTS-FILE": "needs the demo's event file",
    "echo 'back gpu=0' >> EVENTS-FILE": "needs the demo's event file",
}
"""What a command that is not run begins with, and why it is not."""

WAITS = "gpushare node --without-cluster --simulate mixed"
ASKS = "curl -s http://127.0.0.1:9435/readyz"
FOLDER, ADDRESS = "--plugin-dir /tmp", "127.0.0.1:9435"
"""The page's; others may have theirs there, so the tests take their own."""
REFUSED = "gpushare node --without-cluster --simulate h200-x8 --memory-unit MiB"
RUN = (WAITS, ASKS, REFUSED)
"""What the commands that are run here begin with."""


def commands(page: Path) -> list[str]:
    """The commands of a page's shell blocks, a line each, our program by its bare name."""
    blocks = [textwrap.dedent(m["text"]) for m in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    return [line.replace(".venv/bin/", "") for block in blocks for line in block.splitlines()]


def the_one(start: str) -> str:
    """The tutorial's command that begins so."""
    [found] = [each for each in commands(TUTORIAL) if each.startswith(start)]
    return found


def in_folder(folder: Path, command: str) -> str:
    assert FOLDER in command
    return command.replace(FOLDER, f"--plugin-dir {folder}")


@asynccontextmanager
async def running(command: str) -> AsyncIterator[Process]:
    """Run a command of our program; kill it in the end if it still runs."""
    program, *arguments = shlex.split(command)
    assert program == "gpushare"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gpushare_plugin", *arguments, stdout=PIPE, stderr=STDOUT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def got(url: str) -> tuple[int, str]:
    """What curl would show, and the status."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  # the page's own, http
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@pytest.mark.parametrize("page", [README, TUTORIAL], ids=lambda page: page.name)
def test_every_command_of_a_page_is_run_here_or_left_out_for_a_reason(page: Path) -> None:
    known = (*RUN, *LEFT_OUT)

    unknown = [each for each in commands(page) if not each.startswith(known)]

    assert commands(page) != []
    assert unknown == []


def test_every_reason_is_for_a_command_that_is_there() -> None:
    there = [*commands(README), *commands(TUTORIAL)]

    assert [each for each in LEFT_OUT if not any(line.startswith(each) for line in there)] == []


@pytest.mark.e2e
async def test_a_daemon_without_a_kubelet_says_what_it_found_and_what_it_waits_for(
    short_path: Path,
) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = in_folder(short_path, the_one(WAITS)).replace(ADDRESS, address)
    url = the_one(ASKS).removeprefix("curl -s ").replace(ADDRESS, address)
    lines: list[str] = []
    async with running(command) as daemon:
        assert daemon.stdout is not None
        while not (lines and " status_pages " in lines[-1]):
            line = await daemon.stdout.readline()
            assert line, lines
            lines.append(line.decode())
        status, text = await asyncio.to_thread(got, url)

    assert sum(" card_shared " in line for line in lines) == 4
    assert status == 503
    assert "kubelet.sock is not there: no kubelet yet" in text


@pytest.mark.e2e
async def test_a_unit_that_cannot_work_is_refused_with_the_one_that_would(short_path: Path) -> None:
    command = in_folder(short_path, the_one(REFUSED))
    async with running(command) as daemon:
        output, _ = await daemon.communicate()

    assert daemon.returncode == 2
    assert re.search(r"memory unit MiB.* \d+MiB", output.decode()), output.decode()
