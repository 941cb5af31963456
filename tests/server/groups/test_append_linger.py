"""``group.coordinator.append.linger.ms`` over the wire: responses that wait for a batch, and events that write it."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from log_maker import batch
from server.groups.group_broker import GroupBroker, group_broker
from tidelog.kernel import scan_batches
from tidelog.model import Isolation, TopicPartition
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.storage.log.partition_log import LogReadRequest
from tidelog.testing.broker.loop_thread import PATIENCE_S

VERSION = VERSIONS[ApiKey.OFFSET_COMMIT].oldest + 6
OFFSETS = TopicPartition("__consumer_offsets", 0)


class Committing:
    """A commit on its own connection, without its response."""

    def __init__(self, groups: GroupBroker, offset: int, group: str = "g") -> None:
        self._client = groups.harness.client()
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        self._sent = self._client.send(
            ApiKey.OFFSET_COMMIT,
            VERSION,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[{"name": "t", "partitions": [part]}],
        )

    @property
    def is_answered(self) -> bool:
        return bool(select.select([self._client.socket], [], [], 0)[0])

    def error(self) -> int:
        """Wait for the response and return its error code."""
        with self._client as client:
            (topic,) = client.receive(ApiKey.OFFSET_COMMIT, VERSION, self._sent).topics
        return int(topic.partitions[0].error_code)


def wait_until_pending(groups: GroupBroker, changes: int) -> None:
    """Wait until the open batch contains this many changes."""
    (owned,) = groups.harness.broker.groups._partitions.values()

    def pending() -> bool:
        gathered = owned._journal._batch
        return gathered is not None and len(gathered.waiting) == changes

    groups.harness.wait_for(pending)


def counts(groups: GroupBroker) -> list[int]:
    """Return the number of records in each batch of the log, including transaction markers."""
    log = groups.harness.broker.replicas.partition(OFFSETS).log
    data = log.read(LogReadRequest(start_offset=0, isolation=Isolation.LOG_END, max_bytes=1 << 20)).data()
    found: list[int] = scan_batches(data).record_count.tolist()
    return found


@pytest.fixture
def groups(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[GroupBroker]:
    """Yield a broker with one partition. The linger is the test's parameter, or longer than the test."""
    linger_ms = getattr(request, "param", 10_000_000)
    settings = {"offsets_topic_num_partitions": "1", "group_coordinator_append_linger_ms": str(linger_ms)}
    with group_broker(tmp_path / "data", **settings) as groups:
        groups.make_topic()
        groups.find()
        yield groups


def test_a_fetch_sees_nothing_that_a_crash_could_take(groups: GroupBroker) -> None:
    committing = [Committing(groups, 1), Committing(groups, 2)]
    wait_until_pending(groups, 2)
    assert [one.is_answered for one in committing] == [False, False]
    assert counts(groups) == []
    assert groups.fetch().committed_offset in (1, 2)
    assert [one.error() for one in committing] == [0, 0]
    assert counts(groups) == [2]


@pytest.mark.parametrize("groups", [20], indirect=True)
def test_the_response_comes_when_the_linger_is_over(groups: GroupBroker) -> None:
    assert [Committing(groups, number).error() for number in range(3)] == [0, 0, 0]
    assert counts(groups) == [1, 1, 1]


@pytest.mark.parametrize("groups", [-1], indirect=True)
def test_adaptive_what_has_arrived_goes_together(groups: GroupBroker) -> None:
    """Commits share batches if they arrive while the event loop is busy."""
    all_sent = threading.Event()
    is_busy = threading.Event()

    def busy() -> None:
        is_busy.set()
        assert all_sent.wait(PATIENCE_S)

    asking = threading.Thread(target=groups.harness.call, args=(busy,))
    asking.start()
    assert is_busy.wait(PATIENCE_S)
    committing = [Committing(groups, number, f"g{number}") for number in range(10)]
    all_sent.set()
    asking.join()
    assert [one.error() for one in committing] == [0] * 10
    assert sum(counts(groups)) == 10
    assert len(counts(groups)) < 10


def test_a_marker_goes_behind_it(groups: GroupBroker) -> None:
    client, who = groups.client, {"transactional_id": "tx"}
    client.call(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=["tx"])
    made = client.call(ApiKey.INIT_PRODUCER_ID, transaction_timeout=60_000, **who)
    who |= {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    part = {"partition_index": 0, "committed_offset": 10, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [part]}]
    answered = client.call(ApiKey.TXN_OFFSET_COMMIT, 5, group_id="tg", topics=topics, **who)
    assert answered.topics[0].partitions[0].error_code == 0
    committing = Committing(groups, 20, "tg")
    wait_until_pending(groups, 1)
    assert client.call(ApiKey.END_TXN, 5, committed=True, **who).error_code == 0
    assert committing.error() == 0
    assert groups.fetch("tg").committed_offset == 20, "it was committed after the transaction's"
    assert counts(groups) == [1, 1, 1]


def test_what_somebody_else_appends_has_the_groups_read_again(groups: GroupBroker) -> None:
    """The other writer may be an administrator's tool."""
    groups.harness.call(lambda: append(groups))
    committing = Committing(groups, 1)
    wait_until_pending(groups, 1)
    groups.harness.call(lambda: append(groups))
    assert groups.client.call(ApiKey.OFFSET_FETCH, 9, groups=[asked()]).groups[0].error_code == 0
    assert committing.error() == ErrorCode.NOT_COORDINATOR
    groups.wait_for_groups()
    assert groups.fetch().committed_offset == 1, "it was in the log all the same"
    again = Committing(groups, 2)
    wait_until_pending(groups, 1)
    assert groups.fetch().committed_offset == 2
    assert again.error() == 0


def asked() -> dict[str, Any]:
    return {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}


def append(groups: GroupBroker) -> None:
    made = bytearray(batch(0, [b"what no group can read"], key=b"\0\x63"))
    groups.harness.broker.replicas.partition(OFFSETS).append(made)


def test_who_waits_when_the_broker_stops_has_no_response_and_no_record(groups: GroupBroker) -> None:
    committing = Committing(groups, 1)
    wait_until_pending(groups, 1)
    groups.restart()
    with pytest.raises(ConnectionError):
        committing.error()
    assert groups.fetch().committed_offset == -1
