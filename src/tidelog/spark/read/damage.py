"""The rows about damage, for ``onCorrupt`` = ``report``: skipped bytes and their place.

A row has the topic, the partition, the first offset that may be missing, and a sentence in ``corrupt``. Every other
column is null. A damaged stretch may cross the boundaries between pieces, but is reported once. The piece that holds
its first offset reports it, or the first piece of a read that begins within it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidelog.spark.read.split import Piece
from tidelog.storage.log.view.row_stream import SkippedRange


class DamageReport:
    """The collector of damage that a read skips. It yields the damage as rows, or drops it without ``is_enabled``."""

    def __init__(self, piece: Piece, schema: pa.Schema, *, is_enabled: bool) -> None:
        self._piece = piece
        self._schema = schema
        self._is_enabled = is_enabled
        self._pending: list[SkippedRange] = []

    def add(self, skipped: SkippedRange) -> None:
        piece = self._piece
        begins_here = piece.start <= skipped.offset < piece.end
        if self._is_enabled and (begins_here or (piece.leads and skipped.offset < piece.start)):
            self._pending.append(skipped)

    def add_tail(self) -> None:
        """Add the bytes after the log end, if this piece reaches it."""
        tail = self._piece.state.invalid_tail
        if self._is_enabled and tail is not None:
            self._pending.append(
                SkippedRange(
                    path=tail.path,
                    position=tail.position,
                    size_bytes=tail.length,
                    offset=self._piece.end,
                    reason=f"{tail.reason}, after the log end",
                )
            )

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield the damage added since the last call, as at most one batch."""
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
