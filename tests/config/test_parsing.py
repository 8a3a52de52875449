"""One text to one value: what is taken, and that nothing else is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.config import parsing
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.errors import ConfigError


@pytest.mark.parametrize("text", ["true", "on", "yes", "1", "ON", " True "])
def test_a_switch_is_on_by_any_of_the_usual_words(text: str) -> None:
    assert parsing.switch(text) is True


@pytest.mark.parametrize("text", ["false", "off", "no", "0", "OFF", " False "])
def test_a_switch_is_off_by_any_of_the_usual_words(text: str) -> None:
    assert parsing.switch(text) is False


@pytest.mark.parametrize("text", ["", "2", "oui", "on off", "nope"])
def test_a_switch_takes_no_other_word(text: str) -> None:
    with pytest.raises(ConfigError, match="expected on or off"):
        parsing.switch(text)


@pytest.mark.parametrize("text", ["", "Binpack", "BINPACK", " binpack"])
def test_a_word_is_taken_as_it_is_written_or_not_at_all(text: str) -> None:
    with pytest.raises(ConfigError, match="expected one of binpack, spread"):
        parsing.one_of(Policy)(text)


@given(value=st.integers(-1, 4), least=st.integers(0, 2), most=st.integers(2, 3))
def test_bounds_belong_to_what_is_taken(value: int, least: int, most: int) -> None:
    for read in (parsing.whole(least=least, most=most), parsing.number(least=least, most=most)):
        if least <= value <= most:
            assert read(str(value)) == value
        else:
            with pytest.raises(ConfigError, match=f"from {least} to {most}"):
                read(str(value))


@pytest.mark.parametrize("text", ["", "1.0", "+1", " 1", "1_0", "0x1", "\u0661", "9" * 13])
def test_a_whole_number_is_written_in_plain_digits(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a whole number"):
        parsing.whole(least=0, most=10)(text)


@pytest.mark.parametrize("text", ["", "nan", "inf", "-inf", "1,5", "1s", "one"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a number"):
        parsing.number(least=0, most=10)(text)


@pytest.mark.parametrize(
    ("text", "xids"),
    [("", set()), ("13", {13}), ("13,31", {13, 31}), (" 13 , 31 ", {13, 31}), ("13,,13,", {13})],
)
def test_xids_are_a_list_with_commas(text: str, xids: set[int]) -> None:
    assert parsing.xids(text) == xids


@pytest.mark.parametrize("text", ["13;31", "13 31", "-1", "0x4f", "XID 79", "all", "9" * 11])
def test_a_list_with_one_wrong_xid_is_refused_whole(text: str) -> None:
    with pytest.raises(ConfigError, match="expected XID numbers with commas"):
        parsing.xids(f"13,{text}")


def test_the_only_xids_can_be_none_at_all() -> None:
    assert parsing.xids_or_none("none") == frozenset()
    assert parsing.xids_or_none("79") == {79}


@pytest.mark.parametrize("text", ["", ".", "plugins", "./plugins", "~/plugins"])
def test_a_path_that_depends_on_where_one_stands_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected an absolute path"):
        parsing.absolute_path(text)


def test_paths_are_a_list_with_commas() -> None:
    assert parsing.absolute_paths("/a, /b,") == (Path("/a"), Path("/b"))
    assert parsing.absolute_paths("") == ()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9435", ("", 9435)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("node-1.example.com:65535", ("node-1.example.com", 65535)),
        ("[::1]:9435", ("::1", 9435)),
        ("[fe80::1%eth0]:9435", ("fe80::1%eth0", 9435)),
        ("off", None),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int] | None) -> None:
    assert parsing.listen_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["", "9435", ":", "host:", ":65536", ":-1", ":http", "::1", "a b:1", "[::1]", "[]:1", "[x]:1"],
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        parsing.listen_address(text)
