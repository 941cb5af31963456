"""Fixtures for tests of Kafka clients. pytest finds them if tidelog is installed.

======================  =======  ====================================================================================
fixture                 scope    value
======================  =======  ====================================================================================
``kafka_broker``        session  a ``tidelog.testing.Broker``
``bootstrap_servers``   session  its address, as clients take it
``kafka_topic``         test     the name of a new topic with one partition in it
``manual_time_kafka_broker``   test     a broker of the test's own, whose time passes only by ``advance``
``kafka_cluster``       test     a ``tidelog.testing.Cluster`` of three brokers, for this test only
======================  =======  ====================================================================================

No broker code is imported before a test requests a broker, so the plugin costs other test runs nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.broker import Broker
    from tidelog.testing.cluster import Cluster

_numbers = itertools.count(1)
_NOT_IN_TOPIC_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")
_LONGEST_NAME = 200


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    """Yield one broker for all tests of the session, which share its faults and its data."""
    from tidelog.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap_servers(kafka_broker: Broker) -> str:
    return kafka_broker.bootstrap_servers


@pytest.fixture
def kafka_topic(kafka_broker: Broker, request: pytest.FixtureRequest) -> str:
    """Return the name of a new topic, made from the test's name. No other test gets it."""
    stem = _NOT_IN_TOPIC_NAMES.sub("-", request.node.name)[:_LONGEST_NAME]
    name = f"{stem}-{next(_numbers)}"
    kafka_broker.create_topic(name)
    return name


@pytest.fixture
def manual_time_kafka_broker() -> Iterator[Broker]:
    from tidelog.testing.broker import Broker

    with Broker(manual_time=True) as broker:
        yield broker


@pytest.fixture
def kafka_cluster() -> Iterator[Cluster]:
    """Yield three brokers and a controller that no other test has, so each node may be killed or disconnected."""
    from tidelog.testing.cluster import Cluster

    with Cluster(brokers=3) as cluster:
        yield cluster
