"""The daemon as a process: signals, a configuration read again, an orderly end.

Rule 1: SIGTERM and SIGINT end it within 2 s; SIGHUP reads the configuration again.
Rule 2: a new configuration that is wrong, or does not work here, leaves the last good
one in force.
"""

import asyncio
import ctypes
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import Any, TypeVar

from gpushare_plugin.config import ExtenderConfig, NodeConfig, shown
from gpushare_plugin.errors import ConfigError, GpushareError
from gpushare_plugin.logs import configure, event_logger

log = event_logger(__name__)

_M_ARENA_MAX, _M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -8, -3, -1
"""glibc's numbers for the most heaps, for what is large, and for what is kept (malloc.h)."""
LARGE_BYTES = 128 * 1024
"""glibc's own default, which stays as it is once it has been set."""

Config = TypeVar("Config", NodeConfig, ExtenderConfig)


class Request(Enum):
    """What a signal asks for."""

    STOP = "stop"
    RELOAD = "reload"


async def run_until_stopped(
    load: Callable[[], Config],
    run: Callable[[Config], Coroutine[Any, Any, None]],
    *,
    large_bytes: int = LARGE_BYTES,
) -> None:
    """Run under the configuration, anew after each SIGHUP, until SIGTERM or SIGINT.

    Memory from `large_bytes` on is the system's again as soon as it is free: that is small
    for who rests, and costs page faults for who takes and frees such buffers all the time.

    Raises:
        GpushareError: the daemon cannot work, and no earlier configuration did.
    """
    _share_one_heap(large_bytes)
    requests = _signals()
    config = load()
    last_good: Config | None = None
    while True:
        configure(config.log_level.value)
        log.info("configuration", **shown(config))
        running = asyncio.create_task(run(config), name="the daemon")
        try:
            wanted = await _next_config(requests, running, load, config)
        except GpushareError as error:
            if last_good is None or last_good == config:
                raise
            log.error("configuration_does_not_work", error=error, doing="the last good one again")
            wanted = last_good
        else:
            last_good = config
        if wanted is None:
            log.info("stopped")
            return
        config = wanted


async def _next_config(
    requests: "asyncio.Queue[Request]",
    running: "asyncio.Task[None]",
    load: Callable[[], Config],
    config: Config,
) -> Config | None:
    """Return the configuration to run next, or None to stop; the run has ended by then."""
    try:
        while True:
            request = await _request_or_failure(requests, running)
            if request is Request.STOP:
                return None
            try:
                wanted = load()
            except ConfigError as error:
                log.error("configuration_refused", error=error, doing="the present one goes on")
                continue
            if replace(wanted, log_level=config.log_level) != config:
                return wanted
            # A new start of the plugin would fail the pods that come just then.
            configure(wanted.log_level.value)
            log.info("configuration_unchanged", log_level=wanted.log_level.value)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _request_or_failure(
    requests: "asyncio.Queue[Request]", running: "asyncio.Task[None]"
) -> Request:
    waiting = asyncio.create_task(requests.get(), name="wait for a signal")
    try:
        await asyncio.wait((waiting, running), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            _raise_cause(running)
        return await waiting
    finally:
        waiting.cancel()


def _raise_cause(running: "asyncio.Task[None]") -> None:
    """Raise our own error out of the groups that it came up in, or whatever else it was."""
    error = running.exception()
    while isinstance(error, BaseExceptionGroup):
        ours = error.subgroup(GpushareError)
        error = (ours or error).exceptions[0]
    if error is not None:
        raise error


def _share_one_heap(large_bytes: int) -> None:
    """Let all threads to come take memory from one heap of the C library: mallopt(3).

    glibc gives threads heaps of their own, and what is free in one serves no other; and
    after the first large buffer it keeps large ones in the heap, where they leave holes
    (a TLS connection has one of 256 KiB). Other C libraries have no such call.
    """
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, large_bytes)
        mallopt(_M_TRIM_THRESHOLD, large_bytes)


def _signals() -> "asyncio.Queue[Request]":
    requests: asyncio.Queue[Request] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, requests.put_nowait, Request.STOP)
    loop.add_signal_handler(signal.SIGHUP, requests.put_nowait, Request.RELOAD)
    return requests
