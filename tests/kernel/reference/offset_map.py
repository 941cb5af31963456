"""The latest offset of each key, with the slots and hashes of its twin _offset_map.pyx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from kernel.reference.siphash import siphash
from tidelog.kernel.columns import RecordColumns
from tidelog.kernel.table import BatchTable

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SLOT_BYTES: Final = 24


class OffsetMap:
    """A map with linear probing over a list; a slot is None or [hash, offset]."""

    def __init__(self, memory_bytes: int, *, key: Buffer, load_factor: float = 0.9) -> None:
        self._key = bytes(key)
        if len(self._key) != 16:
            raise ValueError(f"the key must be 16 bytes, not {len(self._key)}")
        if not 0 < load_factor < 1:
            raise ValueError(f"the load factor must lie between 0 and 1, not {load_factor}")
        self.slot_count = memory_bytes // _SLOT_BYTES
        self.max_size = int(self.slot_count * load_factor)
        if self.slot_count < 2 or self.max_size < 1:
            raise ValueError(f"{memory_bytes} bytes hold no entries")
        self.clear()

    def clear(self) -> None:
        self._slots: list[list[int] | None] = [None] * self.slot_count
        self.size = self.lookups = self.probes = 0
        self.latest_offset = -1
        self._noted: set[int] | None = set()
        self._latest_noted = -1

    def __len__(self) -> int:
        return self.size

    @property
    def full(self) -> bool:
        return self.size >= self.max_size

    @property
    def utilization(self) -> float:
        return self.size / self.slot_count

    @property
    def collision_rate(self) -> float:
        return (self.probes - self.lookups) / self.lookups if self.lookups else 0.0

    def hash_of(self, key: Buffer) -> int:
        return int.from_bytes(siphash(bytes(key), self._key), "little")

    def _find(self, hashed: int) -> int:
        """Return the slot with the hash, or the empty slot for it."""
        index = (hashed & (1 << 64) - 1) * self.slot_count >> 64
        self.lookups += 1
        self.probes += 1
        while (slot := self._slots[index]) is not None and slot[0] != hashed:
            self.probes += 1
            index = (index + 1) % self.slot_count
        return index

    def put(self, key: Buffer, offset: int) -> bool:
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        return self.put_hashed(self.hash_of(key), offset) is not None

    def put_hashed(self, hashed: int, offset: int) -> int | None:
        """Return the key's previous latest offset, -1 for a new key; None if a new key does not fit."""
        index = self._find(hashed)
        slot = self._slots[index]
        if slot is None:
            if self.full:
                return None
            self.size += 1
            self._slots[index] = slot = [hashed, -1]
        before = slot[1]
        slot[1] = max(before, offset)
        self.latest_offset = max(self.latest_offset, offset)
        return before

    def note_superseded(self, before: int, offset: int) -> None:
        """Note a key at ``offset``; ``before`` is its previous offset, or -1."""
        if offset <= self._latest_noted:
            self._noted = None
        self._latest_noted = max(self._latest_noted, offset)
        if self._noted is not None and 0 <= before < offset:
            self._noted.add(before)

    def is_superseded(self, offset: int) -> bool:
        return self._noted is not None and offset in self._noted

    def superseded(self, table: BatchTable) -> npt.NDArray[np.bool_]:
        noted = self._noted if self._noted is not None and table.summary.sound else ()
        counts = [sum(row.base_offset <= offset <= row.last_offset for offset in noted) for row in table.rows()]
        is_data = (table.magic == 2) & ~table.is_control & (table.record_count > 0)
        all_noted: npt.NDArray[np.bool_] = is_data & (np.array(counts, np.int64) == table.record_count)
        return all_noted

    def get(self, key: Buffer) -> int:
        slot = self._slots[self._find(self.hash_of(key))]
        return -1 if slot is None else slot[1]

    def put_columns(self, columns: RecordColumns, first: int = 0, last: int | None = None) -> int:
        end = len(columns) if last is None else last
        keys = _keys(columns, first, end)
        if end > first and columns.offset[first:end].min() < 0:
            raise ValueError("a row has a negative offset")
        for row, key in zip(range(first, end), keys, strict=True):
            if key is not None and not self.put(key, int(columns.offset[row])):
                return row
        return end

    def get_columns(self, columns: RecordColumns, first: int = 0, last: int | None = None) -> npt.NDArray[np.int64]:
        keys = _keys(columns, first, len(columns) if last is None else last)
        return np.array([-1 if key is None else self.get(key) for key in keys], np.int64)


def _keys(columns: RecordColumns, first: int, last: int) -> list[bytes | None]:
    offsets, data, validity = columns.key_offsets, columns.key_data, columns.key_validity
    if offsets is None or data is None:
        raise ValueError("the columns have no keys")
    if not 0 <= first <= last <= len(columns) or len(offsets) != len(columns) + 1:
        raise ValueError(f"rows [{first}:{last}] of {len(columns)} rows and {len(offsets)} key offsets")
    bounds = [int(bound) for bound in offsets[first : last + 1]]
    if bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > len(data):
        raise ValueError("the columns contradict themselves: key offsets fall or pass the data")
    if validity is not None and len(validity) < (last + 7) // 8:
        raise ValueError(f"key_validity has {len(validity)} bytes for {last} rows")
    return [
        bytes(data[start:end]) if validity is None or validity[row >> 3] >> (row & 7) & 1 else None
        for row, start, end in zip(range(first, last), bounds, bounds[1:], strict=False)
    ]
