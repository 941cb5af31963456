"""Offsets that are committed in transactions, over the wire: pending, committed and aborted, also after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from server.groups.group_broker import GroupBroker
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode


class TransactionalProducer:
    def __init__(self, groups: GroupBroker, version: int) -> None:
        """Use ``version`` of TxnOffsetCommit. Version 5 and later add the partition to the transaction."""
        self.groups = groups
        self.version = version
        found = groups.client.call(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=["tx"]).coordinators
        assert found[0].error_code == 0
        self.who: dict[str, Any] = {"transactional_id": "tx"}
        made = groups.client.call(ApiKey.INIT_PRODUCER_ID, transaction_timeout=60_000, **self.who)
        assert made.error_code == 0, made
        self.who |= {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}

    def add(self) -> None:
        if self.version < 5:
            added = self.groups.client.call(ApiKey.ADD_OFFSETS_TO_TXN, min(self.version, 4), group_id="g", **self.who)
            assert added.error_code == 0

    def commit(self, offset: int, topic: str = "t", **fields: Any) -> int:
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "tx"}
        topics = [{"name": topic, "partitions": [part]}]
        given = {"group_id": "g", "topics": topics, **self.who, **fields}
        answer = self.groups.client.call(ApiKey.TXN_OFFSET_COMMIT, self.version, **given)
        return int(answer.topics[0].partitions[0].error_code)

    def end(self, *, commits: bool) -> None:
        version = 5 if self.version == 5 else 4
        ended = self._try_to_end(version, commits=commits)
        while ended.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # as after a restart
            ended = self._try_to_end(version, commits=commits)
        assert ended.error_code == 0, ended
        if version == 5:
            self.who |= {"producer_id": ended.producer_id, "producer_epoch": ended.producer_epoch}

    def _try_to_end(self, version: int, *, commits: bool) -> Any:
        return self.groups.client.call(ApiKey.END_TXN, version, committed=commits, **self.who)


@pytest.fixture(params=[0, 3, 4, 5])
def producer(request: pytest.FixtureRequest, groups: GroupBroker) -> TransactionalProducer:
    groups.make_topic()
    groups.find()
    return TransactionalProducer(groups, request.param)


def unstable(groups: GroupBroker) -> int:
    return int(groups.fetch(require_stable=True).error_code)


def settled(groups: GroupBroker) -> int:
    """Return the offset once the markers are written."""
    while unstable(groups) == ErrorCode.UNSTABLE_OFFSET_COMMIT:
        pass
    return int(groups.fetch().committed_offset)


def test_offsets_are_pending_until_the_transaction_is_committed(producer: TransactionalProducer) -> None:
    groups = producer.groups
    groups.commit(1)
    producer.add()
    assert producer.commit(10) == 0
    assert groups.fetch().committed_offset == 1
    assert unstable(groups) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    producer.end(commits=True)
    assert settled(groups) == 10


def test_offsets_of_an_aborted_transaction_are_forgotten(producer: TransactionalProducer) -> None:
    groups = producer.groups
    groups.commit(1)
    producer.add()
    producer.commit(10)
    producer.end(commits=False)
    assert settled(groups) == 1


def test_a_transaction_goes_on_after_a_restart(producer: TransactionalProducer) -> None:
    groups = producer.groups
    producer.add()
    producer.commit(10)
    groups.restart()
    assert groups.fetch().committed_offset == -1
    assert unstable(groups) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert producer.commit(11) == 0
    producer.end(commits=True)
    assert settled(groups) == 11
    groups.restart()
    assert groups.fetch(require_stable=True).committed_offset == 11


def test_commits_that_are_refused(producer: TransactionalProducer) -> None:
    if producer.version < 5:
        assert producer.commit(1) in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE), "never added"
    producer.add()
    assert producer.commit(1, topic="gone") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.commit(1, group_id="") == ErrorCode.INVALID_GROUP_ID
    if producer.version >= 3:
        assert producer.commit(1, member_id="who", generation_id=1) == ErrorCode.ILLEGAL_GENERATION
    assert producer.commit(1, producer_epoch=99) != 0
