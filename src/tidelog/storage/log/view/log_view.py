"""The view of one partition for a reader that does not own it.

It works after a clean or unclean shutdown, and while a broker runs. A view never writes, creates, locks or changes a
file, and holds no file open between calls. Its knowledge is one frozen state (segments, log start, log end), loaded at
the first use and again by ``refresh``. A read continues with the state it began with, and takes a newer one only if a
file has disappeared or if the bytes of a held directory are inconsistent.

The end of a read:

===================  ==============================================================================================
``until``            the end
===================  ==============================================================================================
None                 ``high_watermark`` if a process holds the directory, else ``log_end``
``log_end``          after the last valid batch
``high_watermark``   the checkpointed high watermark, within [log start, log end]
``checkpoint``       the checkpointed recovery point (certainly flushed), within [log start, log end]
===================  ==============================================================================================

A ``read_committed`` read ends at the last stable offset below that end. Thread rule: any thread; a forked child may
continue to use a view.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tidelog.model import (
    DirectoryError,
    FileMissingError,
    Isolation,
    LogOffsetMetadata,
    LogOffsetSnapshot,
    OffsetOutOfRangeError,
    TopicPartition,
)
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.runtime.progress import Advance
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCache, LeaderEpochCheckpoint
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.column_stream import ALL_COLUMNS, ColumnChoice, ColumnChunk, column_chunks
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState, read_directory_state
from tidelog.storage.log.view.list_offsets import ListedOffset, ListRequest, list_offset
from tidelog.storage.log.view.record_count import RecordCount, count_records
from tidelog.storage.log.view.row_stream import CorruptPolicy, OnLost, ReadRange, RowStream, counted
from tidelog.storage.log.view.splits import Split, plan_splits
from tidelog.storage.log.view.time_lookup import TimestampOffset, first_at_or_after, latest_timestamp
from tidelog.storage.log.view.view_producers import Resume, ViewTransactions, read_transactions
from tidelog.storage.log.view.view_state import LoadParameters, ValidatedSegment, ViewState, load_view_state
from tidelog.storage.segment.file_names import PartitionDirectoryName
from tidelog.storage.segment.read_ahead import read_ahead

_T = TypeVar("_T")
_ATTEMPTS = 5


class Until(enum.StrEnum):
    """The possible ends of a read; see the module's table."""

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    CHECKPOINT = "checkpoint"


