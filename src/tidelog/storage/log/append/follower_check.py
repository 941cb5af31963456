"""The check of batches that a leader sent, before a follower appends them unchanged. Pure.

====================================================  ===============================================
the batches                                           result
====================================================  ===============================================
a partial last batch                                  left out
a wrong CRC or size                                   CorruptRecordError
a leader epoch above the fetch's                      this batch and later ones are left out: their
                                                      leader is not known yet
offsets that do not ascend                            OffsetsOutOfOrderError, with the first ten
a first offset below the log end                      UnexpectedAppendOffsetError, with the first ten
====================================================  ===============================================

Source: Kafka's ``UnifiedLog.analyzeAndValidateRecords`` and ``append``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidelog.kernel import BatchTable, ColumnDecoder, Stop, scan_batches
from tidelog.model import CorruptRecordError, OffsetsOutOfOrderError, UnexpectedAppendOffsetError
from tidelog.record.decode import decode_columns
from tidelog.record.legacy import read_messages

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SHOWN = 10


class FetchedBatches(NamedTuple):
    """A leader's batches that a follower may append."""

    data: memoryview
    """All bytes that were fetched."""
    table: BatchTable
    """The batches, with their positions in ``data``; their CRCs are right."""
    damage: CorruptRecordError | OffsetsOutOfOrderError | None
    """The reason why nothing after these batches can be appended; None if there is none."""

    @classmethod
    def of(cls, buffer: Buffer, leader_epoch: int) -> FetchedBatches:
        """Check the bytes in one pass. Batches before the first invalid one are valid."""
        data = memoryview(buffer).cast("B")
        table = scan_batches(data)
        damage: CorruptRecordError | OffsetsOutOfOrderError | None = None
        if table.stop not in (Stop.END, Stop.PARTIAL):
            damage = CorruptRecordError("a batch that the leader sent is malformed", position=table.end_position)
        if not table.summary.crcs_ok:
            number = int(np.argmin(table.crc_ok))
            row, table = table.row(number), table.take(slice(0, number))
            damage = CorruptRecordError(
                "the CRC of a batch that the leader sent does not match", offset=row.base_offset
            )
        if table.summary.leader_epoch > leader_epoch:
            above = np.flatnonzero(table.leader_epoch > leader_epoch)
            damage, table = None, table.take(slice(0, int(above[0])))
        if len(table) > 1 and len(disordered := np.flatnonzero(table.last_offset[1:] <= table.last_offset[:-1])):
            damage = OffsetsOutOfOrderError(
                f"the leader sent records out of order; first offsets: {_first_offsets(data, table)}",
                offset=int(table.base_offset[0]),
            )
            table = table.take(slice(0, int(disordered[0]) + 1))
        return cls(data, table, damage)

    def take(self, rows: slice) -> FetchedBatches:
        """Return some of the batches."""
        return FetchedBatches(self.data, self.table.take(rows), None)


def require_at_or_above(data: memoryview, table: BatchTable, log_end: int, log_start: int) -> None:
    """Raise UnexpectedAppendOffsetError, with the first offset, if the batches begin below the log end.

    For a compressed v0 or v1 set only the last offset counts, because its header lacks the first one.
    """
    first = int(table.base_offset[0])
    if first < log_end:
        offsets = _first_offsets(data, table)
        first = first if table.magic[0] >= 2 or not offsets else min(first, offsets[0])
        raise UnexpectedAppendOffsetError(
            f"the leader sent offset {int(table.base_offset[0])}, but expected was {log_end} or above; first offsets:"
            f" {offsets}, last offset: {table.summary.last_offset}, log start: {log_start}",
            offset=first,
            last_offset=int(table.summary.last_offset),
        )


def _first_offsets(data: memoryview, table: BatchTable) -> list[int]:
    """Return the offsets of the first ten records, up to the first unreadable one."""
    offsets: list[int] = []
    for row in range(len(table)):
        if len(offsets) >= _SHOWN:
            break
        try:
            if table.magic[row] < 2:
                start = int(table.position[row])
                offsets += [message.offset for message in read_messages(data[start : start + int(table.size[row])])]
            else:
                decoder = ColumnDecoder(keys=False, values=False, headers=False)
                for columns in decode_columns(data, table.take(slice(row, row + 1)), decoder):
                    offsets += columns.offset.tolist()
        except CorruptRecordError:
            break
    return offsets[:_SHOWN]
