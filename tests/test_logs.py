"""Log lines: one a record, whatever is in it."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare_plugin.logs import KeyValueFormatter, configure, event_logger, quoted

AT_SECONDS = 1_796_125_852.123_999


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("gpushare_plugin")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


@pytest.fixture
def stream() -> io.StringIO:
    stream = io.StringIO()
    configure("info", stream=stream)
    return stream


def fields_of(line: str) -> list[str]:
    """A line without its time."""
    return line.split(" ", 1)[1].splitlines()


log = event_logger("gpushare_plugin.somewhere")


def test_a_line_is_time_level_event_and_fields(stream: io.StringIO) -> None:
    log.info("registered", resource="aliyun.com/gpu-mem", cards=2)

    assert fields_of(stream.getvalue()) == ["info registered resource=aliyun.com/gpu-mem cards=2"]


def test_the_time_is_utc_in_milliseconds_cut_off_not_rounded() -> None:
    record = logging.LogRecord("n", logging.INFO, "p", 1, "event", None, None)
    record.created = AT_SECONDS

    assert KeyValueFormatter().format(record) == "2026-12-01T11:50:52.123Z info event"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("aliyun.com/gpu-mem", "aliyun.com/gpu-mem"),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "no"', r'"say \"no\""'),
        ("line\nline", r'"line\nline"'),
        ("", '""'),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (1.23456, "1.235"),
        (None, "None"),
        ("K\u00e4fer", "K\u00e4fer"),
        ("ein K\u00e4fer", '"ein K\u00e4fer"'),
        ("a\u2028b", r'"a\u2028b"'),
        ("a\x85b", r'"a\u0085b"'),
        ("\ud800", r'"\ud800"'),
    ],
)
def test_a_value_is_bare_if_it_is_one_plain_word_and_else_quoted(value: object, shown: str) -> None:
    assert quoted(value) == shown


@settings(derandomize=True, deadline=None, database=None)
@given(value=st.text(alphabet='a =" \n\r\t\\\x00\x1b\x7f\x85\u2028\ud800', max_size=4))
def test_a_field_is_of_one_line_that_any_terminal_can_show_and_can_be_read_back(value: str) -> None:
    shown = quoted(value)

    assert len(shown.splitlines()) == 1
    assert shown.isprintable()
    assert value == (json.loads(shown) if shown.startswith('"') else shown)
    assert shown.startswith('"') or not set(shown) & set(' "=')


def test_fields_bound_once_stand_on_every_line_and_may_be_replaced(stream: io.StringIO) -> None:
    bound = log.bind(resource="r", cards=1)

    bound.warning("one")
    bound.bind(cards=2).error("two", cause="x")

    assert [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()] == [
        "warning one resource=r cards=1",
        "error two resource=r cards=2 cause=x",
    ]


def test_a_level_that_is_not_wanted_is_not_written(stream: io.StringIO) -> None:
    log.debug("proposed", units=1)

    assert stream.getvalue() == ""


def test_the_level_is_ours_alone_others_are_heard_from_warning_on(stream: io.StringIO) -> None:
    other = logging.getLogger("somebody.else")

    other.info("chatter")
    other.warning("two words\nand a line")

    assert fields_of(stream.getvalue()) == [r'warning "two words\nand a line"']


def test_the_file_watchers_own_lines_are_not_written(stream: io.StringIO) -> None:
    logging.getLogger("watchdog.observers.inotify").error("the thread is inactive")

    assert stream.getvalue() == ""


def test_configuring_again_replaces_format_and_level_and_adds_no_second_line() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure("debug", stream=first)
    configure("error", stream=second)

    log.warning("not_wanted")
    log.error("wanted")

    assert first.getvalue() == ""
    assert fields_of(second.getvalue()) == ["error wanted"]


def test_a_traceback_is_a_field_of_the_same_line(stream: io.StringIO) -> None:
    try:
        raise ValueError("two\nlines")  # noqa: TRY301 - a traceback is what this is about
    except ValueError:
        logging.getLogger("gpushare_plugin").exception("failed")

    [line] = stream.getvalue().splitlines()
    assert line.split(" ", 1)[1].startswith('error failed traceback="Traceback')
