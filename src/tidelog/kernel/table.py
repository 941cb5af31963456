"""The batch table: a row per record batch, a numpy column per header field.

``scan_batches`` fills it. Recovery, index rebuild, verify, count, the planners and dump compute with it. All columns
lie one behind the other in a single block of ``capacity`` rows, the widest first, so that a scan of one batch allocates
once. A column becomes a numpy array at its first use. Tables are immutable. Thread rule: any thread. Slices use the
same block.

Rows of format v0 and v1 are the outer messages. ``base_offset`` and ``last_offset`` are both the message's offset field
(a compressed set has its last record's offset). ``record_count`` is 1, or -1 if compressed. Both timestamps are the
message's (-1 in v0). Epoch, producer and sequence are -1.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

_T = TypeVar("_T", bound=np.generic)

# The block's layout: the order and widths that kernel/_layout.pxd writes.
COLUMNS: tuple[tuple[str, type[np.generic]], ...] = (
    ("position", np.int64),
    ("base_offset", np.int64),
    ("last_offset", np.int64),
    ("base_timestamp", np.int64),
    ("max_timestamp", np.int64),
    ("producer_id", np.int64),
    ("size", np.int32),
    ("record_count", np.int32),
    ("leader_epoch", np.int32),
    ("base_sequence", np.int32),
    ("crc", np.uint32),
    ("producer_epoch", np.int16),
    ("attributes", np.int16),
    ("magic", np.int8),
    ("crc_ok", np.bool_),
    ("header_ok", np.bool_),
)
ROW_BYTES = sum(np.dtype(dtype).itemsize for _, dtype in COLUMNS)
_COLUMN_START = {
    name: sum(np.dtype(dtype).itemsize for _, dtype in COLUMNS[:index]) for index, (name, _) in enumerate(COLUMNS)
}
_FIELDS = [(_COLUMN_START[name], struct.Struct("@" + np.dtype(dtype).char)) for name, dtype in COLUMNS]
"""The start of each column, in bytes per row of capacity, and the format of a value."""


class Stop(enum.IntEnum):
    """The reason for the end of a scan."""

    END = 0
    """Every byte belongs to a complete batch."""
    PARTIAL = 1
    """The remaining bytes are fewer than a header, or fewer than the header's length field."""
    BAD_SIZE = 2
    """The length field is below the smallest batch of its format."""
    BAD_MAGIC = 3
    """The format version is none of 0, 1, 2."""


class BatchRow(NamedTuple):
    """A row of the table as plain Python values."""

    position: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    size: int
    record_count: int
    leader_epoch: int
    base_sequence: int
    crc: int
    producer_epoch: int
    attributes: int
    magic: int
    crc_ok: bool
    header_ok: bool


class Summary(NamedTuple):
    """Facts about all rows, so that a reader need not check columns in the usual case."""

    first_offset: int
    """The first row's ``base_offset``, -1 without rows."""
    last_offset: int
    """The last row's ``last_offset``, -1 without rows."""
    crcs_ok: bool
    sound: bool
    """True if each row's CRC and header are right, and each row begins above the previous row's last offset."""
    attributes: int
    """The union of all v2 rows' attribute bits."""
    leader_epoch: int
    """The largest epoch, at least -1."""
    producer_id: int
    """The largest producer id, at least -1."""


class _Column(Generic[_T]):
    """A column of the block, made into an array at first use and then cached in the instance."""

    def __init__(self, dtype: type[_T]) -> None:
        self._dtype = dtype

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, table: None, owner: type) -> Self: ...
    @overload
    def __get__(self, table: BatchTable, owner: type) -> npt.NDArray[_T]: ...
    def __get__(self, table: BatchTable | None, owner: type) -> Self | npt.NDArray[_T]:
        if table is None:
            return self
        array = table._array(self._name, self._dtype)
        table.__dict__[self._name] = array
        return array


