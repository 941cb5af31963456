"""One partition as its only writer has it. THE lock owner: its collaborators never lock.

Owns the segments, leader epochs and producer state of one partition directory. State: *open* -> *failed* (a write did
not go through: appends are refused from then on, reading goes on) -> *closed*. A log without replicas: the high
watermark is the log end after every append.

Appending: batches are checked and laid out before the lock; under it one compiled pass gives them offsets, and each
segment they go to gets one write. Reading takes no lock: it works on immutable snapshots of segments and offsets.
``append`` returns when the bytes are in the page cache; ``flush`` when they are on the disk (fsync order: the log, then
its indexes, oldest segment first; the recovery point moves after that).

What a crash leaves: what the loader says it can deal with. Every call on a closed log is refused (ClosedError), every
writing call in a forked child (ForkError).
Called by: the log directory (``storage/manager``), the API. Thread rule: any thread. Source: Kafka's ``UnifiedLog``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

import numpy as np

from tidelog.kernel import BatchTable, ColumnDecoder, scan_batches, validate_batches
from tidelog.model import (
    ClosedError,
    CorruptRecordError,
    Isolation,
    LogOffsetMetadata,
    LogOffsetSnapshot,
    RecordBatchTooLargeError,
    StorageError,
    TidelogError,
)
from tidelog.record.attributes import CODEC_MASK, CONTROL_FLAG
from tidelog.record.decode import decode_columns
from tidelog.runtime import Clock
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from tidelog.storage.fs import FileSystem, ForkGuard
from tidelog.storage.index import TimestampOffset
from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.loader import LoadedLog, LoadRequest, load_log
from tidelog.storage.log.log_read import LogRead, ReadLimits, read_segments, resolve_offset
from tidelog.storage.log.produce_check import check_compressed, produce_rules, raise_for
from tidelog.storage.log.roll import RollState, batches_that_fit
from tidelog.storage.log.segments import LogSegments
from tidelog.storage.segment.segment import LogSegment

_FIRST_EPOCH = 0
_HEADER = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer id and
epoch, base sequence, record count."""
_PREFIX_BYTES = 12
_MAGIC = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """Where the log lies and what the checkpoints say of it."""

    fs: FileSystem
    directory: Path
    clock: Clock
    config: LogConfig
    clean_shutdown: bool
    recovery_point: int = 0
    log_start_offset: int = 0


