"""When the extender does not answer: before it knows the cluster, and when what it knows is old."""

from dataclasses import dataclass

from gpushare_plugin.extender.gate import Freshness
from gpushare_plugin.extender.joined_gate import JoinedGate


@dataclass
class Watched:
    stale_seconds: float


async def said(nodes: float, pods: float, *, synced: bool = True) -> str | None:
    watches = {"nodes": Watched(nodes), "pods": Watched(pods)}
    gate = Freshness(watches, synced=lambda: synced, limit_seconds=150)
    assert gate.leads
    return await gate.refusal(writing=True)


async def test_it_answers_while_each_picture_is_young_enough() -> None:
    assert await said(150.0, 60.0) is None


async def test_the_picture_that_is_too_old_is_named_with_its_age_and_the_limit() -> None:
    text = await said(10.0, 200.4)

    assert text is not None
    assert "nothing of pods for 200 s (limit 150 s, --stale-seconds)" in text


async def test_it_does_not_answer_before_it_knows_the_cluster() -> None:
    assert "does not know the cluster yet" in (await said(0.0, 0.0, synced=False) or "")


@dataclass
class Fixed:
    """A gate that always says the same."""

    leads: bool = True
    text: str | None = None

    async def refusal(self, *, writing: bool) -> str | None:
        del writing
        return self.text


async def test_of_several_gates_the_first_that_refuses_says_why_and_all_must_lead() -> None:
    assert JoinedGate(Fixed(), Fixed()).leads
    assert not JoinedGate(Fixed(), Fixed(leads=False)).leads
    assert await JoinedGate(Fixed(), Fixed()).refusal(writing=True) is None
    both = JoinedGate(Fixed(), Fixed(text="one"), Fixed(text="two"))
    assert await both.refusal(writing=False) == "one"
