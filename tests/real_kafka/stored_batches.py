"""The batches in a partition's segment files as they are stored, and their records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tidelog.kernel import BatchRow, ColumnDecoder, scan_batches
from tidelog.model import Record
from tidelog.record.attributes import CONTROL_FLAG
from tidelog.record.decode import decode_columns, iter_records

_ATTEMPTS = 50


class StoredBatch(NamedTuple):
    row: BatchRow
    data: bytes
    """All bytes of the batch."""

    def __str__(self) -> str:
        return f"batch [{self.row.base_offset}, {self.row.last_offset}] of epoch {self.row.leader_epoch}"

    @property
    def owner(self) -> tuple[int, ...]:
        """The header fields that compaction keeps."""
        row = self.row
        return row.last_offset, row.leader_epoch, row.producer_id, row.producer_epoch, row.base_sequence

    def records(self) -> list[Record]:
        """Decode the records, none for a control batch."""
        if self.row.attributes & CONTROL_FLAG:
            return []
        table = scan_batches(self.data)
        return [
            record for columns in decode_columns(self.data, table, ColumnDecoder()) for record in iter_records(columns)
        ]


def batches_of_file(path: Path) -> Iterator[StoredBatch]:
    """Yield the valid batches of a segment file. A live broker may be writing the bytes behind them."""
    data = path.read_bytes()
    for row in scan_batches(data).rows():
        if not (row.crc_ok and row.header_ok):
            raise AssertionError(f"{path}, position {row.position}: the batch at offset {row.base_offset} is invalid")
        yield StoredBatch(row, data[row.position : row.position + row.size])


def batches_of_partition(directory: Path) -> list[StoredBatch]:
    """Return the batches of all segments in the sequence of their offsets, read while no segment was replaced."""
    for _ in range(_ATTEMPTS):
        names = sorted(directory.glob("*.log"))
        try:
            batches = [batch for path in names for batch in batches_of_file(path)]
        except FileNotFoundError:
            continue
        if names == sorted(directory.glob("*.log")):
            return batches
    raise AssertionError(f"the segments of {directory} do not come to rest")
