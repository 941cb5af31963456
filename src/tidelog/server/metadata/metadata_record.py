"""One record of the cluster metadata: a message of Kafka's table with its fields, and its bytes in a version.

The version of a record follows from the finalized ``metadata.version``, so that brokers of that release can read it::

    metadata.version     7 (3.3)  8 (3.4)  17 (3.7-IV2)  23 (4.0-IV1)  30 (4.3-IV0)
    RegisterBroker             1        2             3                           4
    Partition                  0                      1             2
    PartitionChange            0                      1             2
    all others                 the oldest that can hold the fields

Fields are Kafka's, by Kafka's names; an id is Kafka's 22 characters. Pure; any thread.
Source: Kafka's ``MetadataVersion`` and the callers of ``ApiMessageAndVersion``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tidelog.record.internal.frames import decode_framed, encode_framed
from tidelog.record.internal.metadata_tables import MESSAGES, METADATA_TYPES

_VERSIONS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "RegisterBrokerRecord": ((30, 4), (17, 3), (8, 2), (0, 1)),
    "PartitionRecord": ((23, 2), (17, 1)),
    "PartitionChangeRecord": ((23, 2), (17, 1)),
}
"""By record, newest first: from which metadata.version on which version of the record."""


NEWER_RECORD: Final = "NewerRecord"
"""The name of a record of a type or version that this release does not know. It cannot be encoded."""


class MetadataRecord(NamedTuple):
    name: str
    """Of Kafka's message: ``TopicRecord``; or NEWER_RECORD."""
    fields: Mapping[str, Any]
    """Those that are left out have their defaults. A NEWER_RECORD has ``type``, ``version`` and ``value`` in bytes."""


def encode_record(record: MetadataRecord, metadata_version: int) -> bytes:
    """The value of a record in the log, frame included."""
    message = MESSAGES[record.name]
    return encode_framed(message, record.fields, _version(record, metadata_version))


def decode_record(value: bytes) -> MetadataRecord:
    """Fields that stand in tags are left out where they have their defaults, as the decoder does.

    A record that this release does not know is a NEWER_RECORD. CorruptRecordError for bytes that do not fit.
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
