"""Recordings inside documents: a part between two marks that a program makes.

`make golden` writes them anew; every other run compares.
"""

from pathlib import Path

REPOSITORY = Path(__file__).parent.parent


def check_recording(path: Path, name: str, content: str, *, rewrite: bool) -> None:
    """Compare the part of a page named `name` with its content, or write it."""
    begin, end = f"<!-- {name} begins -->\n", f"<!-- {name} ends -->"
    page = path.read_text(encoding="utf-8")
    before, found, rest = page.partition(begin)
    recorded, closed, after = rest.partition(end)
    assert found, f"{path} has no mark {begin!r}"
    assert closed, f"{path} has no mark {end!r}"
    wanted = f"{content.rstrip()}\n"
    if rewrite:
        path.write_text(before + begin + wanted + end + after, encoding="utf-8")
        return
    assert recorded == wanted, f"{path}: the part {name!r} is old; `make golden` writes it anew"
