"""For each setting: two texts that it takes, one that it refuses, and words of the refusal.

`test_sources` asks that every setting stands here, so a new one is tested from its first day.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Texts:
    """What one setting is tried with; `wrong` is None where every text is right."""

    one: str
    other: str
    wrong: str | None
    expected: str = ""


SWITCH = Texts("on", "off", "maybe", "expected on or off")
PATH = Texts("/one", "/other", "not/absolute", "expected an absolute path")

TEXTS: dict[str, Texts] = {
    "dialect": Texts("tencent", "aliyun", "ailyun", "expected one of aliyun"),
    "node_name": Texts("node-a", "node-b", None),
    "without_cluster": SWITCH,
    "kubeconfig": PATH,
    "require_extender": SWITCH,
    "strict": SWITCH,
    "resource_name": Texts("a.com/one", "a.com/other", "gpu-mem", "expected an extended resource"),
    "core_resource": Texts("on", "a.com/cores", "maybe", "expected on or off, or a name such as"),
    "memory_unit": Texts("MiB", "512MiB", "GB", "expected GiB, MiB"),
    "units_from": Texts("usable", "total", "free", "expected one of total, usable"),
    "reserve_mib": Texts("1", "512", "-1", "expected a whole number from 0 to"),
    "uniform_cards": SWITCH,
    "policy": Texts("spread", "binpack", "random", "expected one of binpack, spread"),
    "numa_topology": SWITCH,
    "device_injection": Texts("cdi", "device-nodes", "nodes", "expected one of envvar, cdi"),
    "visible_devices": Texts("index", "uuid", "name", "expected one of uuid, index"),
    "isolation": Texts("driver", "none", "mps", "expected one of auto, driver, none"),
    "cgpu_disable": SWITCH,
    "mig": Texts("shared", "ignore", "mixed", "expected one of ignore, shared"),
    "forget_cards": Texts("GPU-a,MIG-b", "GPU-c", "0", "expected UUIDs with commas"),
    "health": SWITCH,
    "ignore_xids": Texts("13,31", "999", "13;31", "expected XID numbers with commas"),
    "only_xids": Texts("79", "none", "all", "expected XID numbers with commas"),
    "probe_seconds": Texts("0.5", "12.3456789", "0", "expected a number from 0.05 to 3600"),
    "plugin_dir": PATH,
    "pod_resources_socket": PATH,
    "tick_seconds": Texts("0.2", "2", "soon", "expected a number from 0.05 to 60"),
    "register_timeout_seconds": Texts("1", "20", "nan", "expected a number from 0.1 to 300"),
    "allocate_deadline_seconds": Texts("1", "20", "inf", "expected a number from 0.1 to 300"),
    "status_address": Texts("[::1]:0", "off", "9435", "expected host:port"),
    "cdi_dirs": Texts("/one,/other", "/one", "one", "expected an absolute path"),
    "nvml_library": PATH,
    "simulate": Texts("t4-x2", "mig", None),
    "simulate_events": PATH,
    "log_level": Texts("debug", "error", "loud", "expected one of debug, info, warning, error"),
}
