"""Lost responses and ends of brokers in the cluster of ``tidelog.testing``, because processes lose no responses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, cycle
from typing import Final

import pytest

from server.clients.test_records import test_an_idempotent_producer_whose_answers_are_lost_doubles_nothing
from server.clients.test_transactions import test_an_open_transaction_outlives_the_broker
from server.harness import KEEPING
from tidelog.model import Record
from tidelog.testing import ApiKey, Cluster

__all__ = [
    "test_an_idempotent_producer_whose_answers_are_lost_doubles_nothing",
    "test_an_open_transaction_outlives_the_broker",
]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BROKERS: Final = (1, 2, 3)
_numbers = count(1)


class FaultyBrokers:
    """The cluster with the part of ``tidelog.testing.Broker`` that the tests use. Brokers end in turn."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turns = cycle(BROKERS)
        self._ended = 0

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    def records(self, topic: str) -> list[Record]:
        return self._cluster.records(topic)

    # --- ends ---

    def kill(self) -> None:
        self._ended = next(self._turns)
        self._cluster.brokers[self._ended].kill()

    def start(self) -> None:
        self._cluster.brokers[self._ended].start()
        self._cluster.wait_until_in_sync()

    def restart(self) -> None:
        """Shut down and start all brokers, one at a time."""
        for broker in self._cluster.brokers.values():
            broker.restart()
            self._cluster.wait_until_in_sync()

    # --- faults ---

    def lose_response(self, api: ApiKey, *, times: int = 1, topic: str | None = None) -> None:
        """Lose responses of the topic's leader, or of whichever broker is asked."""
        numbers = BROKERS if topic is None else [self._cluster.leader(topic)]
        for number in numbers:
            self._cluster.brokers[number].lose_response(api, times=times, topic=topic)

    def forget_faults(self) -> None:
        for broker in self._cluster.brokers.values():
            broker.forget_faults()

    @property
    def has_faults(self) -> bool:
        return any(broker.has_faults for broker in self._cluster.brokers.values())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(configs={**KEEPING, "min.insync.replicas": "2"}) as running:
        yield running


@pytest.fixture
def broker(cluster: Cluster) -> FaultyBrokers:
    return FaultyBrokers(cluster)


@pytest.fixture
def own_broker(cluster: Cluster) -> Iterator[FaultyBrokers]:
    cluster.create_topic("t")
    yield FaultyBrokers(cluster)
    cluster.delete_topic("t")


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"topic-{next(_numbers)}"
    cluster.create_topic(name, 2)
    return name
