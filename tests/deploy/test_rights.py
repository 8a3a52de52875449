"""What the node daemon may do in the cluster: by RBAC, and what the policy takes off again."""

import re

import pytest

from gpushare_plugin.adapters.kube.recorder import COMPONENT
from gpushare_plugin.core.bookkeeping import ALLOCATION, FRAMEWORK_ALLOCATION
from gpushare_plugin.core.dialect import DIALECTS, Dialect
from gpushare_plugin.core.node_record import GPUS, HEALTH, LABEL_PREFIX, LABELS
from tests.deploy.manifests import (
    NODE_POLICY,
    Manifest,
    granted_rules,
    manifests,
    only,
    pod,
    service_account,
)

NODE_CLAIM = "authentication.kubernetes.io/node-name"
READING = {"list", "watch"}
LISTED = re.compile(r"k in \[(?P<keys>[^\]]+)\]")
QUOTED = re.compile(r"'(?P<key>[^']+)'")
BEGINS = re.compile(r"k\.startsWith\('(?P<prefix>[^']+)'\)")


def policies() -> list[Manifest]:
    return [each for each in manifests(NODE_POLICY) if each["kind"] == "ValidatingAdmissionPolicy"]


def policy(resource: str) -> Manifest:
    """Return the policy that decides about one resource."""
    (found,) = (
        each
        for each in policies()
        for rule in each["spec"]["matchConstraints"]["resourceRules"]
        if resource in rule["resources"]
    )
    return found


def variable(resource: str, name: str) -> str:
    (found,) = (
        str(each["expression"])
        for each in policy(resource)["spec"]["variables"]
        if each["name"] == name
    )
    return found


def expressions(resource: str) -> str:
    return "\n".join(each["expression"] for each in policy(resource)["spec"]["validations"])


def allowed_keys(resource: str) -> tuple[set[str], tuple[str, ...]]:
    """Return the keys that may change, and what others begin with."""
    expression = variable(resource, "foreignKeys")
    listed = " ".join(match["keys"] for match in LISTED.finditer(expression))
    keys = {match["key"] for match in QUOTED.finditer(listed)}
    return keys, tuple(match["prefix"] for match in BEGINS.finditer(expression))


def pod_keys(dialect: Dialect) -> set[str]:
    """Return the annotations that the node daemon writes on pods."""
    names = dialect.annotations
    of_dialect = (
        names.assigned,
        names.assume_time,
        names.card_index,
        names.pod_units,
        names.card_units,
        names.node,
    )
    return {ALLOCATION, FRAMEWORK_ALLOCATION, *(key for key in of_dialect if key)}


def numbered_keys(dialect: Dialect) -> set[str]:
    """Return what the annotations begin with that are written by container number."""
    key = dialect.annotations.container_card_index
    return {key.removesuffix("{}")} if key else set()


NODE_KEYS = {GPUS, HEALTH, *(f"{LABEL_PREFIX}{name}" for name in LABELS)}
ALL_POD_KEYS = {key for dialect in DIALECTS.values() for key in pod_keys(dialect)}


# ----------------------------------------------------------------------------------- RBAC


def test_b129_nothing_is_granted_by_wildcard() -> None:
    assert not any("*" in part for rule in granted_rules() for part in rule)


def test_b129_of_objects_it_changes_the_status_alone_and_its_events() -> None:
    changing = {(verb, resource) for verb, _, resource in granted_rules() if verb not in READING}

    assert changing == {
        ("patch", "nodes/status"),
        ("patch", "pods/status"),
        ("create", "events"),
        ("patch", "events"),
    }


def test_b129_it_reads_nodes_and_pods_and_nothing_else() -> None:
    reading = {resource for verb, _, resource in granted_rules() if verb in READING}

    assert reading == {"nodes", "pods"}


def test_everything_is_in_the_core_group() -> None:
    assert {group for _, group, _ in granted_rules()} == {""}


