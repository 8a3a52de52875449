"""The reply to filter, as bytes: what is known of a list, and of an answer, is kept.

Rule 1: it answers in kind: names to names, and to Node objects these same objects.
Rule 2: an answer that is the same object has the same bytes.
"""

from collections import OrderedDict
from weakref import WeakKeyDictionary

from gpushare_plugin.extender.filtering import Filtered
from gpushare_plugin.extender.names import NameList
from gpushare_plugin.extender.wire import ExtenderArgs, Json, encoded

MOST_REPLIES = 16
"""Of 5,000 names one has up to 400 KB."""


class _EncodedNames:
    """The names of one list as JSON, and those of them that fitted last."""

    def __init__(self, names: NameList) -> None:
        self._names = [encoded(name) for name in names.names]
        self._last: tuple[tuple[int, ...], bytes] = ((), b"")

    def joined(self, places: tuple[int, ...]) -> bytes:
        """Return the names of these places with commas; from pod to pod they seldom differ."""
        if places != self._last[0]:
            self._last = (places, b",".join(map(self._names.__getitem__, places)))
        return self._last[1]


class FilterReplies:
    """Makes the replies, and remembers the last ones."""

    def __init__(self) -> None:
        self._names: WeakKeyDictionary[NameList, _EncodedNames] = WeakKeyDictionary()
        # The answer is held beside its bytes, so that its id stays its own.
        self._replies: OrderedDict[int, tuple[Filtered, bytes]] = OrderedDict()

    def reply(self, args: ExtenderArgs, answer: Filtered) -> bytes:
        """Return the ExtenderFilterResult."""
        if args.nodes is not None:
            items = b",".join([memoryview(args.nodes[place]) for place in answer.fitting])
            return _result(b'{"metadata":{},"items":[' + items + b"]}", b"null", answer)
        kept = self._replies.get(id(answer))
        if kept is not None:
            self._replies.move_to_end(id(answer))
            return kept[1]
        names = self._encoded(args.names).joined(answer.fitting)
        body = _result(b"null", b"[" + names + b"]", answer)
        self._replies[id(answer)] = (answer, body)
        if len(self._replies) > MOST_REPLIES:
            self._replies.popitem(last=False)
        return body

    def _encoded(self, names: NameList) -> _EncodedNames:
        known = self._names.get(names)
        if known is None:
            known = self._names[names] = _EncodedNames(names)
        return known


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
