"""Fixtures for tests of whatever talks to Kafka; pytest finds them by tidelog's being installed.

======================  =======  ====================================================================================
fixture                 scope    what
======================  =======  ====================================================================================
``kafka_broker``        session  a ``tidelog.testing.Broker``
``bootstrap_servers``   session  its address, as clients take it
``kafka_topic``         test     the name of a new topic with one partition in it
``held_kafka_broker``   test     a broker of the test's own, whose time passes by ``advance`` only
======================  =======  ====================================================================================

Nothing of a broker is imported before a test asks for one: the plugin costs every other test run nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.broker import Broker

_numbers = itertools.count(1)
_NOT_IN_TOPIC_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")
_LONGEST_NAME = 200


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    """One broker for all tests of the session; what a test plans against it, or leaves in it, is there for the next."""
    from tidelog.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap_servers(kafka_broker: Broker) -> str:
    return kafka_broker.bootstrap_servers


@pytest.fixture
def kafka_topic(kafka_broker: Broker, request: pytest.FixtureRequest) -> str:
    """Named after the test; no other test gets it."""
    stem = _NOT_IN_TOPIC_NAMES.sub("-", request.node.name)[:_LONGEST_NAME]
    name = f"{stem}-{next(_numbers)}"
    kafka_broker.create_topic(name)
    return name


@pytest.fixture
def held_kafka_broker() -> Iterator[Broker]:
    from tidelog.testing.broker import Broker

    with Broker(held_time=True) as broker:
        yield broker
