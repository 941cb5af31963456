"""A compacted partition for tests of cleaning one log: append batches, clean the log, read the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from log_maker import CONTROL, TRANSACTIONAL, batch
from storage.log.log_harness import LogHarness
from tidelog.kernel import BatchTable, ColumnDecoder, OffsetMap, scan_batches
from tidelog.model import Record, TimestampType
from tidelog.record.build import build_batch
from tidelog.record.decode import decode_columns
from tidelog.record.rows import iter_records
from tidelog.storage.cleaner.clean.clean_log import CHUNK_BYTES, clean_log
from tidelog.storage.cleaner.clean.clean_request import CleanerStats, CleanRequest, CleanResult
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.group_rewrite import GroupRewrite
from tidelog.storage.cleaner.clean.parallel_map import ParallelMap
from tidelog.storage.cleaner.clean.segment_chunks import BatchTableCache
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.producer import AppendOrigin
from tidelog.storage.segment.segment import LogSegment

SLOT_BYTES = 24
"""The slot size of an OffsetMap."""
DELETE_RETENTION_MS = 86_400_000
"""The default of ``delete.retention.ms``."""
NEVER = 2**62
Pair = tuple[int, int | None]


class CleanHome(LogHarness):
    """A partition with small segments, an index entry for each batch and one replica. Keys and values are digits."""

    def open(self, **options: Any) -> PartitionLog:
        defaults: dict[str, Any] = {
            "segment_bytes": 1024,
            "index_interval_bytes": 0,
            "is_sole_replica": True,
            "cleanup_policy": frozenset({"compact"}),
        }
        self._sequences: defaultdict[int, int] = defaultdict(int)
        return super().open(**(defaults | options))

    # --- appending ---

    def put(self, log: PartitionLog, *pairs: Pair, **fields: Any) -> int:
        """Append a batch for each pair and return the last offset. ``build_batch`` defines ``fields``."""
        for pair in pairs:
            self.put_together(log, [pair], **fields)
        return log.end_offset - 1

    def put_together(self, log: PartitionLog, pairs: Iterable[Pair], **fields: Any) -> AppendResult:
        """Append all pairs as one batch."""
        content = keyed_batch(pairs, timestamp=self.clock.now, **fields)
        return log.append_as_leader(bytearray(content), leader_epoch=0)

    def fill(self, log: PartitionLog, segments: int) -> None:
        """Append records with their offset as key and value until the log has ``segments`` segments."""
        while len(log.base_offsets) < segments:
            self.put(log, (log.end_offset, log.end_offset))

    def write(self, log: PartitionLog, producer_id: int, keys: Sequence[int], **fields: Any) -> AppendResult:
        """Append a producer's batch with its next sequences by default. Each value equals its key."""
        sequence = fields.pop("base_sequence", self._sequences[producer_id])
        self._sequences[producer_id] = sequence + len(keys)
        options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence} | fields
        return self.put_together(log, ((key, key) for key in keys), **options)

    def transact(self, log: PartitionLog, producer_id: int, keys: Sequence[int], **fields: Any) -> AppendResult:
        """Append a producer's batch that belongs to a transaction."""
        return self.write(log, producer_id, keys, transactional=True, **fields)

    def commit(self, log: PartitionLog, producer_id: int) -> None:
        self._end(log, producer_id, committed=True)

    def abort(self, log: PartitionLog, producer_id: int) -> None:
        self._end(log, producer_id, committed=False)

    def _end(self, log: PartitionLog, producer_id: int, *, committed: bool) -> None:
        content = batch(
            0,
            [bytes(6)],
            key=b"\0\0\0" + bytes([committed]),
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=producer_id,
            sequence=-1,
            timestamp=self.clock.now,
        )
        log.append_as_leader(bytearray(content), leader_epoch=0, origin=AppendOrigin.COORDINATOR)

    # --- cleaning ---

    def clean(
        self,
        log: PartitionLog,
        first_dirty: int = 0,
        first_uncleanable: int | None = None,
        *,
        offset_map: OffsetMap | None = None,
        **options: Any,
    ) -> CleanResult:
        """Clean up to the active segment by default, with room for many keys."""
        return clean_log(
            log,
            first_dirty=first_dirty,
            first_uncleanable=log.base_offsets[-1] if first_uncleanable is None else first_uncleanable,
            offset_map=some_map() if offset_map is None else offset_map,
            clock=self.clock,
            **options,
        )

    def clean_twice(self, log: PartitionLog, first_dirty: int = 0) -> int:
        """Clean, let the delete horizons pass, clean again, and return the next dirty offset."""
        self.clean(log, first_dirty)
        self.clock.now += DELETE_RETENTION_MS + 1
        return self.clean(log, first_dirty).next_dirty_offset

    def rewrite(
        self, log: PartitionLog, segments: Sequence[LogSegment], obsolete: Iterable[int], **options: Any
    ) -> CleanerStats:
        """Rewrite one group without the records of the ``obsolete`` keys."""
        stats = CleanerStats(start_ms=0)
        offset_map = some_map()
        for key in obsolete:
            offset_map.put(b"%d" % key, NEVER)
        request = CleanRequest(
            log=log,
            first_dirty=0,
            first_uncleanable=segments[-1].read_next_offset(),
            offset_map=offset_map,
            now_ms=self.clock.now,
            chunk_bytes=options.get("chunk_bytes", CHUNK_BYTES),
            check_done=options.get("check_done", lambda: None),
            throttle=lambda _bytes: None,
        )
        with ParallelMap() as threads:
            GroupRewrite(
                request=request,
                transactions=CleanedTransactions(),
                legacy_delete_horizon_ms=-1,
                truncation_count=log.truncation_count,
                stats=stats,
                threads=threads,
                table_cache=BatchTableCache(),
            ).rewrite([segments], at_once=False)
        return stats


