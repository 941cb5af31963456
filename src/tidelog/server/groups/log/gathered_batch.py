"""A batch of group records that is under way: what it has, and who waits for it. Pure.

Called by: PartitionJournal. Thread rule: the loop's.
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
"""No record has more bytes besides its key and its value: lengths, offset and time as variable-length integers."""


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
    """Where it will begin if nobody else appends to the partition."""
    records: list[RecordBytes] = field(default_factory=list)
    size: int = BATCH_OVERHEAD
    """An upper bound, in bytes."""
    waiting: list[Done] = field(default_factory=list)
    is_applied: bool = False
    """The shard's state has some of it already."""

    def add(self, records: Sequence[RecordBytes], done: Done) -> int:
        """Add one change; return the offset that its first record will have."""
        first = self.first_offset + len(self.records)
        self.records += records
        self.size += size_of(records)
        self.waiting.append(done)
        return first
