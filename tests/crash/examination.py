"""The check of a disk found after a crash: it must load, keep every promise, and contain nothing made up.

The log is loaded as a broker does after a kill (or, if it was closed, after a clean shutdown). Then everything in it is
read: batches by offset and by time, producers, transactions, leader epochs. A second load changes no file, and the log
accepts appends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from crash.story import Promise
from log_maker import CONTROL, TRANSACTIONAL, plain
from tidelog.kernel import BatchRow, ColumnDecoder, scan_batches
from tidelog.model import Isolation
from tidelog.record.attributes import DELETE_HORIZON_FLAG
from tidelog.record.decode import decode_columns
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.index import TimestampOffset
from tidelog.storage.log.partition_log import LogReadRequest, OpenRequest, PartitionLog
from tidelog.storage.segment.file_names import DirectoryPurpose
from tidelog.testing import ManualClock, SimulatedDisk

_MUCH = 1 << 20


class Batch(NamedTuple):
    row: BatchRow
    data: bytes

    @property
    def first(self) -> int:
        return self.row.base_offset

    @property
    def end(self) -> int:
        return self.row.last_offset + 1

    def records(self) -> Iterator[TimestampOffset]:
        """Yield the batch's records. They are a millisecond apart until a cleaner has changed the batch."""
        count = self.end - self.first
        if self.row.record_count == count and not self.row.attributes & DELETE_HORIZON_FLAG:
            for number in range(count):
                yield TimestampOffset(self.row.base_timestamp + number, self.first + number)
            return
        for columns in decode_columns(self.data, scan_batches(self.data), ColumnDecoder(keys=False, values=False)):
            yield from map(TimestampOffset, columns.timestamp.tolist(), columns.offset.tolist())


def examine(disk: SimulatedDisk, promise: Promise) -> None:
    """Check a disk against the promise. Raise AssertionError, or an error of loading."""
    directory = next((one for one in promise.directories if disk.exists(one)), None)
    if directory is None:
        assert not promise.batches, "the directory is gone"
        directory = promise.directories[-1]
    log = load(disk, directory, promise)
    if promise.is_gone or directory.name.endswith(DirectoryPurpose.DELETE.value):
        log.close_handlers()
        return
    found = batches_of(log)
    check_batches(found, promise)
    if promise.is_gapless:
        check_no_gap(log, found)
    check_look_ups(log, found, promise)
    check_state(log, found, promise)
    ends = (log.log_start_offset, log.end_offset, log.base_offsets)
    log.close_handlers()
    before = disk.files()
    again = load(disk, directory, promise)
    assert (again.log_start_offset, again.end_offset, again.base_offsets) == ends
    again.close_handlers()
    differing = changed(before, disk.files())  # the files that the second load changed
    if promise.is_removing:  # the first load may know producers, transactions and epochs of removed records
        of_state = (".snapshot", ".txnindex", LEADER_EPOCH_CHECKPOINT)
        differing = [name for name in differing if not name.endswith(of_state)]
    assert differing == []
    check_appending(load(disk, directory, promise), promise)


def load(disk: SimulatedDisk, directory: Path, promise: Promise) -> PartitionLog:
    return PartitionLog.open(
        OpenRequest(
            fs=disk,
            directory=directory,
            clock=ManualClock(promise.now_ms),
            config=promise.config,
            clean_shutdown=promise.clean,
            recovery_point=promise.recovery_point,
            log_start_offset=promise.log_start,
        )
    )


def batches_of(log: PartitionLog) -> list[Batch]:
    """Return all batches that the log serves from its start on."""
    found, offset = [], log.log_start_offset
    while offset < log.end_offset:
        data = log.read(LogReadRequest(start_offset=offset, max_bytes=_MUCH)).data()
        table = scan_batches(data)
        if not len(table):
            break
        for number in range(len(table)):
            row = table.row(number)
            assert row.crc_ok, f"a bad CRC at {row.base_offset}"
            found.append(Batch(row, data[row.position : row.position + row.size]))
        offset = found[-1].end
    return found