def some_map(slots: int = 10_000) -> OffsetMap:
    """Make an offset map that is full when three quarters of its slots are taken."""
    return OffsetMap(SLOT_BYTES * slots, key=bytes(16), load_factor=0.75)


def keyed_batch(pairs: Iterable[Pair], *, timestamp: int, **fields: Any) -> bytes:
    records = [
        Record(number, timestamp, TimestampType.CREATE, digits(key), digits(value))
        for number, (key, value) in enumerate(pairs)
    ]
    return bytes(build_batch(records, **fields))


def digits(number: int | None) -> bytes | None:
    return None if number is None else b"%d" % number


# --- a log's contents ---


def batches(log: PartitionLog) -> BatchTable:
    """Return the batches of all segments. Positions are relative to the segment."""
    tables = [chunk.table for segment in log.segments for chunk in segment.chunks(0, verify_crc=True)]
    return BatchTable.concat([scan_batches(b""), *tables])


def last_offsets(log: PartitionLog) -> list[int]:
    """Return the last offset of each batch."""
    found: list[int] = batches(log).last_offset.tolist()
    return found


def last_sequences(log: PartitionLog) -> dict[int, int]:
    """Return the last sequence of each producer's last data batch."""
    return {
        row.producer_id: row.base_sequence + row.last_offset - row.base_offset
        for row in batches(log).rows()
        if row.producer_id >= 0 and not row.attributes & CONTROL
    }


def records(log: PartitionLog, *, data: bool = True) -> list[Record]:
    """Return all records, or only data records."""
    found = []
    for segment in log.segments:
        for chunk in segment.chunks(0, verify_crc=True):
            keep = ~chunk.table.is_control if data else None
            decoded = decode_columns(
                chunk.buffer, chunk.table, ColumnDecoder(), base_position=chunk.base_position, keep=keep
            )
            found += [record for columns in decoded for record in iter_records(columns)]
    return found


def offsets(log: PartitionLog) -> list[int]:
    """Return the offsets of records with key and value, including markers."""
    return [record.offset for record in records(log, data=False) if record.key is not None and record.value is not None]


def keys(log: PartitionLog) -> list[int]:
    """Return the keys of data records with key and value."""
    return [int(record.key) for record in records(log) if record.key is not None and record.value is not None]
