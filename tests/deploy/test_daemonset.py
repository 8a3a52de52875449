"""What the DaemonSet promises to a node."""

import pytest

import gpushare_plugin
from gpushare_plugin.config import NodeConfig, settings
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.status import StatusPages
from tests.deploy.manifests import (
    DAEMON_SET,
    Manifest,
    container,
    environment,
    manifests,
    only,
    pod,
)

RECOMMENDED_LABELS = {"name", "instance", "version", "component", "part-of", "managed-by"}
LABEL_DOMAIN = "app.kubernetes.io/"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
ALIVENESS_SECONDS = 2
"""How long the daemon itself asks its plugin for a sign of life."""


def labels_of_all() -> dict[str, Manifest]:
    found = {each["kind"]: each["metadata"]["labels"] for each in manifests(DAEMON_SET)}
    return found | {"Pod": only("DaemonSet")["spec"]["template"]["metadata"]["labels"]}


async def nothing_wrong() -> tuple[str, ...]:
    return ()


# ------------------------------------------------------------------------ who it runs on


def test_it_runs_where_a_person_has_labelled_the_node() -> None:
    assert pod()["nodeSelector"] == {"kubernetes.io/os": "linux", "gpushare": "true"}
    assert "affinity" not in pod()


def test_b126_no_taint_keeps_it_off_a_labelled_node() -> None:
    assert pod()["tolerations"] == [{"operator": "Exists"}]


def test_b126_a_node_without_gpu_or_with_a_late_driver_is_not_restarted() -> None:
    # /healthz is ok there (tests/node), /readyz is not.
    for probe in ("startupProbe", "livenessProbe"):
        assert container()[probe]["httpGet"]["path"] == "/healthz"
    assert container()["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_node_under_pressure_keeps_it() -> None:
    assert pod()["priorityClassName"] == "system-node-critical"
    assert only("DaemonSet")["metadata"]["namespace"] == "kube-system"


# ---------------------------------------------------------------------------- its upgrade


def test_b134_two_daemons_never_stand_on_one_node() -> None:
    assert only("DaemonSet")["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }


def test_it_has_time_to_leave_the_kubelet_in_order() -> None:
    assert pod()["terminationGracePeriodSeconds"] > ALIVENESS_SECONDS


def test_the_image_is_the_one_of_this_version() -> None:
    assert container()["image"] == f"gpushare:{gpushare_plugin.__version__}"


# --------------------------------------------------------------------------- what it may do


def test_it_shares_no_namespace_with_the_host() -> None:
    assert {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"}.isdisjoint(pod())


def test_it_has_no_privilege_and_no_capability() -> None:
    assert container()["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_it_is_root_as_the_plugin_folder_is() -> None:
    assert pod()["securityContext"]["runAsUser"] == 0


def test_of_the_node_it_sees_what_its_settings_name_and_writes_the_plugin_folder() -> None:
    config = NodeConfig()
    paths = {each["name"]: each.get("hostPath", {}).get("path") for each in pod()["volumes"]}

    mounts = {
        each["mountPath"]: not each.get("readOnly", False) for each in container()["volumeMounts"]
    }

    assert mounts == {
        str(config.plugin_dir): True,
        str(config.pod_resources_socket.parent): False,
        **{str(folder): False for folder in config.cdi_dirs},
        "/tmp": True,  # noqa: S108  # a volume of its own
    }
    for mount in container()["volumeMounts"]:
        assert paths[mount["name"]] in (mount["mountPath"], None)


def test_what_the_kubelet_makes_must_be_there_and_cdi_need_not() -> None:
    config = NodeConfig()
    types = {
        each["hostPath"]["path"]: each["hostPath"]["type"]
        for each in pod()["volumes"]
        if "hostPath" in each
    }

    assert types == {
        str(config.plugin_dir): "Directory",
        str(config.pod_resources_socket.parent): "Directory",
        **{str(folder): "DirectoryOrCreate" for folder in config.cdi_dirs},
    }


def test_its_memory_is_bounded_and_its_cpu_is_not() -> None:
    resources = container()["resources"]

    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


# ------------------------------------------------------------------- what the code is told


def test_every_variable_is_a_setting_or_one_of_the_container_runtime() -> None:
    known = {setting.variable for setting in settings()}

    assert set(environment()) - known == {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}


def test_every_argument_is_a_subcommand_or_a_setting() -> None:
    subcommand, *options = container()["args"]

    assert subcommand == "node"
    assert {option.partition("=")[0] for option in options} <= {each.flag for each in settings()}


def test_it_is_told_the_name_of_its_node() -> None:
    assert environment()["GPUSHARE_NODE_NAME"]["valueFrom"] == {
        "fieldRef": {"fieldPath": "spec.nodeName"}
    }


@pytest.mark.parametrize("probe", PROBES)
def test_each_probe_asks_a_page_that_the_daemon_serves(probe: str) -> None:
    pages = StatusPages(NodeMetrics(), not_alive=nothing_wrong, not_ready=lambda: ())
    served = set(pages._pages)

    asked = container()[probe]["httpGet"]

    assert asked["path"] in served
    assert asked["port"] == "status"


@pytest.mark.parametrize("probe", PROBES)
def test_each_probe_waits_longer_than_the_daemon_itself(probe: str) -> None:
    assert container()[probe]["timeoutSeconds"] > ALIVENESS_SECONDS


def test_the_port_is_the_one_that_the_daemon_listens_on() -> None:
    address = NodeConfig().status_address
    assert address is not None

    assert container()["ports"] == [{"name": "status", "containerPort": address[1]}]
    template = only("DaemonSet")["spec"]["template"]["metadata"]
    assert template["annotations"]["prometheus.io/port"] == str(address[1])


# ------------------------------------------------------------------------ how it is found


@pytest.mark.parametrize("kind", labels_of_all())
def test_every_object_carries_the_recommended_labels(kind: str) -> None:
    labels = labels_of_all()[kind]

    assert {f"{LABEL_DOMAIN}{name}" for name in RECOMMENDED_LABELS} <= set(labels)
    assert labels[f"{LABEL_DOMAIN}name"] == "gpushare"
    assert labels[f"{LABEL_DOMAIN}version"] == gpushare_plugin.__version__


def test_the_original_s_tools_find_its_pods() -> None:
    labels = only("DaemonSet")["spec"]["template"]["metadata"]["labels"]

    assert labels["component"] == "gpushare-device-plugin"


def test_b134_an_upgrade_changes_no_label_that_its_pods_are_found_by() -> None:
    spec = only("DaemonSet")["spec"]
    selector, labels = spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]

    assert selector.items() <= labels.items()
    assert f"{LABEL_DOMAIN}version" not in selector
