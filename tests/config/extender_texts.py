"""For each setting of the extender, as `texts` has them for the node daemon's."""

from tests.config.texts import PATH, SWITCH, Texts

LEASE = Texts("kube-system/one", "a/other", "one", "expected namespace/name")
NAME = Texts("one", "other-2", "Not_One", "expected a name of lower-case letters")

EXTENDER_TEXTS: dict[str, Texts] = {
    "dialect": Texts("tencent", "aliyun", "ailyun", "expected one of aliyun"),
    "resource_name": Texts("a.com/one", "a.com/other", "gpu-mem", "expected an extended resource"),
    "core_resource": Texts("off", "a.com/cores", "maybe", "expected on or off, or a name such as"),
    "policy": Texts("spread", "binpack", "random", "expected one of binpack, spread"),
    "kubeconfig": PATH,
    "listen_address": Texts("127.0.0.1:1", "[::1]:0", "off", "expected host:port"),
    "status_address": Texts("[::1]:0", "off", "9436", "expected host:port"),
    "tls_certificate": PATH,
    "tls_key": PATH,
    "tls_client_ca": PATH,
    "plain_http": SWITCH,
    "body_limit_mib": Texts("1", "1024", "0", "expected a whole number from 1 to 1024"),
    "stale_seconds": Texts("1.5", "3600", "0", "expected a number from 1 to 3600"),
    "leader_elect": SWITCH,
    "lease": LEASE,
    "scheduler_lease": LEASE,
    "pod_name": NAME,
    "pod_namespace": NAME,
    "unhealthy_configmap_namespace": NAME,
    "events": SWITCH,
    "nudge": SWITCH,
    "log_level": Texts("debug", "error", "loud", "expected one of debug, info, warning, error"),
}

NEEDED: dict[str, dict[str, str]] = {
    "tls_certificate": {"tls_key": "/key"},
    "tls_key": {"tls_certificate": "/certificate"},
    "tls_client_ca": {"tls_certificate": "/certificate", "tls_key": "/key"},
    "leader_elect": {"pod_name": "one", "pod_namespace": "two"},
}
"""What must stand beside a setting for it to be taken at all."""
