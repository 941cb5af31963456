"""A record of the cluster metadata: a Kafka message with its fields, and its bytes in a version.

The finalized ``metadata.version`` decides the version of a record, so that brokers of that release can read it::

    metadata.version     7 (3.3)  8 (3.4)  17 (3.7-IV2)  23 (4.0-IV1)  30 (4.3-IV0)
    RegisterBroker             1        2             3                           4
    Partition                  0                      1             2
    PartitionChange            0                      1             2
    all others                 the oldest that can hold the fields

Fields have Kafka's names, and ids are Kafka's 22 characters. Pure. Thread rule: any thread.
Source: Kafka's ``MetadataVersion`` and the callers of ``ApiMessageAndVersion``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tidelog.record.internal_records.frames import decode_framed, encode_framed
from tidelog.record.internal_records.metadata_tables import MESSAGES, METADATA_TYPES

_VERSIONS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "RegisterBrokerRecord": ((30, 4), (17, 3), (8, 2), (0, 1)),
    "PartitionRecord": ((23, 2), (17, 1)),
    "PartitionChangeRecord": ((23, 2), (17, 1)),
}
"""The record's versions, newest first: the metadata.version that introduced each one, and its number."""


NEWER_RECORD: Final = "NewerRecord"
"""The name of a record whose type or version this release does not know. It cannot be encoded."""


class MetadataRecord(NamedTuple):
    name: str
    """The name of Kafka's message, for example ``TopicRecord``, or NEWER_RECORD."""
    fields: Mapping[str, Any]
    """The fields; missing ones have their defaults. A NEWER_RECORD has ``type``, ``version`` and ``value`` in bytes."""


def encode_record(record: MetadataRecord, metadata_version: int) -> bytes:
    """Return the value of a record in the log, with its frame."""
    message = MESSAGES[record.name]
    return encode_framed(message, record.fields, _version(record, metadata_version))


def decode_record(value: bytes) -> MetadataRecord:
    """Decode a record's value. Tagged fields with default values are left out.

    A record that this release does not know becomes a NEWER_RECORD. Raise CorruptRecordError for malformed bytes.
    """
    found = decode_framed(METADATA_TYPES, value)
    if found.name is None or found.fields is None:
        kind = found.name or f"type {found.number}"
        return MetadataRecord(NEWER_RECORD, {"type": kind, "version": found.version, "value": value})
    return MetadataRecord(found.name, found.fields)


def _version(record: MetadataRecord, metadata_version: int) -> int:
    steps = _VERSIONS.get(record.name)
    if steps is not None:
        return next((version for since, version in steps if metadata_version >= since), 0)
    named = (field for field in MESSAGES[record.name].fields if field.name in record.fields)
    return max(field.versions.first for field in named) if record.fields else 0
