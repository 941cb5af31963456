"""A compacted partition for tests of cleaning one log: records appended, the log cleaned, what is left read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from log_maker import CONTROL, TRANSACTIONAL, batch
from storage.log.log_home import LogHome
from tidelog.kernel import BatchTable, OffsetMap
from tidelog.model import Isolation, Record
from tidelog.record.rows import iter_records
from tidelog.storage.cleaner.clean.clean_log import clean_log
from tidelog.storage.cleaner.clean.clean_request import CleanResult
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.producer import AppendOrigin

MAP_BYTES = 64 * 1024


class Kept(NamedTuple):
    """A record that is left."""

    offset: int
    key: bytes | None
    value: bytes | None


class CleanHome(LogHome):
    """Small segments, an index entry a batch, no other replicas."""

    def open(self, **options: Any) -> PartitionLog:
        defaults = {
            "segment_bytes": 1000,
            "index_interval_bytes": 0,
            "is_sole_replica": True,
            "cleanup_policy": frozenset({"compact"}),
        }
        return super().open(**(defaults | options))

    def put(self, log: PartitionLog, *pairs: tuple[int | bytes, bytes | int | None], **fields: Any) -> range:
        """A batch of one record for each (key, value); numbers stand for their digits."""
        offsets = range(log.end_offset, log.end_offset)
        for key, value in pairs:
            content = batch(0, [_bytes(value)], key=_bytes(key), timestamp=self.clock.now, **fields)
            taken = log.append_as_leader(bytearray(content), leader_epoch=0).offsets
            offsets = range(offsets.start, taken.stop)
        return offsets

    def produce_keys(
        self, log: PartitionLog, keys: Sequence[int], *, producer_id: int, sequence: int, **fields: Any
    ) -> range:
        """A producer's batch a key, in or out of a transaction; the value says the offset's sequence."""
        start = log.end_offset
        for number, key in enumerate(keys):
            made = {"producer_id": producer_id, "sequence": sequence + number} | fields
            self.put(log, (key, sequence + number), **made)
        return range(start, log.end_offset)

    def transact(
        self, log: PartitionLog, keys: Sequence[int], *, producer_id: int, sequence: int, **fields: Any
    ) -> range:
        return self.produce_keys(
            log, keys, producer_id=producer_id, sequence=sequence, attributes=TRANSACTIONAL, **fields
        )

    def end(self, log: PartitionLog, producer_id: int, *, committed: bool, producer_epoch: int = 0) -> int:
        """The marker's offset."""
        content = batch(
            0,
            [bytes(6)],
            key=b"\0\0\0" + bytes([committed]),
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            sequence=-1,
            timestamp=self.clock.now,
        )
        result = log.append_as_leader(bytearray(content), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
        return result.offsets.start

    def clean(
        self,
        log: PartitionLog,
        first_dirty: int = 0,
        first_uncleanable: int | None = None,
        *,
        map_bytes: int = MAP_BYTES,
        **options: Any,
    ) -> CleanResult:
        """Up to the active segment unless told."""
        end = log.segments[-1].base_offset if first_uncleanable is None else first_uncleanable
        offset_map = OffsetMap(map_bytes, key=bytes(16))
        return clean_log(
            log, first_dirty=first_dirty, first_uncleanable=end, offset_map=offset_map, clock=self.clock, **options
        )

    def records(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[Record]:
        """Of the data in the files."""
        view = LogView(LOCAL, self.directory)
        chunks = view.columns(view.range(isolation=isolation))
        return [record for chunk in chunks for record in iter_records(chunk.columns)]

    def kept(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[Kept]:
        return [Kept(record.offset, record.key, record.value) for record in self.records(isolation)]

    def keys(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[int]:
        return [int(record.key or b"-1") for record in self.records(isolation)]


def batches(log: PartitionLog) -> BatchTable:
    """Of all segments; positions are those in each."""
    return BatchTable.concat([chunk.table for segment in log.segments for chunk in segment.chunks(0, verify_crc=True)])


def _bytes(what: bytes | int | None) -> bytes | None:
    return b"%d" % what if isinstance(what, int) else what
