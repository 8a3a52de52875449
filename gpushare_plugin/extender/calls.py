"""A scheduler's call: bytes in, a reply out, whatever happens in between.

Rule 1: what goes wrong is said where the scheduler reads it. Filter and bind have a field
for it in a 200, and kube-scheduler drops the body of anything else. Prioritize and preempt
have none: there a status other than 200 says it.
Rule 2: an error that nobody foresaw is told with its traceback, answered, and the process
lives: the next pod has nothing to do with it.
Rule 3: who does not lead says so by 503 and closes the connection, so that the scheduler's
next one is made to whoever leads by then.
Knows no HTTP.
"""

import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import GpushareError
from gpushare_plugin.extender import wire
from gpushare_plugin.extender.binding import PodBinding
from gpushare_plugin.extender.filter_result import FilterReplies
from gpushare_plugin.extender.filtering import Filtered, Filtering
from gpushare_plugin.extender.gate import Gate
from gpushare_plugin.extender.preempting import Preempting
from gpushare_plugin.extender.prioritizing import Prioritizing
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import ExtenderMetrics

log = event_logger(__name__)

OK = 200
BAD_REQUEST = 400
INTERNAL_ERROR = 500
NOT_NOW = 503

JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"


class Verb(Enum):
    """What a scheduler asks; the value is the end of the path, and the metric's label."""

    FILTER = "filter"
    PRIORITIZE = "prioritize"
    BIND = "bind"
    PREEMPT = "preempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is sent back."""

    body: bytes
    status: int = OK
    content_type: str = JSON_TYPE
    closes: bool = False
    """Whether the connection ends with it."""


FOLLOWER = Reply(
    body=b"this extender does not lead; ask again\n",
    status=NOT_NOW,
    content_type=TEXT_TYPE,
    closes=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbs:
    """Those who decide."""

    filtering: Filtering
    prioritizing: Prioritizing
    preempting: Preempting
    binding: PodBinding


class Calls:
    """Answers the scheduler."""

    def __init__(
        self,
        verbs: Verbs,
        args: wire.ArgsReader,
        gate: Gate,
        metrics: ExtenderMetrics,
        clock: Callable[[], float],
        *,
        asked: Callable[[Pod, Filtered], None],
    ) -> None:
        """`clock` is monotonic, in seconds; `asked` is told what filter answered for a pod."""
        self._verbs = verbs
        self._args = args
        self._gate = gate
        self._metrics = metrics
        self._clock = clock
        self._asked = asked
        self._replies = FilterReplies()
        self._answers: dict[Verb, Callable[[bytes], Awaitable[_Answer]]] = {
            Verb.FILTER: self._filter,
            Verb.PRIORITIZE: self._prioritize,
            Verb.BIND: self._bind,
            Verb.PREEMPT: self._preempt,
        }

    async def answer(self, verb: Verb, body: bytes) -> Reply:
        """Return the reply to a call; raises nothing but CancelledError."""
        begun_seconds = self._clock()
        reply, result = await self._replied(verb, body)
        self._metrics.answers.labels(verb.value, result).inc()
        self._metrics.call_seconds.observe(self._clock() - begun_seconds, verb.value)
        return reply

    async def _replied(self, verb: Verb, body: bytes) -> tuple[Reply, str]:
        if not self._gate.leads:
            return FOLLOWER, "follower"
        try:
            refusal = await self._gate.refusal(writing=verb is Verb.BIND)
            if refusal is not None:
                log.warning("call_refused", verb=verb.value, reason=refusal)
                return error_reply(verb, refusal, NOT_NOW), "refused"
            answer = await self._answers[verb](body)
        except GpushareError as error:
            log.warning("call_not_understood", verb=verb.value, error=error)
            return error_reply(verb, f"{verb.value}: {error}", BAD_REQUEST), "error"
        except Exception as error:  # noqa: BLE001  # rule 2
            log.error(
                "call_failed",
                verb=verb.value,
                error=repr(error),
                traceback=traceback.format_exc(),
            )
            text = f"{verb.value}: internal error ({type(error).__name__}); see the extender's log"
            return error_reply(verb, text, INTERNAL_ERROR), "failed"
        return Reply(body=answer.body), "error" if answer.is_error else "ok"

    async def _filter(self, body: bytes) -> "_Answer":
        args = self._args.extender_args(body)
        answer = self._verbs.filtering.filter(args.pod, args.names)
        self._asked(args.pod, answer)
        return _Answer(self._replies.reply(args, answer))

    async def _prioritize(self, body: bytes) -> "_Answer":
        args = self._args.extender_args(body)
        return _Answer(
            wire.host_priorities(self._verbs.prioritizing.prioritize(args.pod, args.names))
        )

    async def _bind(self, body: bytes) -> "_Answer":
        text = await self._verbs.binding.bind(self._args.binding_args(body))
        return _Answer(wire.binding_result(text), is_error=bool(text))

    async def _preempt(self, body: bytes) -> "_Answer":
        args = self._args.preemption_args(body)
        return _Answer(
            wire.preemption_result(self._verbs.preempting.preempt(args.pod, args.victims))
        )


@dataclass(frozen=True, slots=True)
class _Answer:
    body: bytes
    is_error: bool = False


def error_reply(verb: Verb, text: str, status: int) -> Reply:
    """Return what says to a scheduler that there is no answer: in a 200 where it reads that."""
    match verb:
        case Verb.FILTER:
            return Reply(body=wire.filter_error(text))
        case Verb.BIND:
            return Reply(body=wire.binding_result(text))
        case Verb.PRIORITIZE | Verb.PREEMPT:
            return Reply(body=f"{text}\n".encode(), status=status, content_type=TEXT_TYPE)
