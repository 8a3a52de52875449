"""The page of cases says what the tests hold: each case has a test, or a line that says why not."""

import ast
import re
from collections.abc import Iterator, Mapping

from tests.recordings import REPOSITORY, check_recording

PAGE = REPOSITORY / "docs" / "reference" / "cases.md"

CASES: Mapping[int, tuple[str, str]] = {
    1: ("P0", "the kubelet restarts at any moment of our own start"),
    2: ("P0", "a new kubelet socket is noticed, by the watch and without it"),
    3: ("P0", "duplicate and late file events do not make us register again"),
    4: ("P1", "the first message of every stream is the full list"),
    6: ("P0", "our socket deleted, or the stream ended, with no new kubelet"),
    7: ("P0", "a stream that is gone blocks no restart and no stop"),
    8: ("P1", "restarts in a row while health flips; nothing is left behind"),
    9: ("P1", "a kubelet that refuses is not hammered; what can never work ends us"),
    10: ("P0", "we serve before we register, under a bare file name"),
    15: ("P1", "the plugin folder is absent, made later, or a symbolic link"),
    18: ("P0", "a proxy in the environment is not for sockets"),
    19: ("P1", "no fork in a handler"),
    21: ("P0", "nothing that hangs holds up Allocate, which has a deadline of its own"),
    22: ("P0", "half dead is noticed: streams, sockets and threads are watched"),
    23: ("P1", "the driver comes later than we do, and so do cards"),
    24: ("P1", "a renamed or removed resource stays at 0 in the node's status"),
    25: ("P1", "0 units is no sharing pod"),
    26: ("P0", "a card without a memory size takes no other with it"),
    28: ("P0", "NVML's texts as bytes or text; two packages of one module name"),
    29: ("P1", "a card's name that is no text"),
    30: ("P0", "the size that is advertised is defined once; memory v2, else v1"),
    32: ("P1", "a lost card is asked by fresh handles only"),
    33: ("P0", "every way into Unhealthy has its way out"),
    35: ("P1", "an XID that is in no catalogue"),
    36: ("P0", "a card that tells no events is not unhealthy"),
    37: ("P1", "the monitor's own failure is seen"),
    39: ("P1", "a card without a minor number"),
    40: ("P0", "NVML index, minor number and our card index are three things"),
    42: ("P1", "only some GPUs in MIG mode"),
    43: ("P1", "the driver is upgraded under us"),
    45: ("P0", "cards of different sizes each have their own units"),
    46: ("P1", "a process's memory that is not available is no number"),
    48: ("P1", "a vGPU guest tells little but its memory"),
    49: ("P0", "two pods of different sizes at once"),
    50: ("P0", "equal pods are not swapped"),
    52: ("P0", "several containers, some without units"),
    53: ("P0", "a pod that came around the extender"),
    56: ("P0", "an Allocate that fails leaves nothing locked"),
    58: ("P0", "annotations that a user wrote by hand"),
    59: ("P1", "the kubelet's own choice of IDs"),
    60: ("P1", "PreStartContainer in any order and more than once"),
    62: ("P1", "one of two resources that belong together"),
    63: ("P1", "many short pods around a restart of the plugin"),
    64: ("P1", "a container that restarts is not counted twice"),
    65: ("P0", "filter without nodes, with names or whole nodes alone, or with junk"),
    67: ("P0", "no node is answered that was not asked about"),
    69: ("P1", "a pod whose bind is under way is not counted twice, nor bound twice"),
    70: ("P0", "what we do not know of an object stays: patches of what is ours, never an update"),
    71: ("P0", "every bind that fails says why, and holds nothing that it should not"),
    73: ("P0", "ended pods hold nothing, terminating ones hold all, and nothing goes below free"),
    77: ("P1", "a pod that waits is tried again soon after room came"),
    78: ("P1", "nobody is evicted in vain: victims make room on one card"),
    79: ("P0", "a fit is one card with room, not a sum"),
    80: ("P0", "init containers and sidecars are summed as Kubernetes does"),
    81: ("P0", "a quantity is exact and never cut"),
    82: ("P1", "filter is answered in time in a large cluster"),
    84: ("P1", "nodes without GPUs, and those whose plugin is not there yet"),
    85: ("P0", "an unhealthy card or a node that is away takes nothing new"),
    86: ("P0", "a watch that breaks or is too old is resumed or listed anew"),
    87: ("P0", "a half-open watch is noticed and opened again"),
    88: ("P0", "what was missed while cut off is found; old news is not believed"),
    126: ("P1", "nodes with taints, without GPUs, or with a late driver"),
    127: ("P0", "the extender's pod finds a node in every kind of cluster"),
    128: ("P0", "the scheduler's configuration is of a version that it takes"),
    129: ("P0", "what is granted is what is used"),
    131: ("P0", "a service account's token that turns"),
    132: ("P1", "certificates that turn; nothing blocks or skips the making of pods"),
    133: ("P1", "a configuration that does not work leaves the last good one in force"),
    134: ("P0", "an upgrade leaves running pods alone"),
    137: ("P2", "what is allocatable is not what is free"),
}