class BatchTable:
    """Columns of length ``len(table)``; the module's docstring explains the rows of legacy messages."""

    position = _Column(np.int64)
    """The batch's first byte: ``base_position`` of the scan plus the index in its buffer."""
    base_offset = _Column(np.int64)
    last_offset = _Column(np.int64)
    base_timestamp = _Column(np.int64)
    """The time in ms, or the delete horizon if ``has_delete_horizon`` (KIP-534). Record deltas always count from it."""
    max_timestamp = _Column(np.int64)
    producer_id = _Column(np.int64)
    size = _Column(np.int32)
    """The bytes of the complete batch, including the offset and length fields."""
    record_count = _Column(np.int32)
    leader_epoch = _Column(np.int32)
    base_sequence = _Column(np.int32)
    crc = _Column(np.uint32)
    """The stored checksum: CRC-32C for v2, CRC-32 for v0 and v1."""
    producer_epoch = _Column(np.int16)
    attributes = _Column(np.int16)
    magic = _Column(np.int8)
    crc_ok = _Column(np.bool_)
    """True if the stored checksum equals the computed one; always True if ``crc_verified`` is False."""
    header_ok = _Column(np.bool_)
    """True if the header does not contradict itself. Kafka's recovery does not check this.

    Offsets must not be negative or overflow. The record count must not be negative, or exceed the offsets or the bytes.
    """

    def __init__(
        self,
        block: bytes | memoryview,
        *,
        capacity: int,
        first: int,
        count: int,
        end_position: int,
        stop: Stop,
        partial_size: int,
        crc_verified: bool,
        summary: Summary | None = None,
    ) -> None:
        self._summary = summary
        self._block = block
        self._capacity = capacity
        self._first = first
        self._count = count
        self.end_position = end_position
        """The position just after the last complete batch."""
        self.stop = stop
        """The reason for the end at ``end_position``."""
        self.partial_size = partial_size
        """The complete batch's size by its length field if ``stop`` is PARTIAL; 0 if that field is partial too."""
        self.crc_verified = crc_verified

    def _array(self, name: str, dtype: type[_T]) -> npt.NDArray[_T]:
        width = np.dtype(dtype).itemsize
        start = _COLUMN_START[name] * self._capacity + width * self._first
        array = np.frombuffer(self._block, dtype, self._count, start)
        array.flags.writeable = False
        return array

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"BatchTable({self._count} batches, end_position={self.end_position}, stop={self.stop.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        state = (self.end_position, self.stop, self.partial_size, self.crc_verified)
        return (BatchTable.from_columns, ({name: np.array(getattr(self, name)) for name, _ in COLUMNS}, *state))

    @classmethod
    def from_columns(
        cls,
        columns: dict[str, npt.NDArray[Any]],
        end_position: int,
        stop: Stop = Stop.END,
        partial_size: int = 0,
        crc_verified: bool = True,
    ) -> BatchTable:
        """Return a table with copies of ``columns`` (every name of ``COLUMNS``, all of one length)."""
        count = len(columns["position"])
        block = np.empty(count * ROW_BYTES, np.uint8)
        for name, dtype in COLUMNS:
            np.frombuffer(block, dtype, count, _COLUMN_START[name] * count)[:] = columns[name]
        return cls(
            block.data,
            capacity=count,
            first=0,
            count=count,
            end_position=end_position,
            stop=stop,
            partial_size=partial_size,
            crc_verified=crc_verified,
        )

    @classmethod
    def concat(cls, tables: Sequence[BatchTable]) -> BatchTable:
        """Return the rows of all ``tables``; end and stop are the last one's. Raise ValueError for no tables."""
        if not tables:
            raise ValueError("concat needs at least one table")
        if len(tables) == 1:
            return tables[0]
        last = tables[-1]
        count = sum(map(len, tables))
        block = np.empty(count * ROW_BYTES, np.uint8)
        for name, dtype in COLUMNS:
            column = np.frombuffer(block, dtype, count, _COLUMN_START[name] * count)
            np.concatenate([getattr(table, name) for table in tables], out=column)
        return cls(
            block.data,
            capacity=count,
            first=0,
            count=count,
            end_position=last.end_position,
            stop=last.stop,
            partial_size=last.partial_size,
            crc_verified=all(table.crc_verified for table in tables),
        )

    def take(self, rows: slice | npt.NDArray[Any]) -> BatchTable:
        """Return rows by slice, boolean mask or row numbers; no copy for step 1, or for a mask of all rows."""
        if not isinstance(rows, slice):
            if rows.dtype == np.bool_ and len(rows) == self._count and rows.all():
                return self.take(slice(None))
            columns = {name: getattr(self, name)[rows] for name, _ in COLUMNS}
            return self.from_columns(columns, self.end_position, self.stop, self.partial_size, self.crc_verified)
        first, end, step = rows.indices(self._count)
        if (first, end, step) == (0, self._count, 1):
            return self
        if step != 1:
            return self.take(np.arange(first, end, step))
        return BatchTable(
            self._block,
            capacity=self._capacity,
            first=self._first + first,
            count=max(0, end - first),
            end_position=self.end_position,
            stop=self.stop,
            partial_size=self.partial_size,
            crc_verified=self.crc_verified,
        )

    def row(self, index: int) -> BatchRow:
        """Return row ``index`` (negative: from the end) as plain values."""
        if not -self._count <= index < self._count:
            raise IndexError(f"row {index} of a table of {self._count}")
        row = self._first + (index if index >= 0 else index + self._count)
        return BatchRow._make(
            [field.unpack_from(self._block, start * self._capacity + field.size * row)[0] for start, field in _FIELDS]
        )

    def rows(self) -> Iterator[BatchRow]:
        """Yield all rows as plain values."""
        return map(BatchRow._make, zip(*(getattr(self, name).tolist() for name, _ in COLUMNS), strict=True))

    @property
    def summary(self) -> Summary:
        """The summary from the scan; other tables compute it at first use."""
        if self._summary is None:
            self._summary = self._summed_up()
        return self._summary

    def _summed_up(self) -> Summary:
        if not self._count:
            return Summary(-1, -1, crcs_ok=True, sound=True, attributes=0, leader_epoch=-1, producer_id=-1)
        crcs_ok = bool(self.crc_ok.all())
        ascending = bool((self.base_offset[1:] > self.last_offset[:-1]).all())
        return Summary(
            int(self.base_offset[0]),
            int(self.last_offset[-1]),
            crcs_ok=crcs_ok,
            sound=crcs_ok and ascending and bool(self.header_ok.all()),
            attributes=int(np.bitwise_or.reduce(self.attributes[self.magic == 2], initial=0)),
            leader_epoch=max(-1, int(self.leader_epoch.max())),
            producer_id=max(-1, int(self.producer_id.max())),
        )

    @property
    def codec(self) -> npt.NDArray[np.int16]:
        """The codec numbers: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & np.int16(7)

    @property
    def is_log_append(self) -> npt.NDArray[np.bool_]:
        """True if the broker set the timestamp: every record has ``max_timestamp``."""
        flags: npt.NDArray[np.bool_] = np.not_equal(self.attributes & np.int16(0x08), 0)
        return flags

    @property
    def is_transactional(self) -> npt.NDArray[np.bool_]:
        return self._v2_flag(0x10)

    @property
    def is_control(self) -> npt.NDArray[np.bool_]:
        return self._v2_flag(0x20)

    @property
    def has_delete_horizon(self) -> npt.NDArray[np.bool_]:
        return self._v2_flag(0x40)

    def _v2_flag(self, bit: int) -> npt.NDArray[np.bool_]:
        flags: npt.NDArray[np.bool_] = np.logical_and(self.attributes & np.int16(bit), self.magic == 2)
        return flags
