"""TLS of a client, as kubeconfig files and extender configurations describe it."""

import base64
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpushare_plugin.sim.scheduler.failures import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """Files or, where both are given, contents in base64."""

    insecure: bool = False
    server_name: str = ""
    ca_file: str = ""
    ca_data: str = ""
    cert_file: str = ""
    cert_data: str = ""
    key_file: str = ""
    key_data: str = ""

    @property
    def has_ca(self) -> bool:
        """Whether it says whom to trust."""
        return bool(self.ca_file or self.ca_data)


def client_context(options: TlsOptions, *, where: str) -> ssl.SSLContext:
    """Return the context for these options; raises ConfigurationError naming `where`."""
    try:
        trusted = _text(options.ca_data, options.ca_file) if options.has_ca else None
        context = ssl.create_default_context(cadata=trusted)
        if options.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if options.cert_file or options.cert_data:
            _load_certificate(context, options)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{where}: found TLS options that cannot be used: {error}") from (
            error
        )
    return context


def _text(data: str, file: str) -> str:
    return base64.b64decode(data).decode() if data else Path(file).read_text(encoding="utf-8")


def _load_certificate(context: ssl.SSLContext, options: TlsOptions) -> None:
    # The ssl module takes a client's certificate from a file only.
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        for path in (certificate, key):
            path.touch(mode=0o600)
        certificate.write_text(_text(options.cert_data, options.cert_file), encoding="utf-8")
        key.write_text(_text(options.key_data, options.key_file), encoding="utf-8")
        context.load_cert_chain(certificate, key)
