"""The values of KRaft's control records, such as leader change, snapshot header and voters.

The module covers leader change, snapshot header and footer, KRaft version and KRaft voters. Each value begins with its
own version (int16), which decides the layout. Kafka 4.1 writes (and reads) a leader change of version 1 in the layout
of version 0, without directory ids. So a value whose bytes fit an older layout is read with that one. Fields are a dict
by Kafka's names, see ``internal.control_tables``; keys and types of control records are in ``control``.
Pure. Thread rule: any thread. Source: KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.model import CorruptRecordError, UnsupportedFormatError
from tidelog.record.control import ControlType
from tidelog.record.internal_records import control_tables
from tidelog.record.internal_records.decoder import decode_message
from tidelog.record.internal_records.defaults import with_defaults
from tidelog.record.internal_records.encoder import encode_message
from tidelog.record.internal_records.schema import Message

_MESSAGES: Final[dict[ControlType, Message]] = {
    ControlType.LEADER_CHANGE: control_tables.LEADER_CHANGE,
    ControlType.SNAPSHOT_HEADER: control_tables.SNAPSHOT_HEADER,
    ControlType.SNAPSHOT_FOOTER: control_tables.SNAPSHOT_FOOTER,
    ControlType.KRAFT_VERSION: control_tables.KRAFT_VERSION,
    ControlType.KRAFT_VOTERS: control_tables.KRAFT_VOTERS,
}


def quorum_fields(type_: ControlType, value: bytes | None) -> dict[str, Any]:
    """Return the fields of a value, ``version`` first.

    Raise UnsupportedFormatError for an unknown version, and CorruptRecordError for bytes that do not fit, or for a type
    outside KRaft, such as a transaction marker.
    """
    message = _MESSAGES.get(type_)
    if message is None:
        raise CorruptRecordError(f"{type_.name} is not a control record of KRaft")
    if value is None or len(value) < 2:
        raise CorruptRecordError(f"the value of a control record {type_.name} is missing or truncated")
    version = int.from_bytes(value[:2], "big", signed=True)
    if version not in message.versions:
        raise UnsupportedFormatError(f"a control record {type_.name} of version {version} is not known")
    return _fields(message, value, version)


def quorum_value(type_: ControlType, fields: Mapping[str, Any]) -> bytes:
    """Return the bytes of a value of KRaft. Raise InvalidRecordError for a wrong field."""
    return encode_message(_MESSAGES[type_], fields, fields.get("version", 0))


def _fields(message: Message, value: bytes, version: int) -> dict[str, Any]:
    for layout in range(version, -1, -1):
        try:
            fields, end = decode_message(message, value, layout)
        except CorruptRecordError:
            if layout == 0:
                raise
            continue
        if end == len(value) or version == 0:
            return with_defaults(message, fields, version)
    raise CorruptRecordError(f"{message.name} of version {version}: the value is longer than its fields")
