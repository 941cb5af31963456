"""Fixtures for tests that run a real Kafka. A broker never outlives its test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from real_kafka.broker import Broker

BrokerFactory = Callable[..., Broker]


@pytest.fixture(scope="session")
def formatted_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Format an empty log directory (`kafka-storage format`). Copy it; do not use it."""
    root = tmp_path_factory.mktemp("formatted")
    Broker(root / "data", work=root / "work").format()
    return root / "data"


@pytest.fixture
def new_broker(tmp_path: Path, formatted_directory: Path) -> Iterator[BrokerFactory]:
    """Return ``new_broker(directory=None, **settings) -> Broker``: not started, on a new directory if none is given."""
    with ExitStack() as brokers:

        def make(directory: Path | None = None, **settings: object) -> Broker:
            number = len(list(tmp_path.glob("broker-*")))
            work = tmp_path / f"broker-{number}"
            if directory is None:
                directory = Path(shutil.copytree(formatted_directory, tmp_path / f"data-{number}"))
            return brokers.enter_context(Broker(directory, work=work, **settings))  # type: ignore[arg-type]

        yield make