REST: Mapping[int, str] = {
    2: "a socket folder apart from kubelet.sock's: not built, there is one `--plugin-dir`",
    22: "the node object's allocatable is not compared: the kubelet itself is asked what it holds",
    24: "inspect: later",
    25: "inspect: later",
    26: "a size by configuration: not built, a GPU without memory info is left out",
    45: "the command line: later",
    46: "not built: the daemon reads no process's memory",
    49: "which pod a call is for by bind time: not built, PodResources and the IDs decide",
    58: "signatures: not built, the admission policy keeps users off the names",
    63: "the command line's counts: later",
    82: "a time is measured (`make bench`), not tested",
    127: "no node is selected, so any will do; the taint of before 1.24 is of no version supported",
    128: "one version, v1, which every supported release takes",
    132: "no webhook is built; the extender's certificates: `tests/extender/test_tls.py`",
    137: "a fact to be told, which the pages do; inspect: later",
}


def test_golden_every_case_is_on_its_page_with_its_tests(golden_rewrite: bool) -> None:
    tests = dict(_tests_by_case())
    rows = [
        f"| B{number:02} | {priority} | {what} | {_names(tests.get(number, ()))}"
        f" | {REST.get(number, '')} |"
        for number, (priority, what) in CASES.items()
    ]
    head = [
        "| case | priority | what must hold | tests | not tested here |",
        "|---|---|---|---|---|",
    ]

    check_recording(PAGE, "cases", "\n".join([*head, *rows]), rewrite=golden_rewrite)


def test_every_case_has_a_test_or_a_reason() -> None:
    tests = dict(_tests_by_case())

    assert [number for number in CASES if number not in tests and number not in REST] == []


def test_every_case_that_a_test_is_named_after_is_on_the_page() -> None:
    assert dict(_tests_by_case()).keys() <= CASES.keys()


def test_no_reason_is_for_a_case_that_is_none() -> None:
    assert REST.keys() <= CASES.keys()


def _tests_by_case() -> Iterator[tuple[int, tuple[str, ...]]]:
    found: dict[int, set[str]] = {}
    for name in _test_names():
        # test_b49_b50_...: one test of two cases; test_b01a_...: one of a case's variants.
        for number in re.findall(r"b(\d{2,3})[a-d]?(?=_)", _prefix(name)):
            found.setdefault(int(number), set()).add(name)
    for number, names in found.items():
        yield number, tuple(sorted(names))


def _prefix(name: str) -> str:
    match = re.match(r"test_((b\d{2,3}[a-d]?_)+)", name)
    return match[1] if match else ""


def _test_names() -> Iterator[str]:
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name


def _names(names: tuple[str, ...]) -> str:
    return "<br>".join(f"`{name}`" for name in names)
