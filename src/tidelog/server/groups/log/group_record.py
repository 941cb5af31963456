"""A record of ``__consumer_offsets`` as fields: what the coordinator writes, and what it applies to its state. Pure.

Fields are by Kafka's names, a topic id as its 22 characters; ``value`` None deletes the key. The same record is
written, applied at once, and applied again when the log is read by the next coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from tidelog.record.internal.frames import decode_key, decode_value, encode_key, encode_value
from tidelog.record.internal.group_tables import GROUP_TYPES


class GroupRecord(NamedTuple):
    """``number`` is the record type: the API key of its table."""

    number: int
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None
    version: int = 0
    """Of the value."""

    def key_bytes(self) -> bytes:
        return encode_key(GROUP_TYPES, self.number, self.key)

    def value_bytes(self) -> bytes | None:
        return None if self.value is None else encode_value(GROUP_TYPES, self.number, self.value, self.version)

    @classmethod
    def read(cls, key: bytes, value: bytes | None) -> Self | None:
        """None for types and versions the tables do not know; CorruptRecordError for bytes that do not fit them."""
        decoded_key = decode_key(GROUP_TYPES, key)
        if decoded_key.fields is None:
            return None
        if value is None:
            return cls(decoded_key.number, decoded_key.fields, None)
        decoded = decode_value(GROUP_TYPES, decoded_key.number, value)
        if decoded.fields is None:
            return None
        return cls(decoded_key.number, decoded_key.fields, decoded.fields, decoded.version)