def test_the_role_is_bound_to_the_account_that_the_daemon_runs_as() -> None:
    binding, account = only("ClusterRoleBinding"), only("ServiceAccount")["metadata"]

    assert binding["roleRef"]["name"] == only("ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert pod()["serviceAccountName"] == account["name"]


# -------------------------------------------------------------------------------- policy


def test_every_right_to_write_has_a_policy_over_it() -> None:
    written = {resource for verb, _, resource in granted_rules() if verb not in READING}

    covered = {
        resource
        for each in policies()
        for rule in each["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
    }

    assert covered == written


@pytest.mark.parametrize("each", policies(), ids=lambda each: each["metadata"]["name"])
def test_a_policy_is_about_the_daemon_s_own_account_and_fails_closed(each: Manifest) -> None:
    (condition,) = each["spec"]["matchConditions"]

    assert condition["expression"] == f"request.userInfo.username == '{service_account()}'"
    assert each["spec"]["failurePolicy"] == "Fail"


@pytest.mark.parametrize("each", policies(), ids=lambda each: each["metadata"]["name"])
def test_a_policy_is_in_force(each: Manifest) -> None:
    bindings = [
        one["spec"]
        for one in manifests(NODE_POLICY)
        if one["kind"] == "ValidatingAdmissionPolicyBinding"
        and one["spec"]["policyName"] == each["metadata"]["name"]
    ]

    assert bindings == [{"policyName": each["metadata"]["name"], "validationActions": ["Deny"]}]


@pytest.mark.parametrize("each", policies(), ids=lambda each: each["metadata"]["name"])
def test_a_token_that_names_no_node_is_denied(each: Manifest) -> None:
    (node,) = (one for one in each["spec"]["variables"] if one["name"] == "node")

    assert f"[?'{NODE_CLAIM}']" in node["expression"]
    assert node["expression"].endswith(".orValue('')")
    assert each["spec"]["validations"][0]["expression"] == "variables.node != ''"


def test_only_its_own_node_and_the_pods_of_its_own_node_may_be_written() -> None:
    assert "variables.node == object.metadata.name" in expressions("nodes/status")
    assert "variables.node == oldObject.spec.?nodeName.orValue('')" in expressions("pods/status")


@pytest.mark.parametrize("name", DIALECTS)
def test_what_the_daemon_writes_on_pods_is_allowed(name: str) -> None:
    keys, prefixes = allowed_keys("pods/status")

    assert pod_keys(DIALECTS[name]) <= keys
    assert numbered_keys(DIALECTS[name]) <= set(prefixes)


def test_what_the_daemon_writes_on_its_node_is_allowed() -> None:
    keys, prefixes = allowed_keys("nodes/status")

    assert {key for key in NODE_KEYS if key not in keys and not key.startswith(prefixes)} == set()


def test_nothing_is_allowed_on_pods_that_the_daemon_does_not_write() -> None:
    keys, prefixes = allowed_keys("pods/status")

    assert keys == ALL_POD_KEYS
    assert set(prefixes) == {each for names in DIALECTS.values() for each in numbered_keys(names)}


def test_nothing_is_allowed_on_its_node_that_the_daemon_does_not_write() -> None:
    keys, prefixes = allowed_keys("nodes/status")

    assert keys <= NODE_KEYS
    assert all(any(key.startswith(prefix) for key in NODE_KEYS) for prefix in prefixes)


def test_of_a_node_s_resources_only_the_count_of_cards_may_change() -> None:
    counted = [each.count_resource for each in DIALECTS.values() if each.count_resource]

    assert variable("nodes/status", "foreignResources").endswith(f"!(k in {counted}))")
    assert variable("nodes/status", "foreignStatus").endswith(
        "!(k in ['capacity', 'allocatable']))"
    )


def test_an_event_says_who_wrote_it_and_where() -> None:
    written = expressions("events")

    assert f"dyn(object).?source.?component.orValue('') == '{COMPONENT}'" in written
    assert "dyn(object).?source.?host.orValue('') == variables.node" in written
    assert "dyn(oldObject).?source.?host.orValue('') == variables.node" in written
