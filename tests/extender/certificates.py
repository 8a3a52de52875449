"""Certificates made for one test, with the openssl command."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gpushare_plugin.extender.tls import Certificates

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    @property
    def der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.certificate.read_text())


class Authority:
    """Signs for whom the test wants."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self.pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
        _openssl(
            *("req", "-x509", *_NEW_KEY, "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", self.pair.key, "-out", self.pair.certificate),
        )

    def signs(self, name: str) -> Pair:
        """Make a certificate for 127.0.0.1, good for both ends."""
        made = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        _openssl(
            *("req", "-x509", *_NEW_KEY, "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-CA", self.pair.certificate, "-CAkey", self.pair.key),
            *("-keyout", made.key, "-out", made.certificate),
        )
        return made

    def trusted(self, client: Pair | None = None) -> ssl.SSLContext:
        """What a client of this authority connects with, showing a certificate or none."""
        context = ssl.create_default_context(cafile=self.pair.certificate)
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context


@dataclass(frozen=True)
class Served:
    """The files that a server reads."""

    files: Certificates

    def install(self, pair: Pair, authority: Authority | None = None) -> None:
        """Put others there, as `cp` does: the same file, other bytes."""
        self.files.certificate.write_bytes(pair.certificate.read_bytes())
        self.files.key.write_bytes(pair.key.read_bytes())
        if authority is not None and self.files.client_ca is not None:
            self.files.client_ca.write_bytes(authority.pair.certificate.read_bytes())


def served(folder: Path, pair: Pair, client_ca: Authority | None = None) -> Served:
    """Make the files of a server."""
    folder.mkdir()
    made = Served(
        Certificates(
            certificate=folder / "tls.crt",
            key=folder / "tls.key",
            client_ca=folder / "ca.crt" if client_ca else None,
        )
    )
    made.install(pair, client_ca)
    return made


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)  # noqa: S607