def check_batches(found: list[Batch], promise: Promise) -> None:
    for before, after in pairwise(found):
        assert before.end <= after.first, "offsets are not in order"
    for batch in found:
        assert batch.data in promise.written.get(batch.first, ()), f"nobody wrote what is at {batch.first}"
    there = {batch.first: batch.data for batch in found}
    for kept in promise.batches:
        assert kept.first in there, f"the batch at {kept.first} is lost"
        assert there[kept.first] == kept.data or there[kept.first] in kept.forms


def check_no_gap(log: PartitionLog, found: list[Batch]) -> None:
    ends = [0, *(batch.end for batch in found)]
    assert log.log_start_offset == 0, "the log's first records are lost, and later ones are there"
    assert [*(batch.first for batch in found), log.end_offset] == ends, "records between others are lost"


def check_look_ups(log: PartitionLog, found: list[Batch], promise: Promise) -> None:
    """Check that the indexes find every batch and timestamp."""
    for batch in found:
        if batch.end - 1 >= log.log_start_offset:
            data = log.read(LogReadRequest(start_offset=batch.end - 1, max_bytes=len(batch.data))).data()
            assert data == batch.data, f"offset {batch.end - 1} is not found"
    start, end = max(log.log_start_offset, promise.keep_from), promise.keep_below
    times = [
        (record.timestamp, record.offset)
        for batch in found
        for record in batch.records()
        if start <= record.offset < end
    ]
    for wanted in {time for time, _ in times}:
        answer = log.offset_for_timestamp(wanted)
        first = next(entry for entry in times if entry[0] >= wanted)
        assert answer is not None, f"no record is found at the time {wanted}"
        assert (answer.timestamp, answer.offset) == first


def check_state(log: PartitionLog, found: list[Batch], promise: Promise) -> None:
    """Check that the batches determine producers, transactions and leader epochs."""
    epochs = log.epochs.entries
    has_gap = any(before.end != after.first for before, after in pairwise(found))
    last: dict[int, Batch] = {}
    opened: dict[int, int] = {}
    aborted = set()
    for batch in found:
        row = batch.row
        entry = bisect_right([one.start_offset for one in epochs], batch.first) - 1
        if promise.keep_from <= batch.first < promise.keep_below:
            assert entry >= 0, f"no leader epoch is known at {batch.first}"
            assert epochs[entry].epoch == row.leader_epoch
        if row.attributes & CONTROL:
            first = opened.pop(row.producer_id, None)
            if first is not None and batch.data in promise.aborting:
                aborted.add((row.producer_id, first, batch.first))
        elif row.producer_id >= 0:
            last[row.producer_id] = batch
            if row.attributes & TRANSACTIONAL:
                opened.setdefault(row.producer_id, batch.first)
    for producer, batch in last.items():
        assert producer in log.producers, f"producer {producer} is forgotten"
        last_sequence = batch.row.base_sequence + batch.end - batch.first - 1
        assert log.producers[producer].last_sequence == last_sequence or (
            has_gap and log.producers[producer].last_sequence > last_sequence  # from a snapshot after the gap
        )
    if log.log_start_offset == 0 and not has_gap:  # else transactions may have begun elsewhere
        stable = min(opened.values(), default=log.high_watermark)
        assert log.offsets().last_stable.message_offset == stable
    assert aborted <= told_aborted(log, found)


def told_aborted(log: PartitionLog, found: list[Batch]) -> set[tuple[int, int, int]]:
    """Return (producer id, first offset, last offset) of the aborted transactions that read_committed reads return."""
    told = set()
    for batch in found:
        limits = LogReadRequest(
            start_offset=max(batch.first, log.log_start_offset),
            max_bytes=len(batch.data),
            isolation=Isolation.READ_COMMITTED,
        )
        for one in log.read(limits).aborted or ():
            told.add((one.producer_id, one.first_offset, one.last_offset))
    return told


def check_appending(log: PartitionLog, promise: Promise) -> None:
    """Check that the log accepts an append, and keeps it after a flush."""
    end = log.end_offset
    content = bytearray(plain(end, 1, timestamp=promise.now_ms))
    assert log.append(content) == range(end, end + 1)
    assert log.flush() == end + 1
    assert log.read(LogReadRequest(start_offset=end, max_bytes=_MUCH)).data() == bytes(content)
    log.close_handlers()


def changed(before: dict[Path, bytes], after: dict[Path, bytes]) -> list[str]:
    return sorted(path.name for path in before.keys() | after.keys() if before.get(path) != after.get(path))
