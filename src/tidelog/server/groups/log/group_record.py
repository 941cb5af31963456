"""A record of ``__consumer_offsets`` as fields, for encoding and for changing the state. Pure.

Fields have Kafka's names. A topic id is its text of 22 characters. A ``value`` of None deletes the key. The coordinator
writes a record and applies it at once, and the next coordinator applies it again when it reads the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from tidelog.record.internal_records.frames import decode_key, decode_value, encode_key, encode_value
from tidelog.record.internal_records.group_tables import GROUP_TYPES


class GroupRecord(NamedTuple):
    """``number`` is the record type: the API key in its table."""

    number: int
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None
    version: int = 0
    """The version of the value."""

    def key_bytes(self) -> bytes:
        return encode_key(GROUP_TYPES, self.number, self.key)

    def value_bytes(self) -> bytes | None:
        return None if self.value is None else encode_value(GROUP_TYPES, self.number, self.value, self.version)

    @classmethod
    def read(cls, key: bytes, value: bytes | None) -> Self | None:
        """Decode a record, None if its type or version is unknown. Raise CorruptRecordError for malformed bytes."""
        decoded_key = decode_key(GROUP_TYPES, key)
        if decoded_key.fields is None:
            return None
        if value is None:
            return cls(decoded_key.number, decoded_key.fields, None)
        decoded = decode_value(GROUP_TYPES, decoded_key.number, value)
        if decoded.fields is None:
            return None
        return cls(decoded_key.number, decoded_key.fields, decoded.fields, decoded.version)