class LogView:
    def __init__(self, fs: FileSystem, directory: Path, *, directory_state: DirectoryState | None = None) -> None:
        """Create a view without reading. ``directory_state`` is the parent's, if the caller has read it already."""
        self.fs = ReadOnlyFileSystem(fs)
        self.directory = directory
        self.topic_partition = _topic_partition(directory)
        self._directory_state = directory_state
        self._state: ViewState | None = None
        self._validated: dict[int, ValidatedSegment] = {}
        self._transactions: dict[int, ViewTransactions] = {}
        self._resume: Resume | None = None

    @property
    def directory_state(self) -> DirectoryState:
        """The state of the log directory's small files."""
        if self._directory_state is None:
            self._directory_state = read_directory_state(self.fs, self.directory.parent)
        return self._directory_state

    @property
    def condition(self) -> DirectoryCondition:
        return self.state.condition

    @property
    def state(self) -> ViewState:
        """The partition's state. Raises DirectoryError if it is no partition, FileMissingError if it is missing."""
        if self._state is None:
            self._state = self._load()
        return self._state

    def accept_validated(self, base_offset: int, segment: ValidatedSegment) -> None:
        """Accept a segment that the caller has just read, so that the view need not walk it before it refreshes."""
        self._validated[base_offset] = segment

    def refresh(self) -> ViewState:
        """Read everything again. States that were returned earlier do not change."""
        self._validated = {}
        self._directory_state = read_directory_state(self.fs, self.directory.parent, self._directory_state)
        self._state = self._load()
        self._transactions = {}
        return self._state

    def renewed(self, directory_state: DirectoryState) -> LogView:
        """Return a view of the files as they are now. It need not read the transactions again that this view knows.

        A log start below the one before is that of another log: the topic was deleted and made again.
        """
        view = LogView(self.fs, self.directory, directory_state=directory_state)
        if self._state is not None and view.log_start >= self._state.log_start:
            view._resume = self._resume
        return view

    def _load(self) -> ViewState:
        directory_state, partition = self.directory_state, self.topic_partition
        state = load_view_state(
            self.fs,
            LoadParameters(
                directory=self.directory,
                condition=directory_state.condition,
                recovery_point=0 if partition is None else directory_state.recovery_points.get(partition, 0),
                log_start=0 if partition is None else directory_state.log_start_offsets.get(partition, 0),
                validated=self._validated,
            ),
        )
        if partition is None and not state.listing.segments:
            raise DirectoryError(
                "not a partition directory: no segments, and no TOPIC-PARTITION name", path=self.directory
            )
        return state

    @property
    def log_start(self) -> int:
        return self.state.log_start

    @property
    def log_end(self) -> int:
        return self.state.log_end.message_offset

    def end_offset(self, until: Until | str | None = None) -> int:
        """Return the end of a read_uncommitted read; see the module's table. Raise ValueError for another ``until``."""
        state = self.state
        if until is None:
            until = Until.HIGH_WATERMARK if state.condition is DirectoryCondition.HELD else Until.LOG_END
        known = self._checkpointed(Until(until))
        return max(state.log_start, min(self.log_end, self.log_end if known is None else known))

    def _checkpointed(self, until: Until) -> int | None:
        """Return the checkpointed bound, or None if the log end is the only bound."""
        partition = self.topic_partition
        if until is Until.LOG_END or partition is None:
            return None
        if until is Until.CHECKPOINT:
            return self.directory_state.recovery_points.get(partition, 0)
        if partition.topic == CLUSTER_METADATA_TOPIC and partition not in self.directory_state.high_watermarks:
            return None  # the quorum keeps its high watermark only in memory
        return self.directory_state.high_watermarks.get(partition, 0)

    def last_stable_offset(self, until: Until | str | None = None) -> int:
        """Return the end of a read_committed read."""
        end = self.end_offset(until)
        return max(self.log_start, self.transactions(end).last_stable_offset(end))

    def limit(self, isolation: Isolation | str = Isolation.READ_UNCOMMITTED, until: Until | str | None = None) -> int:
        """Return the end of a read. Raise ValueError for an unknown isolation."""
        isolation = Isolation(isolation)
        if isolation is Isolation.LOG_END:
            return self.log_end
        return self.last_stable_offset(until) if isolation is Isolation.READ_COMMITTED else self.end_offset(until)

    def transactions(self, high_watermark: int) -> ViewTransactions:
        """Return open and aborted transactions, as needed to read below ``high_watermark``."""
        found = self._transactions.get(high_watermark)
        if found is None:
            found = self._retrying(lambda: read_transactions(self, high_watermark, self._resume))
            self._transactions[high_watermark] = found
            self._resume = found.resume
        return found

    def offsets(self, until: Until | str | None = None) -> LogOffsetSnapshot:
        """Return the four offsets with their positions. ``until`` selects the high watermark."""
        return LogOffsetSnapshot(
            log_start=self.log_start,
            last_stable=self.resolve(self.last_stable_offset(until)),
            high_watermark=self.resolve(self.end_offset(until)),
            log_end=self.state.log_end,
        )

    def resolve(self, offset: int) -> LogOffsetMetadata:
        """Return the segment and position of the batch with the first record at or after ``offset``."""
        state = self.state
        if offset >= state.log_end.message_offset:
            return state.log_end
        stream = RowStream(self, ReadRange(start=offset, end=state.log_end.message_offset, control=True))
        for rows in stream:
            segment = state.segments.floor(int(rows.table.last_offset[0]))
            base_offset = -1 if segment is None else segment.base_offset
            return LogOffsetMetadata(offset, base_offset, int(rows.table.position[0]))
        return LogOffsetMetadata(offset)

    def range(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        until: Until | str | None = None,
        control: bool = False,
    ) -> ReadRange:
        """Return the input of ``batches``. ``start`` defaults to the log start; the isolation's limit bounds ``end``.

        Raise OffsetOutOfRangeError for a start below the log start or above the log end.
        """
        first = self.log_start if start is None else start
        if not self.log_start <= first <= self.log_end:
            raise OffsetOutOfRangeError(
                f"the log holds [{self.log_start}, {self.log_end})", path=self.directory, offset=first
            )
        limit = self.limit(isolation, until)
        committed = Isolation(isolation) is Isolation.READ_COMMITTED
        return ReadRange(
            start=first,
            end=limit if end is None else min(end, limit),
            aborted=self.transactions(self.end_offset(until)).aborted if committed else None,
            control=control,
        )

    def batches(
        self,
        wanted: ReadRange,
        *,
        on_corrupt: CorruptPolicy = CorruptPolicy.FAIL,
        on_lost: OnLost | None = None,
        verify_crc: bool = True,
    ) -> RowStream:
        """Return the batches with records in a range, chunk by chunk."""
        return RowStream(self, wanted, on_corrupt=on_corrupt, on_lost=on_lost, verify_crc=verify_crc)

    def columns(
        self,
        wanted: ReadRange,
        choice: ColumnChoice = ALL_COLUMNS,
        *,
        on_corrupt: CorruptPolicy = CorruptPolicy.FAIL,
        verify_crc: bool = True,
    ) -> Iterator[ColumnChunk]:
        """Return the records of a range as columns, in bounded chunks. A long read uses a second thread."""
        stream = self.batches(wanted, on_corrupt=on_corrupt, verify_crc=verify_crc)
        if on_corrupt is CorruptPolicy.SKIP:  # decoding and the stream both update the skip counts: use a single thread
            return column_chunks(stream, choice, wanted.start, wanted.end, on_skipped=stream.stats.count)
        return column_chunks(read_ahead(stream), choice, wanted.start, wanted.end)

    def count_between(
        self, start: int | None = None, end: int | None = None, *, advance: Advance = lambda _bytes: None
    ) -> RecordCount:
        """Count the records in ``[start, end)`` exactly, by default from the high watermark to the log end.

        Raise OffsetOutOfRangeError for a bound outside [log start, log end], ValueError for an end below the start.
        """
        first = self.end_offset(Until.HIGH_WATERMARK) if start is None else start
        last = self.log_end if end is None else end
        for bound in (first, last):
            if not self.log_start <= bound <= self.log_end:
                raise OffsetOutOfRangeError(
                    f"the log holds [{self.log_start}, {self.log_end})", path=self.directory, offset=bound
                )
        if last < first:
            raise ValueError(f"the range [{first}, {last}) ends before it begins")
        batches = self.batches(ReadRange(start=first, end=last, control=True))
        return count_records(counted(batches, advance), first, last)

    def offset_for_timestamp(
        self,
        timestamp_ms: int,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        until: Until | str | None = None,
        on_corrupt: CorruptPolicy = CorruptPolicy.FAIL,
    ) -> TimestampOffset | None:
        """Return the first record at or after a timestamp below the isolation's limit, or None."""
        end = self.limit(isolation, until)
        return self._retrying(lambda: first_at_or_after(self, timestamp_ms, self.log_start, end, on_corrupt))

    def latest_timestamp(
        self, *, isolation: Isolation | str = Isolation.READ_UNCOMMITTED, until: Until | str | None = None
    ) -> TimestampOffset | None:
        """Return the first record with the largest timestamp, or None if no record has one."""
        end = self.limit(isolation, until)
        return self._retrying(lambda: latest_timestamp(self, self.log_start, end))

    def list_offset(
        self,
        timestamp_ms: int,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
        until: Until | str | None = None,
    ) -> ListedOffset | None:
        """Return the result of Kafka's ListOffsets for a time or an ``OffsetSpec``; see ``list_offsets``."""
        epochs = LeaderEpochCheckpoint.read(self.fs, self.directory / LEADER_EPOCH_CHECKPOINT)
        request = ListRequest(
            log_start=self.log_start,
            end=self.limit(isolation, until),
            epochs=LeaderEpochCache(epochs),
            first_at_or_after=lambda time: self.offset_for_timestamp(time, isolation=isolation, until=until),
            latest_timestamp=lambda: self.latest_timestamp(isolation=isolation, until=until),
        )
        return list_offset(timestamp_ms, request)

    def splits(self, start: int, end: int, target_bytes: int, *, min_timestamp_ms: int | None = None) -> list[Split]:
        """Return pieces of [start, end) of about ``target_bytes`` each; see ``splits``."""
        return plan_splits(self, start, end, target_bytes, min_timestamp_ms)

    def _retrying(self, read: Callable[[], _T]) -> _T:
        """Run a read, and repeat it with a fresh state if a broker removed a file during it."""
        for _ in range(_ATTEMPTS):
            try:
                return read()
            except FileMissingError:
                self.refresh()
        return read()


def _topic_partition(directory: Path) -> TopicPartition | None:
    try:
        return PartitionDirectoryName.parse(directory.name).topic_partition
    except DirectoryError:
        return None  # a copy under another name: its records are readable, but no checkpoint names it
