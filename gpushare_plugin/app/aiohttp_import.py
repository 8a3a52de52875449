"""aiohttp as our programs load it: without the host's certificate authorities.

At its import aiohttp makes two TLS contexts of its own, and OpenSSL fills each with all
authorities of the host: more than 2 MiB for as long as the process lives. No request of
ours uses them: the API server is verified by the authority that the credentials name.
"""

import os
import threading

_FILE = "SSL_CERT_FILE"
"""OpenSSL's own variable: the file of the authorities that are trusted by default."""

_one_at_a_time = threading.Lock()


def import_aiohttp() -> None:
    """Import it; call this before the first import of a module that does."""
    with _one_at_a_time:
        before = os.environ.get(_FILE)
        os.environ[_FILE] = os.devnull
        try:
            import aiohttp  # noqa: F401, PLC0415  # 100 ms: the kubelet goes first
        finally:
            # Others mean it: a kubeconfig without an authority, and its credential plugins.
            del os.environ[_FILE]
            if before is not None:
                os.environ[_FILE] = before
