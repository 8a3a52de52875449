"""Credentials from a kubeconfig file, with its credential plugins and client certificates.

Rule 1: the only module that imports `kubernetes`, and only when a file is opened:
that takes about a second, which a laptop pays and a daemon in a cluster does not.
Rule 2: a file that asks for no verification of the server is refused.
"""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpushare_plugin.adapters.kube.credentials import Endpoint, verifying
from gpushare_plugin.adapters.kube.proxies import checked_proxy, proxy_for
from gpushare_plugin.errors import ApiRefused, ConfigError


class KubeConfig:
    """The credentials of one context of a kubeconfig file."""

    def __init__(
        self, path: Path, environ: Mapping[str, str], *, context: str | None = None
    ) -> None:
        """Read the file; `context` is its current one unless named. Blocks: plugins may run.

        Raises:
            ConfigError: the file gives no usable credentials.
        """
        self._path = path
        self._context = context
        self._loaded = self._load()
        server = str(self._loaded.host).rstrip("/")
        named = self._loaded.proxy
        self.endpoint = Endpoint(
            server=server,
            source=f"kubeconfig {path}",
            proxy=checked_proxy(named) if named else proxy_for(server, environ),
            server_name=self._loaded.tls_server_name,
        )
        self._tls = self._verified()

    def tls(self) -> ssl.SSLContext | None:
        """Return how the server is verified, with the client's certificate if there is one."""
        return self._tls

    async def authorization(self, *, anew: bool = False) -> str:
        """Return the header; an expired one is made anew by the file's credential plugin."""
        try:
            return await asyncio.to_thread(self._header, anew=anew)
        except ConfigError as error:
            raise ApiRefused(str(error)) from error

    def _header(self, *, anew: bool) -> str:
        if anew:
            self._loaded = self._load()
            self._tls = self._verified()
        return self._loaded.get_api_key_with_prefix("BearerToken", alias="authorization") or ""

    def _load(self) -> Any:
        from kubernetes.client import Configuration  # noqa: PLC0415  # see rule 1
        from kubernetes.config import load_kube_config  # noqa: PLC0415

        loaded = Configuration()
        # It looks into the environment too, but knows no ranges in NO_PROXY: see `proxies`.
        loaded.proxy = None
        try:
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(self._path),
                context=self._context,
                client_configuration=loaded,
                persist_config=False,
            )
        except Exception as error:  # the library trips over a bad file anywhere
            said = " ".join(str(error).split()) or type(error).__name__
            raise ConfigError(f"kubeconfig {self._path}: {said}") from error
        return self._checked(loaded)

    def _checked(self, loaded: Any) -> Any:
        if not loaded.verify_ssl:
            raise ConfigError(
                f"kubeconfig {self._path}: insecure-skip-tls-verify is set; we verify the server"
                " always: put its authority into certificate-authority-data"
            )
        if str(loaded.host).startswith("https:") and not (loaded.api_key or loaded.cert_file):
            raise ConfigError(
                f"kubeconfig {self._path}: its user has no token and no certificate, and no"
                " credential plugin gave one (its own message stands above); try kubectl with it"
            )
        return loaded

    def _verified(self) -> ssl.SSLContext | None:
        loaded = self._loaded
        if not str(loaded.host).startswith("https:"):
            return None
        try:
            return verifying(
                ca_file=loaded.ssl_ca_cert, client=(loaded.cert_file or "", loaded.key_file)
            )
        except (OSError, ValueError) as error:
            raise ConfigError(f"kubeconfig {self._path}: its certificates: {error}") from error
