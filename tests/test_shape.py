"""The shape of the code: what a reader meets in each module, and how much of it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

import pytest

import gpushare_plugin

PACKAGE = Path(gpushare_plugin.__file__).parent
GENERATED = PACKAGE / "proto"
MODULES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if GENERATED not in path.parents or path.name == "__init__.py"
)

LONGEST_MODULE_LINES = 300
MEDIAN_MODULE_LINES = 150
LONG_FUNCTION_LINES = 25
LONGEST_FUNCTION_LINES = 60


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def named(path: Path) -> str:
    return str(path.relative_to(PACKAGE.parent))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, less its docstring: saying more shall cost nothing."""
    first = function.body[0]
    documented = ast.get_docstring(function) is not None and first.end_lineno is not None
    docstring = first.end_lineno - first.lineno + 1 if documented and first.end_lineno else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_each_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_no_module_is_longer_than_one_can_hold_in_mind(path: Path) -> None:
    assert lines(path) <= LONGEST_MODULE_LINES


def test_half_of_the_modules_are_short() -> None:
    # Packages' own files say what belongs in them, and little more: they do not count.
    sizes = [lines(path) for path in MODULES if path.name != "__init__.py"]

    assert median(sizes) <= MEDIAN_MODULE_LINES


def test_nine_functions_in_ten_are_short_and_none_is_very_long() -> None:
    lengths = {
        f"{named(path)}:{function.name}": length(function)
        for path in MODULES
        for function in functions(path)
    }

    assert quantiles(lengths.values(), n=10)[-1] < LONG_FUNCTION_LINES
    assert {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION_LINES} == {}
