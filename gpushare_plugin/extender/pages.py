"""The pages that are read: version, health, readiness, metrics, who uses what.

Rule 1: alive and ready are two questions. Alive: this process answers. Ready: it knows the
cluster. A follower is ready too, so that a rollout goes on; who leads is told by a label.
Rule 2: the inspect page is the original's JSON; a node that is not known is 404 there, and
says so. Knows no HTTP.
"""

from collections.abc import Callable

from gpushare_plugin import __version__
from gpushare_plugin.extender import wire
from gpushare_plugin.extender.calls import NOT_NOW, TEXT_TYPE, Reply
from gpushare_plugin.extender.inspecting import InspectPage
from gpushare_plugin.metrics import CONTENT_TYPE, ExtenderMetrics

NOT_FOUND = 404
INSPECT = "/gpushare-scheduler/inspect"

Inspect = Callable[[str | None], InspectPage | None]
"""Returns the page of one node, or of all; None if there is no such node."""


class Pages:
    """Makes the pages."""

    def __init__(
        self,
        metrics: ExtenderMetrics,
        *,
        not_ready: Callable[[], tuple[str, ...]],
        inspect: Inspect | None = None,
    ) -> None:
        """Without `inspect` there is no such page."""
        self._metrics = metrics
        self._not_ready = not_ready
        self._inspect = inspect

    def page(self, path: str) -> Reply | None:
        """Return the page of a path; None if there is none."""
        match path:
            case "/version":
                return _text(__version__)
            case "/healthz":
                return _text("ok\n")
            case "/readyz":
                problems = self._not_ready()
                text = "".join(f"{problem}\n" for problem in problems) or "ok\n"
                return _text(text, status=NOT_NOW if problems else 200)
            case "/metrics":
                return Reply(body=self._metrics.exposition(), content_type=CONTENT_TYPE)
            case _ if path == INSPECT or path.startswith(f"{INSPECT}/"):
                return self._inspect_page(path.removeprefix(INSPECT).strip("/"))
            case _:
                return None

    def _inspect_page(self, node_name: str) -> Reply | None:
        if self._inspect is None or "/" in node_name:
            return None
        found = self._inspect(node_name or None)
        if found is not None:
            return Reply(body=wire.inspect_result(found))
        error = f"node {node_name!r}: the API server has told of no such node"
        return Reply(body=wire.inspect_result(InspectPage(nodes=()), error=error), status=NOT_FOUND)


def _text(text: str, *, status: int = 200) -> Reply:
    return Reply(body=text.encode(), status=status, content_type=TEXT_TYPE)
