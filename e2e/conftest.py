"""The cluster that all tests of a run share."""

from collections.abc import Iterator

import pytest

from e2e.cluster.cluster import Cluster, from_environment


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running cluster of two nodes."""
    cluster = from_environment()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
