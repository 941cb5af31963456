"""Metadata of a partition for the clients of one listener, from hand-made images."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from tidelog.protocol.errors import ErrorCode
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.image import MetadataImage, Topic
from tidelog.server.metadata.partition_state import LOST, UNASSIGNED, PartitionState
from tidelog.server.topics.partition_view import Viewpoint

HOME, ELSEWHERE = uuid.uuid4(), uuid.uuid4()


def broker(number: int, *, fenced: bool = False, listener: str = "PLAIN") -> BrokerRegistration:
    return BrokerRegistration(
        id=number,
        epoch=number,
        incarnation_id=uuid.uuid4(),
        listeners={listener: BrokerEndpoint(listener, f"host{number}", 9092)},
        features={},
        rack=None,
        is_fenced=fenced,
        in_controlled_shutdown=False,
        log_dirs=frozenset({HOME}),
    )


def state(
    *replicas: int, isr: tuple[int, ...] | None = None, leader: int = 1, places: Mapping[int, uuid.UUID] | None = None
) -> PartitionState:
    directories = tuple((places or {}).get(replica, HOME) for replica in replicas)
    return PartitionState(
        replicas=replicas, isr=replicas if isr is None else isr, leader=leader, leader_epoch=7, directories=directories
    )


IMAGE = MetadataImage(
    brokers={1: broker(1), 2: broker(2), 3: broker(3, fenced=True), 4: broker(4, listener="INSIDE")},
    topics={"t": Topic(name="t", id=uuid.uuid4())},
)


def seen(partition: PartitionState, *, version: int = 13) -> dict[str, Any]:
    viewpoint = Viewpoint(image=IMAGE, listener="PLAIN", leaves_out_the_dead=version == 0, names_listeners=version >= 6)
    return viewpoint.partition(0, partition)._asdict()


def test_all_is_well() -> None:
    assert seen(state(1, 2, isr=(2, 1))) == {
        "error_code": ErrorCode.NONE,
        "partition_index": 0,
        "leader_id": 1,
        "leader_epoch": 7,
        "replica_nodes": [1, 2],
        "isr_nodes": [2, 1],
        "offline_replicas": [],
    }


@pytest.mark.parametrize(
    ("leader", "version", "error"),
    [
        (-1, 13, ErrorCode.LEADER_NOT_AVAILABLE),
        (9, 13, ErrorCode.LEADER_NOT_AVAILABLE),
        (4, 13, ErrorCode.LISTENER_NOT_FOUND),
        (4, 5, ErrorCode.LEADER_NOT_AVAILABLE),
    ],
)
def test_no_leader_for_these_clients(leader: int, version: int, error: ErrorCode) -> None:
    answer = seen(state(4, 1, leader=leader), version=version)
    assert (answer["error_code"], answer["leader_id"], answer["leader_epoch"]) == (error, -1, 7)


@pytest.mark.parametrize(
    ("places", "offline"),
    [({}, [3, 4, 9]), ({1: LOST}, [1, 3, 4, 9]), ({2: ELSEWHERE}, [2, 3, 4, 9]), ({2: UNASSIGNED}, [3, 4, 9])],
)
def test_who_is_offline(places: Mapping[int, uuid.UUID], offline: list[int]) -> None:
    """A replica is offline if its broker is fenced, unregistered or lacks the listener, or if its directory is gone."""
    answer = seen(state(1, 2, 3, 4, 9, places=places))
    assert (answer["offline_replicas"], answer["replica_nodes"]) == (offline, [1, 2, 3, 4, 9])


def test_the_oldest_clients_are_not_told_of_the_dead() -> None:
    partition = state(1, 9, 4, isr=(1, 9))
    old, new = seen(partition, version=0), seen(partition, version=1)
    assert (old["error_code"], old["replica_nodes"], old["isr_nodes"]) == (ErrorCode.REPLICA_NOT_AVAILABLE, [1], [1])
    assert (new["error_code"], new["replica_nodes"], new["isr_nodes"]) == (ErrorCode.NONE, [1, 9, 4], [1, 9])


def test_clients_turn_to_brokers_that_are_not_fenced() -> None:
    nodes = Viewpoint(image=IMAGE, listener="PLAIN").nodes()
    assert [(node.id, endpoint.host) for node, endpoint in nodes] == [(1, "host1"), (2, "host2")]
