"""The reply to filter, as bytes: what is known of a list, and of an answer, is kept.

Rule 1: it answers in kind: names to names, and to Node objects these same objects.
Rule 2: an answer that is the same object has the same bytes.
"""

from collections import OrderedDict
from itertools import compress
from weakref import WeakKeyDictionary

from gpushare_plugin.extender.filtering import Filtered
from gpushare_plugin.extender.names import NameList
from gpushare_plugin.extender.wire import ExtenderArgs, Json, encoded

MOST_REPLIES = 16
"""Of 5,000 names one has up to 400 KB."""


class FilterReplies:
    """Makes the replies, and remembers the last ones."""

    def __init__(self) -> None:
        # Which names of a list fitted last, and their JSON: from pod to pod they seldom differ.
        self._names: WeakKeyDictionary[NameList, tuple[bytes, bytes]] = WeakKeyDictionary()
        # The answer is held beside its bytes, so that its id stays its own.
        self._replies: OrderedDict[int, tuple[Filtered, bytes]] = OrderedDict()

    def reply(self, args: ExtenderArgs, answer: Filtered) -> bytes:
        """Return the ExtenderFilterResult."""
        if args.nodes is not None:
            items = b",".join(map(memoryview, compress(args.nodes, answer.fits)))
            return _result(b'{"metadata":{},"items":[' + items + b"]}", b"null", answer)
        kept = self._replies.get(id(answer))
        if kept is not None:
            self._replies.move_to_end(id(answer))
            return kept[1]
        body = _result(b"null", self._fitting_names(args.names, answer.fits), answer)
        self._replies[id(answer)] = (answer, body)
        if len(self._replies) > MOST_REPLIES:
            self._replies.popitem(last=False)
        return body

    def _fitting_names(self, names: NameList, fits: bytes) -> bytes:
        known = self._names.get(names)
        if known is None or known[0] != fits:
            known = self._names[names] = (fits, encoded(list(compress(names.names, fits))))
        return known[1]


def _result(nodes: Json, names: bytes, answer: Filtered) -> bytes:
    return b"".join(
        (
            b'{"Nodes":',
            nodes,
            b',"NodeNames":',
            names,
            b',"FailedNodes":',
            encoded(answer.failed),
            b',"FailedAndUnresolvableNodes":',
            encoded(answer.unresolvable),
            b',"Error":""}',
        )
    )
