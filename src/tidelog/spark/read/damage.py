"""Rows about damage, for ``onCorrupt`` = ``report``: what was left out of a read, and where it lies.

Such a row has the topic, the partition, the offset from which on something may be missing, and the sentence in
``corrupt``; every other column is null. A stretch of damage may cross the cuts between pieces: it is told once, by the
piece that holds its first offset (or by the first piece of a read that begins within it).
Called by: the tables of records and batches, in Spark's workers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidelog.spark.read.split import Piece
from tidelog.storage.log.view.row_stream import SkippedRange


class DamageReport:
    """Takes what a read skips, hands it on as rows; one that does not speak takes it and says nothing."""

    def __init__(self, piece: Piece, schema: pa.Schema, *, speaks: bool) -> None:
        self._piece = piece
        self._schema = schema
        self._speaks = speaks
        self._pending: list[SkippedRange] = []

    def add(self, skipped: SkippedRange) -> None:
        piece = self._piece
        begins_here = piece.start <= skipped.offset < piece.end
        if self._speaks and (begins_here or (piece.leads and skipped.offset < piece.start)):
            self._pending.append(skipped)

    def add_tail(self) -> None:
        """The bytes behind the log's end, where this piece reaches it."""
        tail = self._piece.state.invalid_tail
        if self._speaks and tail is not None:
            self._pending.append(
                SkippedRange(
                    path=tail.path,
                    position=tail.position,
                    size_bytes=tail.length,
                    offset=self._piece.end,
                    reason=f"{tail.reason}, behind the log's end",
                )
            )

    def drain(self) -> Iterator[pa.RecordBatch]:
        """What was added since, as at most one batch."""
        rows = [self._row(skipped) for skipped in self._pending]
        self._pending.clear()
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=self._schema)

    def _row(self, skipped: SkippedRange) -> dict[str, object]:
        piece = self._piece
        offset = max(skipped.offset, piece.start)
        where = f"file {skipped.path}, position {skipped.position}, {skipped.size_bytes} bytes, from offset {offset}"
        row: dict[str, object] = {
            "topic": piece.partition.topic,
            "partition": piece.partition.partition,
            "offset": offset,
            "corrupt": f"{skipped.reason} ({where})",
        }
        return {name: row.get(name) for name in self._schema.names}
