"""A broker with default settings for tests without special needs."""

from __future__ import annotations

import logging
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


@pytest.fixture(autouse=True)
def levels_of_loggers() -> Iterator[None]:
    """Restore the loggers' levels after a test: a broker's administrators can change them for the whole process."""
    loggers = [
        logging.root,
        *(one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)),
    ]
    levels = [(logger, logger.level) for logger in loggers]
    known = set(loggers)
    yield
    for logger, level in levels:
        if logger.level != level:
            logger.setLevel(level)  # which empties a cache of every logger, so it is not called without need
    for one in logging.root.manager.loggerDict.values():
        if isinstance(one, logging.Logger) and one not in known and one.level != logging.NOTSET:
            one.setLevel(logging.NOTSET)
