"""Builder of ``__consumer_offsets`` partitions: it writes the records that a coordinator would have written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from log_maker import BASE_TIME, batch, write_segment
from tidelog.model import TopicPartition
from tidelog.record.internal_records.committed_offset import OffsetAndMetadata, offset_commit
from tidelog.record.internal_records.encoder import encode_message
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.record.internal_records.schema import parse_messages

_SUBSCRIPTION = parse_messages("Subscription -1 versions 0-3 flexible none\n    topics []string\n    userData bytes?\n")
MEMBER_ID = "member-1"


def commit(group: str, offset: int, *, topic: str = "t", partition: int = 0, **fields: Any) -> GroupRecord:
    """Return the record of an offset that was committed at BASE_TIME."""
    committed = OffsetAndMetadata(offset=offset, **{"commit_ms": BASE_TIME, **fields})
    return offset_commit(group, TopicPartition(topic, partition), committed)


def subscription(*topics: str) -> bytes:
    """Return the metadata of a consumer that reads these topics."""
    message = _SUBSCRIPTION["Subscription"]
    return (0).to_bytes(2, "big") + encode_message(message, {"topics": list(topics), "userData": None}, 0)


def classic_group(
    group: str, *, members: Sequence[dict[str, Any]] = (), protocol_type: str = "consumer", generation: int = 1
) -> GroupRecord:
    """Return the record of a classic group. Members need no fields."""
    defaults = {
        "memberId": MEMBER_ID,
        "groupInstanceId": None,
        "clientId": "client",
        "clientHost": "/127.0.0.1",
        "rebalanceTimeout": 1,
        "sessionTimeout": 1,
        "subscription": subscription("t"),
        "assignment": b"",
    }
    made = [{**defaults, **member} for member in members]
    value = {
        "protocolType": protocol_type,
        "generation": generation,
        "protocol": "range" if made else None,
        "leader": made[0]["memberId"] if made else None,
        "currentStateTimestamp": BASE_TIME,
        "members": made,
    }
    return GroupRecord(2, {"group": group}, value, 3)


def record_batch(at: int, record: GroupRecord, **fields: Any) -> bytes:
    """Return a batch with one record at offset ``at``. ``fields`` are those of ``batch``."""
    return batch(at, [record.value_bytes()], key=record.key_bytes(), **fields)


def write_groups(root: Path, records: Sequence[GroupRecord], *, partition: int = 0) -> Path:
    """Write a partition of the topic with a batch for each record, and return the path of its ``.log``."""
    batches = [record_batch(at, record) for at, record in enumerate(records)]
    return write_segment(root / f"__consumer_offsets-{partition}", 0, batches)
