"""A broker for tests that need nothing special of it."""

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
    """As they were, after a test: a broker's administrators may change them for the whole process."""
    loggers = [
        logging.root,
        *(one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)),
    ]
    levels = [(logger, logger.level) for logger in loggers]
    known = set(loggers)
    yield
    for logger, level in levels:
        logger.setLevel(level)
    for one in logging.root.manager.loggerDict.values():
        if isinstance(one, logging.Logger) and one not in known:
            one.setLevel(logging.NOTSET)
