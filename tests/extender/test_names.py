"""Lists of node names, known again by their bytes."""

import pytest

from gpushare_plugin.extender.names import MOST_LISTS, NameLists


def parse(raw: bytes) -> tuple[str, ...]:
    if not raw:
        raise ValueError("nothing there")
    return tuple(raw.decode().split())


def test_the_same_bytes_are_the_same_list() -> None:
    lists = NameLists(parse)

    first = lists.of(b"a b")

    assert lists.of(b"a b") is first
    assert lists.of(b"b a") is not first
    assert first.names == ("a", "b")


def test_only_the_last_lists_are_remembered_and_those_that_are_used_are() -> None:
    lists = NameLists(parse)
    used = lists.of(b"used")
    for number in range(MOST_LISTS - 1):
        lists.of(b"other %d" % number)
        lists.of(b"used")
    unused = lists.of(b"other 0")
    for number in range(MOST_LISTS):
        lists.of(b"another %d" % number)
        lists.of(b"used")

    assert lists.of(b"used") is used
    assert lists.of(b"other 0") is not unused


def test_what_cannot_be_read_is_not_remembered() -> None:
    lists = NameLists(parse)

    for _ in range(2):
        with pytest.raises(ValueError, match="nothing there"):
            lists.of(b"")
