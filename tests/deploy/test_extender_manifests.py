"""The extender's manifests and the admission policies: valid, and true to each other."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate  # type: ignore[import-untyped]

from gpushare_plugin.core.bookkeeping import ALLOCATION, FRAMEWORK_ALLOCATION, MARK
from gpushare_plugin.core.card_count import GPU_COUNT
from gpushare_plugin.core.dialect import ALIYUN, TENCENT
from tests.deploy.manifests import Manifest, manifests, only
from tests.recordings import REPOSITORY

EXTENDER = REPOSITORY / "deploy" / "extender"
ADMISSION = REPOSITORY / "deploy" / "admission"
SIDECAR, SHARED = EXTENDER / "sidecar.yaml", EXTENDER / "shared.yaml"
PODS, PODS_DENY = ADMISSION / "pods.yaml", ADMISSION / "pods-deny.yaml"
ALL_GPUS = ADMISSION / "all-gpus.yaml"
EVERY = [f"1.{minor}" for minor in range(28, 38)]


def named(manifest: Manifest) -> str:
    return f"{manifest['kind']}-{manifest['metadata']['name']}"


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("path", [SIDECAR, SHARED], ids=lambda path: path.stem)
def test_both_ways_to_run_the_extender_are_valid(path: Path, version: str) -> None:
    for manifest in manifests(path):
        assert validate(dict(manifest), version, strict=True) == version, named(manifest)


@pytest.mark.parametrize("version", EVERY[2:])
@pytest.mark.parametrize("path", [PODS, PODS_DENY, ALL_GPUS], ids=lambda path: path.stem)
def test_the_admission_policies_are_valid(path: Path, version: str) -> None:
    for manifest in manifests(path):
        assert validate(dict(manifest), version, strict=True) == version, named(manifest)


@pytest.mark.parametrize("version", ["1.36", "1.37"])
@pytest.mark.parametrize("manifest", manifests(ADMISSION / "scheduler-name.yaml"), ids=named)
def test_the_mutating_policy_is_valid_where_it_exists(manifest: Manifest, version: str) -> None:
    assert validate(dict(manifest), version, strict=True) == version


def scheduler_configuration(path: Path) -> Manifest:
    if path == SIDECAR:
        found: Manifest = yaml.safe_load(only("ConfigMap", path)["data"]["config.yaml"])
        return found
    (found,) = manifests(path)
    return found


CONFIGURATIONS = [SIDECAR, EXTENDER / "shared-scheduler-config.yaml"]


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_kube_scheduler_asks_the_extender_about_every_resource_that_names_cards(path: Path) -> None:
    (extender,) = scheduler_configuration(path)["extenders"]

    names = [each["name"] for each in extender["managedResources"]]
    assert names == [ALIYUN.memory_resource, ALIYUN.core_resource]
    assert not any(each["ignoredByScheduler"] for each in extender["managedResources"])
    assert not extender["ignorable"]
    assert extender["nodeCacheCapable"]


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_kube_scheduler_waits_longer_than_any_call_of_ours_lasts(path: Path) -> None:
    (extender,) = scheduler_configuration(path)["extenders"]

    assert extender["httpTimeout"] == "5s"


def test_the_scheduler_that_the_policy_names_is_the_one_that_is_deployed() -> None:
    (profile,) = scheduler_configuration(SIDECAR)["profiles"]
    mutation = only("MutatingAdmissionPolicy", ADMISSION / "scheduler-name.yaml")["spec"]

    (change,) = mutation["mutations"]
    expression = change["applyConfiguration"]["expression"]
    assert f"schedulerName: '{profile['schedulerName']}'" in expression


def test_the_lease_that_the_extender_reads_is_the_scheduler_s() -> None:
    election = scheduler_configuration(SIDECAR)["leaderElection"]
    containers = only("Deployment", SIDECAR)["spec"]["template"]["spec"]["containers"]
    (role,) = (each for each in manifests(SIDECAR) if each["kind"] == "Role")

    lease = f"{election['resourceNamespace']}/{election['resourceName']}"
    assert f"--scheduler-lease={lease}" in containers[0]["args"]
    assert {"get", "update"} <= verbs_on(role, "leases", election["resourceName"])


def test_plain_http_stays_on_the_pod_s_loopback() -> None:
    for path in (SIDECAR, SHARED):
        containers = only("Deployment", path)["spec"]["template"]["spec"]["containers"]
        arguments = containers[0]["args"]
        (listen,) = (each for each in arguments if each.startswith("--listen-address="))

        with_tls = any(each.startswith("--tls-client-ca=") for each in arguments)
        assert with_tls or listen.startswith("--listen-address=127.0.0.1:")


@pytest.mark.parametrize("path", [SIDECAR, SHARED], ids=lambda path: path.stem)
def test_each_container_is_confined(path: Path) -> None:
    pod = only("Deployment", path)["spec"]["template"]["spec"]

    assert pod["securityContext"]["runAsNonRoot"]
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("path", [SIDECAR, SHARED], ids=lambda path: path.stem)
def test_a_drain_takes_one_of_two(path: Path) -> None:
    deployment = only("Deployment", path)["spec"]
    budget = only("PodDisruptionBudget", path)["spec"]

    assert deployment["replicas"] == 2
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == deployment["selector"]


def test_the_service_leads_to_the_leader_alone() -> None:
    selector = dict(only("Service", SHARED)["spec"]["selector"])
    labels = only("Deployment", SHARED)["spec"]["template"]["metadata"]["labels"]

    assert selector.pop("gpushare.io/leader") == "true"
    assert selector.items() <= labels.items()
    assert "gpushare.io/leader" not in labels


def test_denying_is_the_same_bindings_with_another_action() -> None:
    warned = {named(each): dict(each["spec"]) for each in bindings(PODS)}
    denied = {named(each): dict(each["spec"]) for each in bindings(PODS_DENY)}

    assert [spec.pop("validationActions") for spec in warned.values()] == [["Warn", "Audit"]] * 3
    assert [spec.pop("validationActions") for spec in denied.values()] == [["Deny", "Audit"]] * 3
    assert warned == denied


def test_only_the_administrators_limit_depends_on_a_config_map() -> None:
    # A policy whose parameters cannot be found is passed over as a whole.
    policies = [each for each in manifests(PODS) if each["kind"] == "ValidatingAdmissionPolicy"]

    with_parameters = [named(each) for each in policies if "paramKind" in each["spec"]]

    assert with_parameters == ["ValidatingAdmissionPolicy-gpushare-most-units"]


@pytest.mark.parametrize("path", sorted(ADMISSION.glob("*.yaml")), ids=lambda path: path.stem)
def test_system_pods_and_exempt_namespaces_are_left_alone(path: Path) -> None:
    for binding in bindings(path):
        wanted = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        excluded = {each["key"]: each["values"] for each in wanted if each["operator"] == "NotIn"}

        assert "kube-system" in excluded["kubernetes.io/metadata.name"]
        assert excluded["gpushare.io/admission"] == ["exempt"]


def test_every_variable_that_carries_a_share_is_reserved() -> None:
    reserved, prefixes = (variable("gpushare-pods", name) for name in NAMES)

    for name in environment_names():
        assert f"'{name}'" in reserved or any(
            name.startswith(prefix) for prefix in prefixes.strip("[]").replace("'", "").split(", ")
        )


@pytest.mark.parametrize(
    ("path", "is_plain"),
    [
        ("/data", True),
        ("/data/", True),
        ("/srv/.cache/..data", True),
        ("//etc/gpushare", False),
        ("/etc/./gpushare", False),
        ("/data/../etc/gpushare", False),
        ("/data/..", False),
    ],
)
def test_a_crooked_path_hides_no_mount_from_the_policy(path: str, *, is_plain: bool) -> None:
    """The runtime takes it for the plain one; one without a / at its front as well."""
    mounts = variable("gpushare-pods", "inMounts")

    assert "!string(m.mountPath).startsWith('/')" in mounts
    (pattern,) = re.findall(r"matches\('([^']*)'\)", mounts)
    assert (re.search(pattern, path) is None) is is_plain


def test_every_annotation_that_the_product_writes_is_its_own() -> None:
    ours = variable("gpushare-bookkeeping", "ours")

    for key in (ALLOCATION, MARK, FRAMEWORK_ALLOCATION, TENCENT.annotations.assigned):
        assert f"'{key}'" in ours
    assert str(ALIYUN.annotations.card_index).startswith("ALIYUN_COM_GPU_MEM_")
    assert str(TENCENT.annotations.container_card_index).startswith("tencent.com/predicate-")
    assert GPU_COUNT not in ours


NAMES = ("reserved", "reservedPrefixes")


def environment_names() -> list[str]:
    names = ALIYUN.environment
    found = [
        names.visible_devices,
        names.card_index,
        names.pod_units,
        names.container_units,
        names.card_units,
        names.isolation_off,
    ]
    return [each for each in found if each is not None]


def variable(policy: str, name: str) -> str:
    spec: Any = next(
        each["spec"]
        for each in manifests(PODS)
        if each["kind"] == "ValidatingAdmissionPolicy" and each["metadata"]["name"] == policy
    )
    found: str = next(each["expression"] for each in spec["variables"] if each["name"] == name)
    return found


def bindings(path: Path) -> list[Manifest]:
    return [each for each in manifests(path) if each["kind"].endswith("PolicyBinding")]


def verbs_on(role: Manifest, resource: str, name: str) -> set[str]:
    return {
        verb
        for rule in role["rules"]
        if resource in rule["resources"] and name in rule.get("resourceNames", [name])
        for verb in rule["verbs"]
    }
