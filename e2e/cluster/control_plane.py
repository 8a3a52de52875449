"""etcd, API server, controller manager, kube-proxy; kube-scheduler by itself.

The flags are those that `docs` of each program names for a cluster without certificates
of its own: tokens in a file, RBAC, service accounts signed with a key made here.
"""

import subprocess
from pathlib import Path

from e2e.cluster.kubectl import NAMESPACE, Kubectl
from e2e.cluster.programs import Program, wait_until
from e2e.inside import SERVICES

ADDRESS = "192.0.2.1"
PORT = 6443
SERVER = f"https://{ADDRESS}:{PORT}"
ETCD = "http://127.0.0.1:2379"
TOKENS = {
    "admin": ("admin", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
    "controller-manager": ("system:kube-controller-manager", ""),
    "proxy": ("system:kube-proxy", ""),
    "node-a": ("system:node:node-a", "system:nodes"),
    "node-b": ("system:node:node-b", "system:nodes"),
}


class ControlPlane:
    """The programs that a cluster has once."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self.etcd = self._program("etcd", self._etcd())
        self.api = self._program("kube-apiserver", self._api())
        self.controllers = self._program("kube-controller-manager", self._controllers())
        self.proxy = self._program("kube-proxy", self._proxy())
        self.kubectl = Kubectl(programs / "kubectl", self.kubeconfig("admin"))

    def start(self) -> None:
        """Start all, and return once the API server is ready."""
        self._write_secrets()
        for program in (self.etcd, self.api):
            program.start()
        wait_until(self._ready, what="the API server ready", seconds=60)
        self.controllers.start()
        self.proxy.start()

    def stop(self) -> None:
        """Stop all."""
        for program in (self.proxy, self.controllers, self.api, self.etcd):
            program.stop()

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig file of a user of `TOKENS`."""
        return self._folder / f"{user}.kubeconfig"

    def wait_ready(self) -> None:
        """Return once the API server answers."""
        wait_until(self._ready, what="the API server ready", seconds=60)

    @property
    def _authority(self) -> Path:
        """The certificate that the API server makes for itself when it starts."""
        return self._folder / "api-certificates" / "apiserver.crt"

    def _ready(self) -> bool:
        self.etcd.check()
        self.api.check()
        return self.kubectl("get", "--raw", "/readyz") == "ok"

    def _program(self, name: str, flags: list[str]) -> Program:
        path = Path("/usr/bin/etcd") if name == "etcd" else self._programs / name
        return Program(name, [path, *flags], self._folder / f"{name}.log")

    def _write_secrets(self) -> None:
        lines = [f'{user}-token,{name},{user},"{group}"' for user, (name, group) in TOKENS.items()]
        (self._folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        for user in TOKENS:
            self.kubeconfig(user).write_text(
                _KUBECONFIG.format(
                    server=SERVER,
                    authority=self._authority,
                    token=f"{user}-token",
                    namespace=NAMESPACE,
                )
            )
        key, public = self._folder / "sa.key", self._folder / "sa.pub"
        for command in (
            ["openssl", "genrsa", "-out", str(key), "2048"],
            ["openssl", "rsa", "-in", str(key), "-pubout", "-out", str(public)],
        ):
            subprocess.run(command, check=True, capture_output=True)

    def _etcd(self) -> list[str]:
        return [
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            "--initial-cluster=default=http://127.0.0.1:2380",
            # Nobody needs this cluster after the tests.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api(self) -> list[str]:
        return [
            f"--etcd-servers={ETCD}",
            "--bind-address=0.0.0.0",
            f"--advertise-address={ADDRESS}",
            f"--secure-port={PORT}",
            f"--cert-dir={self._folder / 'api-certificates'}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-cluster-ip-range={SERVICES}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._folder / 'sa.pub'}",
            f"--service-account-signing-key-file={self._folder / 'sa.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged=true",
        ]

    def _controllers(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('controller-manager')}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self._folder / 'controller-certificates'}",
            "--authentication-skip-lookup=true",
            f"--service-account-private-key-file={self._folder / 'sa.key'}",
            "--use-service-account-credentials=true",
            f"--root-ca-file={self._authority}",
            # A node that went away is to be seen within a test.
            "--node-monitor-grace-period=10s",
        ]

    def _proxy(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('proxy')}",
            "--hostname-override=node-a",
            "--bind-address=127.0.0.1",
            "--proxy-mode=iptables",
            # These sysctls are the machine's.
            "--conntrack-max-per-core=0",
            "--conntrack-min=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ]


_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: cluster, cluster: {{server: "{server}", certificate-authority: {authority}}}}}]
users: [{{name: user, user: {{token: "{token}"}}}}]
contexts: [{{name: context, context: {{cluster: cluster, user: user, namespace: {namespace}}}}}]
current-context: context
"""
