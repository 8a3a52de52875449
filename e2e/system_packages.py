"""What a cluster needs of the system: containerd, runc, CNI plugins, etcd, iptables."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

WANTED = {
    "containerd": "/usr/bin/containerd",
    "runc": "/usr/sbin/runc",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "busybox-static": "/bin/busybox",
    "etcd-server": "/usr/bin/etcd",
    "conntrack": "/usr/sbin/conntrack",
    "iptables": "/usr/sbin/iptables",
}


class CannotInstall(Exception):
    """Something is missing that cannot be installed here."""


def install() -> None:
    """Install what is missing; raises CannotInstall."""
    missing = [package for package, path in WANTED.items() if not Path(path).exists()]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise CannotInstall(f"these are missing: {', '.join(missing)}")
    sys.stderr.write(f"e2e: installing system packages: {' '.join(missing)}\n")
    # Nothing of it shall start by itself: the cluster has its own.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    for each in (["apt-get", "update", "-qq"], command):
        outcome = subprocess.run(each, env=environment, capture_output=True, text=True, check=False)
        if outcome.returncode != 0:
            raise CannotInstall(f"{' '.join(each)}: {outcome.stderr.strip()[-500:]}")
