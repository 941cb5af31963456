"""The text that ``kafka-dump-log`` prints for the record of a control batch.

Kafka 4.1 writes and reads these messages in version 0, whatever version their first field names. It prints them in the
named version, with defaults for the fields that it did not read. The functions are pure. Thread rule: any thread.
"""

from __future__ import annotations

from tidelog.model import CorruptRecordError
from tidelog.record.control import ControlType, EndTransactionMarker, control_type_id
from tidelog.record.internal_records.control_tables import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
)
from tidelog.record.internal_records.decoder import decode_message
from tidelog.record.internal_records.defaults import with_defaults
from tidelog.record.internal_records.json_text import kafka_json
from tidelog.record.internal_records.schema import Message

MESSAGES: dict[int, tuple[str, Message]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange:", LEADER_CHANGE),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SNAPSHOT_HEADER),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SNAPSHOT_FOOTER),
    ControlType.KRAFT_VERSION: ("KRaftVersion", KRAFT_VERSION),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", KRAFT_VOTERS),
}


def control_text(key: bytes | None, value: bytes | None) -> str:
    """Return the text after a control record's header keys, without a leading blank. Raise CorruptRecordError if
    Kafka's tool ends with an exception."""
    number = control_type_id(key)
    if number in (ControlType.ABORT, ControlType.COMMIT):
        marker = EndTransactionMarker.parse(key, value)
        return f"endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
    known = MESSAGES.get(number)
    if known is None:
        return f"controlType: UNKNOWN({number})"
    name, message = known
    if value is None:
        raise CorruptRecordError(f"a control record of type {number} has no value")
    fields, _ = decode_message(message, value, 0)
    if fields["version"] > 0:
        fields = with_defaults(message, fields, fields["version"])
    return f"{name} {kafka_json(fields)}"
