"""AlterPartition at a controller, over a socket. Kafka: ReplicationControlManagerTest."""

from __future__ import annotations

import uuid

import pytest

from server.controller.controller_harness import ControllerHome, RemoteBroker, create_topic
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode


@pytest.fixture
def leader(home: ControllerHome, broker: RemoteBroker, other: RemoteBroker) -> RemoteBroker:
    """Return broker 1, which leads t-0 with broker 2 in sync."""
    broker.join()
    other.join()
    create_topic(home, "t", [1, 2])
    return broker


def test_the_in_sync_replicas_shrink_and_expand(leader: RemoteBroker, other: RemoteBroker) -> None:
    shrunk = leader.alter_partition("t", [(1, leader.epoch)])
    assert (shrunk.error_code, list(shrunk.isr), shrunk.leader_id, shrunk.partition_epoch) == (
        ErrorCode.NONE,
        [1],
        1,
        1,
    )
    grown = leader.alter_partition("t", [(1, leader.epoch), (2, other.epoch)])
    assert (grown.error_code, list(grown.isr), grown.partition_epoch) == (ErrorCode.NONE, [1, 2], 2)
    assert grown.leader_epoch == shrunk.leader_epoch


def test_version_2_has_no_broker_epochs(leader: RemoteBroker) -> None:
    state = leader.home.partition("t")
    topic_id = leader.home.node.metadata.image.topics["t"].id
    response = leader.client.call(
        ApiKey.ALTER_PARTITION,
        2,
        broker_id=1,
        broker_epoch=leader.epoch,
        topics=[
            {
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition_index": 0,
                        "leader_epoch": state.leader_epoch,
                        "new_isr": [1],
                        "leader_recovery_state": 0,
                        "partition_epoch": state.partition_epoch,
                    }
                ],
            }
        ],
    )
    assert list(response.topics[0].partitions[0].isr) == [1]
    assert leader.home.partition("t").isr == (1,)


def test_a_stale_broker_epoch_fails_the_request(leader: RemoteBroker) -> None:
    leader.epoch -= 1
    assert leader.alter_partition("t", [(1, -1)]).error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(
    ("isr", "values", "code"),
    [
        ([1], {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ([1], {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ([1], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 3], {}, ErrorCode.INVALID_REQUEST),
        ([1, 1], {}, ErrorCode.INVALID_REQUEST),
        ([2], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"partition_index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_proposal_is_checked_in_kafkas_order(
    leader: RemoteBroker, isr: list[int], values: dict[str, int], code: ErrorCode
) -> None:
    before = leader.home.partition("t")
    assert leader.alter_partition("t", [(broker, -1) for broker in isr], **values).error_code == code
    assert leader.home.partition("t") == before


def test_only_the_leader_may_change_them(leader: RemoteBroker, other: RemoteBroker) -> None:
    assert other.alter_partition("t", [(1, -1), (2, -1)]).error_code == ErrorCode.INVALID_REQUEST
    assert leader.alter_partition("t", [(1, -1), (2, -1)]).error_code == ErrorCode.NONE


def test_an_unknown_topic_id(leader: RemoteBroker) -> None:
    part = {
        "partition_index": 0,
        "leader_epoch": 0,
        "new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": -1}],
        "leader_recovery_state": 0,
        "partition_epoch": 0,
    }
    response = leader.client.call(
        ApiKey.ALTER_PARTITION,
        broker_id=1,
        broker_epoch=leader.epoch,
        topics=[{"topic_id": uuid.uuid4(), "partitions": [part]}],
    )
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


class TestIneligibleReplicas:
    """Kafka: testAlterPartitionShouldRejectFencedBrokers, …BrokersWithStaleEpoch, …ShuttingDownBrokers."""

    def test_another_broker_epoch(self, leader: RemoteBroker, other: RemoteBroker) -> None:
        members = [(1, leader.epoch), (2, other.epoch - 1)]
        assert leader.alter_partition("t", members).error_code == ErrorCode.INELIGIBLE_REPLICA
        assert leader.alter_partition("t", [(1, leader.epoch), (2, -1)]).error_code == ErrorCode.NONE

    def test_a_fenced_broker(self, leader: RemoteBroker, other: RemoteBroker) -> None:
        assert other.heartbeat(want_fence=True).is_fenced
        members = [(1, leader.epoch), (2, other.epoch)]
        assert leader.alter_partition("t", members).error_code == ErrorCode.INELIGIBLE_REPLICA

    def test_a_broker_that_shuts_down(self, home: ControllerHome, leader: RemoteBroker, other: RemoteBroker) -> None:
        create_topic(home, "u", [2, 1])
        with RemoteBroker(home, 3) as third:  # it keeps broker 2 from stopping: it has not applied the hand-over
            third.join()
            third.heartbeat(current_metadata_offset=0)
            assert not other.heartbeat(want_shut_down=True).should_shut_down
            assert home.node.metadata.image.brokers[2].in_controlled_shutdown
            members = [(1, leader.epoch), (2, other.epoch)]
            assert leader.alter_partition("t", members).error_code == ErrorCode.INELIGIBLE_REPLICA
