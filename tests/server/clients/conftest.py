"""A broker that all client tests share unless they change it, and a new topic for each test."""

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
    """Create a topic with two partitions."""
    name = f"topic-{next(_numbers)}"
    broker.create_topic(name, partitions=2)
    return name
