"""Requests that fetch, look up, write or delete records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from log_maker import batch
from server.authorization.case import (
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    UNKNOWN_ID,
    Case,
    Values,
    asked,
    on_cluster,
    on_topic,
    on_transaction,
    producer_of,
)
from server.authorization.world import HIDDEN, TOPIC, TRANSACTION, World
from tidelog.model import Record, TimestampType
from tidelog.protocol.api_key import ApiKey
from tidelog.record.attributes import TRANSACTIONAL_FLAG
from tidelog.record.build import build_batch
from tidelog.server.authorization.operation import Operation

# --- reading ---


def _fetch(topics: Any, **more: Any) -> Values:
    return {
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": topics,
        **more,
    }


_FETCHED = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}


def reading() -> Iterator[Case]:
    by_name = asked(
        ApiKey.FETCH,
        _fetch([{"topic": name, "partitions": [_FETCHED]} for name in (TOPIC, "none-such")], replica_id=-1),
        version=12,
        name="by name",
    )
    yield by_name.by("denied", denial=TOPIC_DENIED)
    yield by_name.by("allowed one", on_topic(Operation.READ), denial=TOPIC_DENIED)
    yield by_name.by("allowed all", on_topic(Operation.READ, "*"))
    yield by_name.by("allowed to see", on_topic(Operation.DESCRIBE), denial=TOPIC_DENIED)
    by_id = asked(
        ApiKey.FETCH,
        lambda world: _fetch(
            [{"topic_id": topic_id, "partitions": [_FETCHED]} for topic_id in (world.ids[TOPIC], UNKNOWN_ID)]
        ),
        name="by id",
    )
    yield by_id.by("denied", denial=TOPIC_DENIED)
    yield by_id.by("allowed", on_topic(Operation.READ))
    follower = asked(
        ApiKey.FETCH,
        _fetch([{"topic": TOPIC, "partitions": [_FETCHED]}], replica_id=2),
        version=12,
        name="as a follower",
    )
    yield follower.by("denied", on_topic(Operation.READ), denial=TOPIC_DENIED)
    yield follower.by("allowed", on_cluster(Operation.CLUSTER_ACTION))
    listed = asked(
        ApiKey.LIST_OFFSETS,
        {
            "replica_id": -1,
            "topics": [
                {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in (TOPIC, "none-such")
            ],
        },
    )
    yield listed.by("denied", denial=TOPIC_DENIED)
    yield listed.by("allowed", on_topic(Operation.READ), denial=TOPIC_DENIED)
    epochs = asked(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        {
            "replica_id": -1,
            "topics": [
                {"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
                for name in (TOPIC, HIDDEN)
            ],
        },
    )
    yield epochs.by("denied", denial=TOPIC_DENIED)
    yield epochs.by("allowed", on_topic(Operation.DESCRIBE), denial=TOPIC_DENIED)
    yield epochs.by("allowed as a broker", on_cluster(Operation.CLUSTER_ACTION))
    producers = asked(
        ApiKey.DESCRIBE_PRODUCERS, {"topics": [{"name": name, "partition_indexes": [0]} for name in (TOPIC, HIDDEN)]}
    )
    yield producers.by("denied", denial=TOPIC_DENIED)
    yield producers.by("allowed", on_topic(Operation.READ), denial=TOPIC_DENIED)
    yield producers.by("allowed to see", on_topic(Operation.DESCRIBE), denial=TOPIC_DENIED)


# --- writing ---


def records_of(**producer: Any) -> bytes:
    return bytes(build_batch([Record(0, 1_700_000_000_000, TimestampType.CREATE, None, b"value")], **producer))


def flagged_records() -> bytes:
    """Return a batch with the transactional flag, although no producer began a transaction."""
    return bytes(batch(0, [b"value"], attributes=TRANSACTIONAL_FLAG, timestamp=1_700_000_000_000))


def _produced(topics: list[Values], **more: Any) -> Values:
    return {"transactional_id": None, "acks": -1, "timeout": 10_000, "topic_data": topics, **more}


def writing() -> Iterator[Case]:
    parts = [{"index": 0, "records": records_of()}]
    by_name = asked(
        ApiKey.PRODUCE,
        _produced([{"name": name, "partition_data": parts} for name in (TOPIC, HIDDEN, "none-such")]),
        version=12,
        name="by name",
    )
    yield by_name.by("denied", denial=TOPIC_DENIED)
    yield by_name.by("allowed", on_topic(Operation.WRITE), denial=TOPIC_DENIED)
    yield by_name.by("allowed to read", on_topic(Operation.READ, "*"), denial=TOPIC_DENIED)
    by_id = asked(
        ApiKey.PRODUCE,
        lambda world: _produced(
            [{"topic_id": topic_id, "partition_data": parts} for topic_id in (world.ids[TOPIC], UNKNOWN_ID)]
        ),
        name="by id",
    )
    yield by_id.by("denied", denial=TOPIC_DENIED)
    yield by_id.by("allowed", on_topic(Operation.WRITE))

    def in_transaction(world: World) -> Values:
        producer_id, epoch = world.producers[TRANSACTION]
        records = records_of(producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
        topics: list[Values] = [{"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}]
        return _produced(topics, transactional_id=TRANSACTION)

    transactional = asked(ApiKey.PRODUCE, in_transaction, version=12, name="in a transaction")
    yield transactional.by("denied", denial=TRANSACTION_DENIED)
    yield transactional.by("denied the transaction", on_topic(Operation.WRITE), denial=TRANSACTION_DENIED)
    yield transactional.by("denied the topic", on_transaction(Operation.WRITE), denial=TOPIC_DENIED)
    yield transactional.by("allowed", on_transaction(Operation.WRITE), on_topic(Operation.WRITE))
    for transaction in (None, TRANSACTION):
        flagged = asked(
            ApiKey.PRODUCE,
            _produced(
                [{"name": TOPIC, "partition_data": [{"index": 0, "records": flagged_records()}]}],
                transactional_id=transaction,
            ),
            version=12,
            name=f"of no producer in {'a' if transaction else 'no'} transaction",
        )
        yield flagged.by("denied", denial=TRANSACTION_DENIED)
        may_both = (on_transaction(Operation.WRITE), on_topic(Operation.WRITE))
        yield flagged.by("allowed", *may_both, denial=None if transaction else TRANSACTION_DENIED)
    ended = asked(
        ApiKey.END_TXN,
        lambda world: {"transactional_id": TRANSACTION, **producer_of(world), "committed": True},
        version=4,
    )
    yield ended.by("denied", denial=TRANSACTION_DENIED)
    yield ended.by("allowed", on_transaction(Operation.WRITE))
