"""What a bind may end as is on its page."""

import re

from gpushare_plugin.extender.verdicts import BindOutcome
from tests.recordings import REPOSITORY


def test_every_outcome_of_a_bind_is_on_its_page() -> None:
    page = (REPOSITORY / "docs" / "reference" / "extender.md").read_text(encoding="utf-8")
    part = page.partition("## How a bind ends")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) == [each.value for each in BindOutcome]
