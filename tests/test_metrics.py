"""What a scrape shows: states computed then, events counted when they happened."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from gpushare_plugin.metrics import (
    CardState,
    ContainerShare,
    ExtenderMetrics,
    ExtenderState,
    NodeMetrics,
    NodeState,
    PluginState,
)

T4 = CardState(
    index=0,
    uuid="GPU-a",
    model="Tesla T4",
    units=15,
    allocated_units=4,
    healthy=True,
    watched=True,
)
MEMORY = PluginState(resource="aliyun.com/gpu-mem", registered=True, list_streams=1)
STATE = NodeState(
    plugins=(MEMORY,),
    isolation="none",
    enforced=False,
    nvml_up=True,
    gpus_left_out=0,
    cards=(T4,),
    containers=(
        ContainerShare(namespace="default", pod="a", container="main", uuid="GPU-a", units=4),
    ),
    build={"version": "1"},
)

CARD = (("index", "0"), ("model", "Tesla T4"), ("uuid", "GPU-a"))


def samples(
    metrics: NodeMetrics | ExtenderMetrics,
) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def showing(state: NodeState) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    metrics = NodeMetrics()
    metrics.show(lambda: state)
    return samples(metrics)


def test_a_card_is_shown_with_its_units_what_is_held_and_its_health() -> None:
    shown = showing(STATE)

    assert shown["gpushare_card_units"] == {CARD: 15}
    assert shown["gpushare_card_allocated_units"] == {CARD: 4}
    assert shown["gpushare_card_healthy"] == {CARD: 1}
    assert shown["gpushare_card_watched"] == {CARD: 1}


def test_a_sick_and_an_unwatched_card_are_two_things() -> None:
    shown = showing(replace(STATE, cards=(replace(T4, healthy=False, watched=False),)))

    assert shown["gpushare_card_healthy"] == {CARD: 0}
    assert shown["gpushare_card_watched"] == {CARD: 0}


def test_b26_what_is_not_known_is_left_out_and_the_scrape_goes_on() -> None:
    shown = showing(replace(STATE, cards=(replace(T4, allocated_units=None),), containers=()))

    assert "gpushare_card_allocated_units" not in shown
    assert "gpushare_container_units" not in shown
    assert shown["gpushare_card_units"] == {CARD: 15}


def test_a_containers_share_is_shown_with_pod_and_card() -> None:
    shown = showing(STATE)

    labels = (("container", "main"), ("namespace", "default"), ("pod", "a"), ("uuid", "GPU-a"))
    assert shown["gpushare_container_units"] == {labels: 4}


@pytest.mark.parametrize("enforced", [True, False])
def test_the_isolation_in_force_says_honestly_whether_it_enforces(*, enforced: bool) -> None:
    shown = showing(replace(STATE, isolation="driver", enforced=enforced))

    assert shown["gpushare_isolation_info"] == {
        (("enforced", "true" if enforced else "false"), ("isolation", "driver")): 1
    }


@pytest.mark.parametrize(
    ("name", "later"),
    [
        ("gpushare_nvml_up", replace(STATE, nvml_up=False)),
        ("gpushare_registered", replace(STATE, plugins=(replace(MEMORY, registered=False),))),
        ("gpushare_list_streams", replace(STATE, plugins=(replace(MEMORY, list_streams=0),))),
    ],
)
def test_a_state_is_computed_at_the_scrape_so_it_cannot_go_stale(
    name: str, later: NodeState
) -> None:
    states = [STATE]
    metrics = NodeMetrics()
    metrics.show(lambda: states[-1])
    before = samples(metrics)[name]
    states.append(later)

    after = samples(metrics)[name]
    assert before.keys() == after.keys()
    assert ([*before.values()], [*after.values()]) == ([1], [0])


def test_events_are_counted_by_their_labels() -> None:
    metrics = NodeMetrics()
    metrics.registrations.inc()
    metrics.xids.labels("GPU-a", "79").inc()
    metrics.xids.labels("GPU-a", "79").inc()
    metrics.allocate_refusals.labels("several_cards").inc()
    metrics.allocate_seconds.observe(0.003)

    shown = samples(metrics)

    assert shown["gpushare_registrations_total"] == {(): 1}
    assert shown["gpushare_xids_total"] == {(("uuid", "GPU-a"), ("xid", "79")): 2}
    assert shown["gpushare_allocate_refusals_total"] == {(("cause", "several_cards"),): 1}
    assert shown["gpushare_allocate_seconds_count"] == {(): 1}
    assert shown["gpushare_allocate_seconds_bucket"][("le", "0.0025"),] == 0
    assert shown["gpushare_allocate_seconds_bucket"][("le", "0.005"),] == 1


def test_there_is_no_series_of_when_each_counter_was_made() -> None:
    metrics = NodeMetrics()
    metrics.registrations.inc()

    assert not any(name.endswith("_created") for name in samples(metrics))


def test_every_metric_has_our_prefix_and_a_help_that_is_a_sentence() -> None:
    metrics = NodeMetrics()
    metrics.show(lambda: STATE)

    families = list(text_string_to_metric_families(metrics.exposition().decode()))

    assert all(family.name.startswith("gpushare_") for family in families)
    assert all(family.documentation.endswith(".") for family in families)


def test_labels_with_odd_characters_survive_the_text_format() -> None:
    odd = 'two\nlines "quoted" \\ \N{GREEK SMALL LETTER MU}'

    shown = showing(replace(STATE, cards=(replace(T4, model=odd),)))

    [labels] = shown["gpushare_card_units"]
    assert dict(labels)["model"] == odd


def test_metrics_of_two_daemons_in_one_process_do_not_mix() -> None:
    registry = CollectorRegistry()
    one, other = NodeMetrics(registry), NodeMetrics()

    one.registrations.inc()

    assert samples(one)["gpushare_registrations_total"] == {(): 1}
    assert samples(other)["gpushare_registrations_total"] == {(): 0}
    assert one.registry is registry


def test_the_age_of_what_the_watches_told_is_shown_only_where_something_is_watched() -> None:
    shown = showing(replace(STATE, stale_seconds={"pods": 1.5, "node": 60.0}))

    assert shown["gpushare_watch_stale_seconds"] == {
        (("what", "pods"),): 1.5,
        (("what", "node"),): 60,
    }
    assert "gpushare_watch_stale_seconds" not in showing(STATE)


# ------------------------------------------------------------------------- the extender


EXTENDER = ExtenderState(
    leads=False,
    generation=7,
    nodes=2,
    total_units=46,
    used_units=50,
    pods=3,
    assumptions={"in_flight": 0, "doubtful": 1},
    stale_seconds={"pods": 1.5},
    build={"version": "1"},
)


def test_the_extenders_state_is_shown_as_it_is_at_the_scrape() -> None:
    metrics = ExtenderMetrics()
    assert "gpushare_extender_units" not in samples(metrics)

    metrics.show(lambda: EXTENDER)
    shown = samples(metrics)

    values = {
        "gpushare_extender_leads": 0,
        "gpushare_extender_generation": 7,
        "gpushare_extender_nodes": 2,
        "gpushare_extender_units": 46,
        "gpushare_extender_used_units": 50,
        "gpushare_extender_pods": 3,
    }
    assert {name: shown[name][()] for name in values} == values
    assert shown["gpushare_extender_assumptions"] == {
        (("state", "in_flight"),): 0,
        (("state", "doubtful"),): 1,
    }
    assert shown["gpushare_extender_watch_stale_seconds"] == {(("what", "pods"),): 1.5}


def test_durations_are_counted_apart_by_their_label() -> None:
    metrics = ExtenderMetrics()
    metrics.call_seconds.observe(0.0007, "filter")
    metrics.call_seconds.observe(2.0, "filter")
    metrics.call_seconds.observe(0.1, "bind")
    shown = samples(metrics)

    assert shown["gpushare_extender_call_seconds_count"] == {
        (("verb", "filter"),): 2,
        (("verb", "bind"),): 1,
    }
    buckets = shown["gpushare_extender_call_seconds_bucket"]
    assert buckets[(("le", "0.001"), ("verb", "filter"))] == 1
    assert buckets[(("le", "0.1"), ("verb", "bind"))] == 1
    assert shown["gpushare_extender_call_seconds_sum"][(("verb", "filter"),)] == pytest.approx(
        2.0007
    )