class PartitionLog:
    """Made by ``open``, which makes the directory too where it is missing."""

    def __init__(self, request: OpenRequest, loaded: LoadedLog) -> None:
        self._fs = request.fs
        self._directory = request.directory
        self._clock = request.clock
        self._config = request.config
        self._guard = ForkGuard(request.directory)
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._closed = False
        self._failure: TidelogError | None = None
        self._rules = produce_rules(request.config)
        self._loaded = loaded
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        now_ms = request.clock.now_ms()
        limits = request.config.segment_limits
        self._segments = LogSegments(
            tuple(LogSegment(self._fs, self._directory, base, limits, now_ms=now_ms) for base in loaded.base_offsets)
        )
        self._segments.last.grow_indexes()
        self._log_start = loaded.log_start_offset
        self._recovery_point = loaded.recovery_point
        self._dirty = {segment.base_offset for segment in loaded.recovered}
        active = self._segments.last
        self._end = LogOffsetMetadata(loaded.end_offset, active.base_offset, active.size)
        self._unstable_offset = self._producers.state.transactions.first_undecided_offset()
        latest_epoch = self._epochs.latest_epoch
        self._epoch_assigned = latest_epoch is not None
        self._leader_epoch = _FIRST_EPOCH if latest_epoch is None else latest_epoch

    @classmethod
    def open(cls, request: OpenRequest) -> PartitionLog:
        """Load the directory; whoever calls holds the lock of the log directory around it."""
        if not request.fs.exists(request.directory):
            request.fs.make_dir(request.directory)
            request.fs.sync_dir(request.directory.parent)
        loaded = load_log(
            LoadRequest(
                fs=request.fs,
                directory=request.directory,
                config=request.config,
                now_ms=request.clock.now_ms(),
                clean_shutdown=request.clean_shutdown,
                recovery_point=request.recovery_point,
                log_start_offset=request.log_start_offset,
            )
        )
        return cls(request, loaded)

    # --- what it is ---

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def config(self) -> LogConfig:
        return self._config

    @property
    def loaded(self) -> LoadedLog:
        """What loading found and made."""
        return self._loaded

    @property
    def recovery_point(self) -> int:
        """Everything below is on the disk."""
        return self._recovery_point

    @property
    def log_start_offset(self) -> int:
        return self._log_start

    @property
    def end_offset(self) -> int:
        """Of the next record; asked of a closed log too."""
        return self._end.message_offset

    @property
    def is_owner(self) -> bool:
        """False in a forked child of the process that opened the log."""
        return self._guard.is_owner

    @property
    def is_sound(self) -> bool:
        """No write failed."""
        return self._failure is None

    @property
    def starts_inside_segment(self) -> bool:
        return self._log_start > self._segments.first.base_offset

    @property
    def base_offsets(self) -> list[int]:
        """Of the segments, ascending."""
        return self._segments.base_offsets

    def offsets(self) -> LogOffsetSnapshot:
        """Log start, last stable offset, high watermark and log end, at one moment."""
        self._require_open()
        end, unstable = self._end, self._unstable_offset
        if unstable is None or unstable >= end.message_offset:
            stable = end
        else:
            stable = resolve_offset(self._segments, max(unstable, self._log_start), end)
        return LogOffsetSnapshot(log_start=self._log_start, last_stable=stable, high_watermark=end, log_end=end)

    # --- appending ---

    def append(self, buffer: bytearray, *, built_here: bool = False) -> range:
        """Append whole v2 batches; their offsets. ``buffer`` is changed: it gets offsets, leader epoch, timestamps.

        ``built_here``: the batches come from ``record.build``, so what is compressed need not be opened to be checked.

        CorruptRecordError, InvalidRecordError, RecordTooLargeError (a batch above ``max.message.bytes``) and
        RecordBatchTooLargeError (one above ``segment.bytes``) with nothing appended; StorageError fails the log.
        """
        self._guard.check()
        now_ms = self._clock.now_ms()
        largest, alone = self._check(buffer, now_ms, built_here)
        if largest > self._config.segment_bytes:
            raise RecordBatchTooLargeError(
                f"a batch of {largest} bytes is larger than a segment of {self._config.segment_bytes}"
            )
        with self._lock:
            self._require_writable()
            first = self._end.message_offset
            validation = validate_batches(buffer, self._rules, first, self._leader_epoch, now_ms)
            if not validation:
                raise_for(validation)
            if not (alone and self._write_alone(buffer, validation.last_offset, validation.max_timestamp, now_ms)):
                self._write(buffer, now_ms)
            end = self._end.message_offset
        if end - self._recovery_point >= self._config.flush_messages:
            self.flush()
        return range(first, end)

    def roll(self) -> None:
        """Begin a new segment at the log end, unless the active one is empty."""
        self._guard.check()
        with self._lock:
            self._require_writable()
            if self._segments.last.size:
                self._roll(self._end.message_offset)

    # --- reading ---

    def read(self, limits: ReadLimits) -> LogRead:
        """Batches from an offset on; see ``log_read``. Takes no lock."""
        self._require_open()
        return read_segments(self._segments, self.offsets(), limits, self._directory)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record at or after a timestamp, below the high watermark; None where there is none."""
        self._require_open()
        for segment in self._segments:
            if segment.size and segment.max_timestamp.timestamp >= timestamp_ms:
                found = self._first_in_segment(segment, timestamp_ms)
                if found is not None:
                    return found
        return None

    # --- flushing and ending ---

    def flush(self) -> int:
        """Return when everything appended before the call is on disk; the new recovery point."""
        self._guard.check()
        self._require_open()
        with self._flush_lock:
            with self._lock:
                end = self._end.message_offset
                active = self._segments.last.base_offset
                dirty = set(self._dirty)
                segments = [segment for segment in self._segments if segment.base_offset in dirty]
            try:
                for segment in segments:
                    segment.flush()
                self._producers.snapshots.sync()
                self._fs.sync_dir(self._directory)
            except StorageError as error:
                self._failure = error
                raise
            with self._lock:
                self._recovery_point = max(self._recovery_point, end)
                if self._end.message_offset != end:
                    dirty.discard(active)  # it was written to since
                self._dirty -= dirty
            return self._recovery_point

    def close(self) -> None:
        """An orderly end: last producer snapshot, last time entry, indexes trimmed, all on disk. Idempotent.

        A failed log, and one inherited by a forked child, only lets go of its files.
        """
        if self._closed:
            return
        if not self._guard.is_owner or self._failure is not None:
            self._closed = True
            for segment in self._segments:
                segment.close_handlers()
            return
        with self._lock:
            self._producers.take_snapshot()
            active = self._segments.last
            active.on_become_inactive()
            self._dirty.add(active.base_offset)
        self.flush()
        self._closed = True
        for segment in self._segments:
            segment.close()

    # --- inside: appending, under the lock but for _check ---

    def _check(self, buffer: bytearray, now_ms: int, built_here: bool) -> tuple[int, bool]:
        """Size of the largest batch, and whether it is one plain batch: no producer, nothing to open."""
        if len(buffer) >= _HEADER.size:
            _, length, _, magic, _, attributes, _, _, _, producer_id, _, _, _ = _HEADER.unpack_from(buffer)
            plain = magic == _MAGIC and producer_id < 0 and (built_here or not attributes & (CODEC_MASK | CONTROL_FLAG))
            if plain and length == len(buffer) - _PREFIX_BYTES:
                return len(buffer), True
        table = scan_batches(buffer, verify_crc=False)
        if table.end_position != len(buffer):
            raise CorruptRecordError("the last batch is cut or malformed", position=table.end_position)
        if not built_here:
            check_compressed(buffer, table, self._rules, now_ms)
        return (int(table.size.max()) if len(table) else 0), False

    def _write_alone(self, buffer: bytearray, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """The short way for one plain batch; False, with nothing done, where the segment does not take it."""
        active = self._segments.last
        if not self._epoch_assigned or not active.takes(len(buffer), last_offset, max_timestamp, now_ms):
            return False
        try:
            active.append_one(buffer, len(buffer), last_offset, max_timestamp)
        except StorageError as error:
            self._failure = error
            raise
        self._dirty.add(active.base_offset)
        self._end = LogOffsetMetadata(last_offset + 1, active.base_offset, active.size)
        self._producers.state.map_end_offset = last_offset + 1
        return True

    def _write(self, buffer: bytearray, now_ms: int) -> None:
        """Write the batches, segment by segment. What is written before a failure stays in the log."""
        table = scan_batches(buffer, verify_crc=False)
        if not len(table):
            return
        data = memoryview(buffer)
        try:
            self._assign_epoch(int(table.base_offset[0]))
            row = 0
            while row < len(table):
                active = self._segments.last
                count = batches_that_fit(_roll_state(active, self._config, now_ms), table, row)
                if count == 0:
                    active = self._roll(int(table.base_offset[row]))
                    count = batches_that_fit(_roll_state(active, self._config, now_ms), table, row)
                self._write_to(active, data, table.take(slice(row, row + count)))
                row += count
        except TidelogError as error:
            self._failure = error
            raise
        finally:
            self._producers.state.on_high_watermark_updated(self._end.message_offset)

    def _write_to(self, segment: LogSegment, data: memoryview, table: BatchTable) -> None:
        start = int(table.position[0])
        part = data[start : int(table.position[-1]) + int(table.size[-1])]
        self._dirty.add(segment.base_offset)
        segment.append(part, table)
        for transaction in self._producers.apply(part, table):
            segment.append_aborted(transaction)
        unstable = self._producers.state.transactions.first_undecided_offset()
        self._unstable_offset = unstable
        self._end = LogOffsetMetadata(int(table.last_offset[-1]) + 1, segment.base_offset, segment.size)

    def _roll(self, base_offset: int) -> LogSegment:
        """A new active segment; the snapshot at its base lets a recovery begin there."""
        segment = LogSegment.create(
            self._fs, self._directory, base_offset, self._config.segment_limits, now_ms=self._clock.now_ms()
        )
        self._dirty.add(self._segments.last.base_offset)
        self._segments.last.on_become_inactive()
        self._segments.add(segment)
        self._dirty.add(base_offset)
        self._producers.state.map_end_offset = base_offset
        self._producers.take_snapshot()
        self._end = LogOffsetMetadata(self._end.message_offset, base_offset, 0)
        return segment

    def _assign_epoch(self, start_offset: int) -> None:
        """Note the epoch of the first append to a log without epochs."""
        if not self._epoch_assigned:
            self._epochs.assign(self._leader_epoch, start_offset)
            LeaderEpochCheckpoint.write(self._fs, self._directory / LEADER_EPOCH_CHECKPOINT, self._epochs.entries)
            self._epoch_assigned = True

    # --- inside ---

    def _first_in_segment(self, segment: LogSegment, timestamp_ms: int) -> TimestampOffset | None:
        """The first record of a segment at or after both the timestamp and the log start."""
        start, end = self._log_start, self._end.message_offset
        for buffer, table, _ in segment.chunks(segment.position_of_timestamp(timestamp_ms, start), verify_crc=False):
            rows = (table.max_timestamp >= timestamp_ms) & (table.last_offset >= start) & (table.base_offset < end)
            for row in np.flatnonzero(rows).tolist():
                decoder = ColumnDecoder(keys=False, values=False, headers=False, start_offset=start, end_offset=end)
                one = table.take(slice(row, row + 1))
                for columns in decode_columns(buffer, one, decoder, base_position=int(table.position[0])):
                    at = np.flatnonzero(columns.timestamp >= timestamp_ms)
                    if len(at):
                        return TimestampOffset(int(columns.timestamp[at[0]]), int(columns.offset[at[0]]))
        return None

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("the log is closed", path=self._directory)

    def _require_writable(self) -> None:
        self._require_open()
        if self._failure is not None:
            raise StorageError(f"the log takes no writes since one failed: {self._failure}", path=self._directory)


def _roll_state(segment: LogSegment, config: LogConfig, now_ms: int) -> RollState:
    return RollState(
        base_offset=segment.base_offset,
        size=segment.size,
        segment_bytes=config.segment_bytes,
        roll_after_ms=config.segment_ms - segment.roll_jitter_ms,
        begin_timestamp_ms=segment.roll_timestamp,
        waited_ms=now_ms - segment.created_ms,
        index_room_bytes=segment.room_bytes(),
    )


__all__ = ["Isolation", "LogRead", "OpenRequest", "PartitionLog", "ReadLimits"]
