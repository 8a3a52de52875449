"""What the three kinds of patch do to a value; no server."""

from typing import Any

import pytest

from gpushare_plugin.sim.apiserver.json_patch import PatchFailed, patched
from gpushare_plugin.sim.apiserver.merge_patch import merged, strategically_merged


@pytest.mark.parametrize(
    ("value", "patch", "result"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1}, {"b": {"c": None, "d": 1}}, {"a": 1, "b": {"d": 1}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_a_merge_patch_merges_maps_and_replaces_the_rest(
    value: Any, patch: Any, result: Any
) -> None:
    assert merged(value, patch) == result


ENV = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}


@pytest.mark.parametrize(
    ("value", "patch", "result"),
    [
        (
            ENV,
            {"env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
            {
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "value": "3"},
                    {"name": "C", "value": "4"},
                ]
            },
        ),
        (
            ENV,
            {"env": [{"name": "A", "$patch": "delete"}], "$setElementOrder/env": [{"name": "B"}]},
            {"env": [{"name": "B", "value": "2"}]},
        ),
        (ENV, {"env": [{"$patch": "replace"}, {"name": "Z"}]}, {"env": [{"name": "Z"}]}),
        (ENV, {"env": None}, {}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"$retainKeys": ["c"], "c": 3}}, {"a": {"c": 3}}),
        (
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
        ),
        ({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["a", "b"]}),
        (
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
        ),
        (
            {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]},
            {"conditions": [{"type": "Ready", "status": "True"}]},
            {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}]},
        ),
    ],
)
def test_a_strategic_merge_patch_merges_lists_by_their_keys(
    value: Any, patch: Any, result: Any
) -> None:
    assert strategically_merged(value, patch) == result


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a/b~1c", "value": 1}, {"a": {"b/c": 1}, "l": [1, 2]}),
        ({"op": "add", "path": "/l/-", "value": 3}, {"a": {}, "l": [1, 2, 3]}),
        ({"op": "add", "path": "/l/0", "value": 0}, {"a": {}, "l": [0, 1, 2]}),
        ({"op": "replace", "path": "/l/1", "value": 9}, {"a": {}, "l": [1, 9]}),
        ({"op": "replace", "path": "/a", "value": 9}, {"a": 9, "l": [1, 2]}),
        ({"op": "remove", "path": "/l/0"}, {"a": {}, "l": [2]}),
        ({"op": "remove", "path": "/a"}, {"l": [1, 2]}),
        ({"op": "test", "path": "/l/0", "value": 1}, {"a": {}, "l": [1, 2]}),
    ],
)
def test_a_json_patch_changes_what_its_path_says(operation: Any, result: Any) -> None:
    value: dict[str, Any] = {"a": {}, "l": [1, 2]}

    assert patched(value, [operation]) == result
    assert value == {"a": {}, "l": [1, 2]}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/x"},
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "test", "path": "/l/0", "value": 2},
        {"op": "test", "path": "/x", "value": 2},
    ],
)
def test_a_json_patch_that_does_not_fit_fails(operation: Any) -> None:
    with pytest.raises(PatchFailed):
        patched({"l": [1, 2]}, [operation])
