"""Log lines: a constant event and key=value, one format, set once at the entry.

    2026-12-01T11:50:52.123Z info registered resource=aliyun.com/gpu-mem cards=2

Rule 1: the event is a constant that can be searched for; what varies is a field.
Rule 2: a value with spaces, quotes or line ends is quoted, so a line stays a line.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

_FIELDS = "gpushare_fields"


class EventLogger:
    """Logs events with fields; fields bound once stand on every line."""

    __slots__ = ("_bound", "_logger")

    def __init__(self, logger: logging.Logger, bound: dict[str, object] | None = None) -> None:
        self._logger = logger
        self._bound = bound or {}

    def bind(self, **fields: object) -> "EventLogger":
        """Return a logger that puts these fields on every line."""
        return EventLogger(self._logger, {**self._bound, **fields})

    def debug(self, event: str, **fields: object) -> None:
        """Log why: for who reads the code."""
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log what an operator acts on."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log what an operator should look at."""
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log what does not work."""
        self._log(logging.ERROR, event, fields)

    def _log(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={_FIELDS: {**self._bound, **fields}})


class KeyValueFormatter(logging.Formatter):
    """Time, level, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        when = datetime.fromtimestamp(record.created, tz=UTC)
        stamp = when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"
        # Our events are plain words; what other libraries log may have several lines.
        line = f"{stamp} {record.levelname.lower()} {quoted(record.getMessage())}"
        for key, value in getattr(record, _FIELDS, {}).items():
            line += f" {key}={quoted(value)}"
        if record.exc_info:
            line += f" traceback={quoted(self.formatException(record.exc_info))}"
        return line


def quoted(value: object) -> str:
    """Return the value as a field shows it: bare if it is one plain word, else as JSON text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    plain = bool(text) and text.isprintable() and not set(text) & set(' "=')
    if plain:
        return text
    # What cannot be printed is escaped: JSON itself leaves some line ends and DEL as they are.
    return json.dumps(text, ensure_ascii=not text.isprintable()).replace("\x7f", "\\u007f")


def event_logger(name: str) -> EventLogger:
    """Return the event logger of a module."""
    return EventLogger(logging.getLogger(name))


def configure(level: str, *, stream: TextIO | None = None) -> None:
    """Set format and level of everything that is logged; called once, at the entry."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("gpushare_plugin").setLevel(level.upper())
    # It calls the end of a watch an error; a lost event costs nothing, since sockets are compared.
    logging.getLogger("watchdog").setLevel(logging.CRITICAL)
