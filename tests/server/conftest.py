"""A broker for tests that need nothing special of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.harness import BrokerHome, WireClient, running_broker


@pytest.fixture
def home(tmp_path: Path) -> Iterator[BrokerHome]:
    with running_broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
def client(home: BrokerHome) -> Iterator[WireClient]:
    with home.client() as made:
        yield made
