"""A batch of group records that is being gathered: its records and its callbacks. Pure.

Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.server.groups.journal import Done
from tidelog.server.groups.log.group_record import GroupRecord

BATCH_OVERHEAD: Final = 61
"""Bytes of a batch before its first record."""
_RECORD_OVERHEAD: Final = 32
"""An upper bound of a record's bytes without key and value: lengths, offset and time as variable-length integers."""


class RecordBytes(NamedTuple):
    key: bytes
    value: bytes | None

    @classmethod
    def of(cls, record: GroupRecord) -> RecordBytes:
        return cls(record.key_bytes(), record.value_bytes())


def size_of(records: Sequence[RecordBytes]) -> int:
    """Return an upper bound of the bytes that the records take in an uncompressed batch."""
    return sum(_RECORD_OVERHEAD + len(key) + (0 if value is None else len(value)) for key, value in records)


@dataclass(slots=True, kw_only=True)
class GatheredBatch:
    first_offset: int
    """The batch's expected base offset: correct unless other records are appended to the partition first."""
    records: list[RecordBytes] = field(default_factory=list)
    size: int = BATCH_OVERHEAD
    """An upper bound, in bytes."""
    waiting: list[Done] = field(default_factory=list)
    is_applied: bool = False
    """The shard's state already has a part of it."""

    def add(self, records: Sequence[RecordBytes], done: Done) -> int:
        """Add one change. Return the offset that its first record will have."""
        first = self.first_offset + len(self.records)
        self.records += records
        self.size += size_of(records)
        self.waiting.append(done)
        return first
