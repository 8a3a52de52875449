"""Options and fixtures that all tests share."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--native-sanitizers",
        action="store_true",
        help="build the C stub with the address and undefined-behaviour sanitizers",
    )
    parser.addoption(
        "--golden-rewrite",
        action="store_true",
        help="write the recordings anew instead of comparing with them",
    )


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder with a short path: a socket's path has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="gs"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def golden_rewrite(pytestconfig: pytest.Config) -> bool:
    """Whether recordings are to be written anew."""
    return bool(pytestconfig.getoption("--golden-rewrite"))
