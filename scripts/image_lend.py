"""Write how this machine's pip reaches packages, for a build to borrow.

    python image_lend.py FOLDER

FOLDER gets `pip.conf` and `certificates.pem`. The build mounts both and keeps
neither. Folders of this machine mean nothing there, so only what names a server or
a time is lent; the certificates come along under a path of their own.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

LENT = ("index-url", "extra-index-url", "trusted-host", "default-timeout", "timeout", "proxy")
CERTIFICATES_THERE = "/run/secrets/certificates.pem"


def main(folder: Path) -> None:
    """Write both files."""
    found = settings_of_pip()
    lines = [f"{name} = {found[name]}" for name in LENT if name in found]
    certificates = folder / "certificates.pem"
    certificates.touch()
    trusted = found.get("cert") or os.environ.get("SSL_CERT_FILE")
    if trusted:
        shutil.copyfile(trusted, certificates)
        lines.append(f"cert = {CERTIFICATES_THERE}")
    (folder / "pip.conf").write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")


def settings_of_pip() -> Mapping[str, str]:
    """Return pip's settings by name, the environment's over the files'."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    by_source: dict[bool, dict[str, str]] = {False: {}, True: {}}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        source, _, setting = name.rpartition(".")
        by_source[source == ":env:"][setting] = value.strip("'\"")
    return by_source[False] | by_source[True]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
