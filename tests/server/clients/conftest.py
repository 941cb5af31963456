"""One broker for all tests with clients that leave it as it was, and a new topic for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from server.harness import KEEPING
from tidelog.testing import Broker

_numbers = count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(configs=KEEPING) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    """With two partitions."""
    name = f"topic-{next(_numbers)}"
    broker.create_topic(name, partitions=2)
    return name
