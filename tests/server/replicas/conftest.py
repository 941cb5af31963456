"""A broker's replicas for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.replicas.replica_home import ReplicaHome


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ReplicaHome]:
    made = ReplicaHome(tmp_path)
    yield made
    made.close()
