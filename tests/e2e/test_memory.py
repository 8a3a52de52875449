"""What the daemon's process loads, and what it does not."""

import os
import subprocess
import sys
from pathlib import Path

from tests.adapters.kube_certificates import AUTHORITY

SHOWS = """
import gc, os, ssl
from gpushare_plugin.app.aiohttp_import import import_aiohttp

import_aiohttp()
import aiohttp.connector

contexts = [each for each in gc.get_objects() if isinstance(each, ssl.SSLContext)]
print(len(contexts), sum(len(each.get_ca_certs()) for each in contexts))
print(os.environ.get("SSL_CERT_FILE"))
print(len(ssl.create_default_context().get_ca_certs()))
"""


def test_aiohttp_is_loaded_without_the_hosts_authorities_which_others_still_find(
    tmp_path: Path,
) -> None:
    authorities = tmp_path / "authorities.pem"
    authorities.write_text(AUTHORITY)
    shown = subprocess.run(
        [sys.executable, "-c", SHOWS],
        env={**os.environ, "SSL_CERT_FILE": str(authorities)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    assert shown == ["2 0", str(authorities), "1"]
