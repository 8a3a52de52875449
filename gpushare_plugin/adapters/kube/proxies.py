"""Which proxy leads to the API server, by the variables that kubectl reads too.

HTTPS_PROXY or HTTP_PROXY by the server's scheme, unless NO_PROXY names the server:
by host name, by domain (with its subdomains), by address, or by range of addresses
(`10.96.0.0/12`, which is how clusters exempt their services); `*` exempts all.
Both spellings count, upper case first. Loopback is never reached through a proxy.

Rule: the environment is handed in; nothing else in it is looked at, no .netrc either.
"""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from gpushare_plugin.errors import ConfigError


def proxy_for(server: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy's URL, or None to connect directly.

    Raises:
        ConfigError: the proxy is of a kind that cannot be used.
    """
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    proxy = _variable(environ, f"{parts.scheme}_proxy")
    if not proxy or _is_loopback(host) or _is_exempt(host, port, _variable(environ, "no_proxy")):
        return None
    return checked_proxy(proxy)


def checked_proxy(proxy: str) -> str:
    """Return the proxy as a URL; raises ConfigError for a kind that cannot be used."""
    url = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(url).scheme not in {"http", "https"}:
        raise ConfigError(
            f"proxy {urlsplit(url).scheme}://… to the API server: expected http:// or https://;"
            " name the server in NO_PROXY to go without"
        )
    return url


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name, "")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_exempt(host: str, port: int, no_proxy: str) -> bool:
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_names(entry, host, port) for entry in entries if entry)


def _names(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        pass
    name, colon, entry_port = entry.rpartition(":")
    if colon and entry_port.isdecimal():
        if int(entry_port) != port:
            return False
        entry = name.strip("[]")
    domain = entry.removeprefix("*").removeprefix(".")
    # ".example.com" is for what is below it alone; "example.com" is for both.
    return host.endswith(f".{domain}") or host == entry
