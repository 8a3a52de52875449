"""Container images as files: small ones by hand, and the product's own from `make image`."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import gpushare_plugin

BUSYBOX = "localhost/busybox:1"
PAUSE = "localhost/pause:1"
PRODUCT = f"docker.io/library/gpushare:{gpushare_plugin.__version__}"
"""What containerd makes of the manifests' `gpushare:<version>`."""
REPOSITORY = Path(gpushare_plugin.__file__).parent.parent


def product(folder: Path) -> Path:
    """Write the archive of the product's image, as `make image` left it; builds it if need be."""
    cache = os.environ.get("GPUSHARE_IMAGE_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    store = Path(cache) if cache else Path(home) / "gpushare" / "image"
    subprocess.run([REPOSITORY / "scripts" / "image", sys.executable], check=True)
    archive = folder / "gpushare.tar"
    source = f"localhost/gpushare:{gpushare_plugin.__version__}"
    subprocess.run(
        ["/usr/bin/buildah", "push", "-q", source, f"oci-archive:{archive}:{PRODUCT}"],
        env={**os.environ, "CONTAINERS_STORAGE_CONF": str(store / "storage.conf")},
        check=True,
    )
    return archive


def busybox(folder: Path) -> Path:
    """Write an archive with busybox, under the names of a tool and of the pause image."""
    program = Path("/bin/busybox")
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    links = {f"bin/{each}": "busybox" for each in listed.stdout.split() if each != "busybox"}
    return write(folder / "busybox.tar", [BUSYBOX, PAUSE], {"bin/busybox": program}, links)


def kube_scheduler(folder: Path, program: Path, version: str) -> Path:
    """Write an archive with kube-scheduler under its official name."""
    name = f"registry.k8s.io/kube-scheduler:{version}"
    return write(folder / "kube-scheduler.tar", [name], {"bin/kube-scheduler": program}, {})


def write(
    archive: Path, names: Sequence[str], programs: Mapping[str, Path], links: Mapping[str, str]
) -> Path:
    """Write an OCI archive of one layer with these programs, under these names."""
    layer = _layer(programs, links)
    compressed = gzip.compress(layer, compresslevel=1, mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": ["sleep", "2147483647"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _described("application/vnd.oci.image.config.v1+json", config),
            "layers": [_described("application/vnd.oci.image.layer.v1.tar+gzip", compressed)],
        }
    ).encode()
    entry = _described("application/vnd.oci.image.manifest.v1+json", manifest)
    entries = [{**entry, "annotations": {"io.containerd.image.name": name}} for name in names]
    index = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", index)
        for blob in (compressed, config, manifest):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
    return archive


def _layer(programs: Mapping[str, Path], links: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in ("bin", "tmp", "etc"):
            folder = tarfile.TarInfo(path)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        for name, program in programs.items():
            _add(tar, name, program.read_bytes(), mode=0o755)
        for name, target in links.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _described(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
