"""Our certificate, its key, and the authorities of clients, as files that change.

Rule 1: what is at the start must work, or the start stops; what comes later and does
not work leaves the last good files in use.
Rule 2: a change is a change of inode, time or size of what the paths lead to, so a
Secret's volume (a link that is swapped) and a file that is written over are both seen.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from gpushare_plugin.errors import ConfigError

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Of each file: inode, nanoseconds of its last change, size in bytes; None if it is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Where the files are."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    """If given, who calls without a certificate of these authorities is not heard."""

    def stamp(self) -> Stamp:
        """Return what tells one state of the files from another."""
        files = (self.certificate, self.key, self.client_ca)
        return tuple(_stamp(file) for file in files if file is not None)

    def context(self) -> ssl.SSLContext:
        """Read the files.

        Raises:
            ConfigError: one of them is missing, or is no PEM, or key and certificate are no pair.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # An empty password: a key that has one is an error, not a question on the terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"--tls-certificate {self.certificate}, --tls-key {self.key}: {error}; expected PEM"
                " files of a certificate chain and its own key, without a password"
            ) from error
        if self.client_ca is not None:
            self._ask_clients(context, self.client_ca)
        return context

    def _ask_clients(self, context: ssl.SSLContext, authorities: Path) -> None:
        try:
            context.load_verify_locations(cafile=authorities)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"--tls-client-ca {authorities}: {error}; expected a PEM file of the authorities"
                " of the clients' certificates"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
