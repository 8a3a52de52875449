"""The pages lead somewhere: every link inside the repository has its target."""

import re
from pathlib import Path

import pytest

from tests.recordings import REPOSITORY

PAGES = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)[^)]*\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_has_its_target(page: Path) -> None:
    targets = [match["target"] for match in LINK.finditer(page.read_text(encoding="utf-8"))]
    inside = [target for target in targets if "://" not in target]

    missing = [target for target in inside if not (page.parent / target).exists()]

    assert missing == []
