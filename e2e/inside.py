"""The first process of the sandbox: prepares it, and runs the tests in it.

Rule: what is written to `/run`, `/var/log` and `/etc` stays in the sandbox.
"""

import os
import subprocess
import sys
from pathlib import Path

ADDRESSES = ("192.0.2.1", "192.0.2.11", "192.0.2.12")
"""The API server's and the nodes': TEST-NET-1 (RFC 5737), on this network's loopback."""

SERVICES = "10.99.0.0/24"


def main() -> int:
    """Prepare, run the command, and return its exit code; whoever is left over is killed."""
    folder = Path(os.environ["GPUSHARE_E2E_FOLDER"])
    _call("ip", "link", "set", "lo", "up")
    for address in ADDRESSES:
        _call("ip", "address", "add", f"{address}/32", "dev", "lo")
    # kube-proxy turns a service's address into a pod's, but only of what has a way to go.
    _call("ip", "route", "add", SERVICES, "dev", "lo", "src", ADDRESSES[0])
    for path in ("/run", "/var/log"):
        _call("mount", "-t", "tmpfs", "tmpfs", path)
    for part in ("upper", "work"):
        (folder / "etc" / part).mkdir(parents=True)
    layers = f"lowerdir=/etc,upperdir={folder}/etc/upper,workdir={folder}/etc/work"
    _call("mount", "-t", "overlay", "overlay", "-o", layers, "/etc")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    return subprocess.run(sys.argv[1:], check=False).returncode


def _call(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
