"""A broker's replicas for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.replicas.replica_harness import ReplicaHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ReplicaHarness]:
    made = ReplicaHarness(tmp_path)
    yield made
    made.close()
