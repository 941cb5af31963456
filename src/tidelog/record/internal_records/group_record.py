"""A record of ``__consumer_offsets`` as fields, for encoding and for changing the state. Pure.

Fields have Kafka's names. A topic id is its text of 22 characters. A ``value`` of None deletes the key. A coordinator
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
        record = cls.read_key(key)
        return record if record is None or value is None else record.with_value(value)

    @classmethod
    def read_key(cls, key: bytes) -> Self | None:
        """Decode the key of a record as a tombstone, None if its type is unknown."""
        decoded = decode_key(GROUP_TYPES, key)
        return None if decoded.fields is None else cls(decoded.number, decoded.fields, None)

    def with_value(self, value: bytes) -> Self | None:
        """Return the record with this encoded value, None if its version is unknown."""
        decoded = decode_value(GROUP_TYPES, self.number, value)
        return None if decoded.fields is None else self._replace(value=decoded.fields, version=decoded.version)
