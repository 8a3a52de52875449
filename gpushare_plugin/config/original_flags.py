"""The original gpushare plugin's command line, so that its manifests keep working.

Its flags come in Go's style: one dash or two, `--flag value` or `--flag=value`,
switches as `--flag` or `--flag=false`. What ours has too is passed on; what has no
meaning here is dropped, with a warning that says why.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_RENAMED = {"health-check": "health"}

_NO_CLIENT = "the kubelet's own sockets are asked, with no credentials"
_GLOG = "logs go to standard error; --log-level sets how much"

_DROPPED = {
    "mps": "it never had an effect",
    "query-kubelet": _NO_CLIENT,
    "kubelet-address": _NO_CLIENT,
    "kubelet-port": _NO_CLIENT,
    "client-cert": _NO_CLIENT,
    "client-key": _NO_CLIENT,
    "token": _NO_CLIENT,
    "timeout": _NO_CLIENT,
    "logtostderr": _GLOG,
    "alsologtostderr": _GLOG,
    "stderrthreshold": _GLOG,
    "v": _GLOG,
    "vmodule": _GLOG,
    "log_dir": _GLOG,
    "log_backtrace_at": _GLOG,
}

_SWITCHES = frozenset({"mps", "query-kubelet", "logtostderr", "alsologtostderr"})
"""Go's switches take a value only behind `=`."""

_FLAG = re.compile(r"--?(?P<name>[A-Za-z][A-Za-z0-9_-]*)(?:=(?P<value>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """A command line in our words, and what was dropped from it, each with its reason."""

    arguments: tuple[str, ...]
    warnings: tuple[tuple[str, str], ...] = ()


def take_over(arguments: Sequence[str]) -> TakenOver:
    """Return the command line with the original's flags renamed or dropped."""
    ours: list[str] = []
    warnings: list[tuple[str, str]] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        match = _FLAG.fullmatch(argument)
        if match is None:
            ours.append(argument)
            continue
        name, value = match["name"], match["value"]
        if name in _DROPPED:
            warnings.append((f"--{name}", _DROPPED[name]))
            if value is None and name not in _SWITCHES and rest:
                rest.pop(0)
            continue
        # One letter behind one dash stays what it is, such as -h.
        dashes = "--" if len(name) > 1 else argument[: argument.index(name)]
        ours.append(dashes + _RENAMED.get(name, name) + ("" if value is None else f"={value}"))
    return TakenOver(arguments=tuple(ours), warnings=tuple(warnings))
