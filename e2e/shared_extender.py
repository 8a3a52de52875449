"""The extender for the cluster's own kube-scheduler: certificates, Deployment, configuration."""

import base64
import subprocess
from pathlib import Path
from typing import Any

import yaml

from e2e import product
from e2e.cluster.cluster import Cluster
from e2e.product import DEPLOY, SYSTEM

NAME = "gpushare-extender"
SERVICE = f"{NAME}.{SYSTEM}.svc"
LEADER = "app.kubernetes.io/component=extender,gpushare.io/leader=true"


def install(sandbox: Cluster) -> None:
    """Do what docs/howto/place-pods.md says of the cluster's scheduler."""
    product.take_away(sandbox, "extender/sidecar.yaml", "admission/scheduler-name.yaml")
    folder = sandbox.folder / "certificates"
    if not folder.exists():
        folder.mkdir()
        _authority(folder)
        _certificate(folder, "server", SERVICE, "serverAuth")
        _certificate(folder, "client", "kube-scheduler", "clientAuth")
    sandbox.kubectl.apply(_secret(folder))
    product.apply(sandbox, "extender/shared.yaml")
    product.wait_for_rollout(sandbox, f"deployment/{NAME}")
    address = sandbox.kubectl.get("service", NAME, SYSTEM)["spec"]["clusterIP"]
    shipped = yaml.safe_load((DEPLOY / "extender/shared-scheduler-config.yaml").read_text())
    _restart_scheduler(sandbox, extenders=[_extender(shipped["extenders"][0], address, folder)])


def remove(sandbox: Cluster) -> None:
    """Have the cluster's scheduler as it was."""
    _restart_scheduler(sandbox)
    product.take_away(sandbox, "extender/shared.yaml")


def leaders(sandbox: Cluster) -> list[str]:
    """Return the names of the extender's pods that say that they lead."""
    found = sandbox.kubectl.items("pods", namespace=SYSTEM, selector=LEADER)
    return [each["metadata"]["name"] for each in found]


def _extender(shipped: dict[str, Any], address: str, folder: Path) -> dict[str, Any]:
    shipped["urlPrefix"] = shipped["urlPrefix"].replace("CLUSTER-IP", address)
    files = {"caFile": "ca.crt", "certFile": "client.crt", "keyFile": "client.key"}
    shipped["tlsConfig"] |= {key: str(folder / name) for key, name in files.items()}
    return shipped


def _restart_scheduler(sandbox: Cluster, **settings: Any) -> None:
    sandbox.scheduler.stop()
    sandbox.configure_scheduler(**settings)
    sandbox.scheduler.start()


def _authority(folder: Path) -> None:
    flags = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=gpushare"]
    _openssl(folder, "req", *flags, "-keyout", "ca.key", "-out", "ca.crt")


def _certificate(folder: Path, name: str, subject: str, usage: str) -> None:
    request = ["-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={subject}"]
    _openssl(folder, "req", *request, "-keyout", f"{name}.key", "-out", f"{name}.csr")
    extensions = f"subjectAltName=DNS:{subject}\nextendedKeyUsage={usage}\n"
    (folder / f"{name}.extensions").write_text(extensions)
    signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
    files = ["-in", f"{name}.csr", "-out", f"{name}.crt", "-extfile", f"{name}.extensions"]
    _openssl(folder, "x509", "-req", *signed, *files)


def _secret(folder: Path) -> dict[str, Any]:
    files = {"tls.crt": "server.crt", "tls.key": "server.key", "ca.crt": "ca.crt"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "gpushare-extender-tls", "namespace": SYSTEM},
        "type": "kubernetes.io/tls",
        "data": {
            key: base64.b64encode((folder / name).read_bytes()).decode()
            for key, name in files.items()
        },
    }


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)  # noqa: S607  # as in control_plane
