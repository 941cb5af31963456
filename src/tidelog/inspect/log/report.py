"""The report on one partition's log, read at one moment.

From the ``.log`` files it reads the first batch of each segment, and the bytes needed for the log end. The last stable
offset needs the batches after the newest producer snapshot. An open transaction is read from its start on. The parts
of the report have errors of their own: a damaged small file or batch leaves out its part alone.

While a broker runs, files may disappear during the reading. Then it starts over. The module only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tidelog.inspect.info import SegmentHeads
from tidelog.inspect.log.directory_files import DirectoryFile, describe_files
from tidelog.inspect.log.index_entries import IndexEntries, count_index_entries
from tidelog.inspect.log.lost_records import LostRecords, count_lost_records, later_segments
from tidelog.inspect.log.positions import LogPositions, PlacedSegment, place_segments
from tidelog.inspect.retention.survey import PartitionRetention, survey_log
from tidelog.inspect.transactions import OpenTransaction, partition_transactions
from tidelog.inspect.verify.directory_check import outlook
from tidelog.model import CancelledError, FileMissingError, TidelogError, TopicPartition
from tidelog.runtime.progress import Advance
from tidelog.storage.checkpoint.partition_metadata import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCheckpoint
from tidelog.storage.log.load.leftover_files import plan_cleanup
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.view_state import ViewSegment, ViewState
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.recovery.recover_plan import PartitionPlan, RecoverOptions, plan_log
from tidelog.storage.manager.survey.setting_sources import SettingSources

_ATTEMPTS = 5
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartError:
    """A part of the report that cannot be read. ``part`` is a noun phrase."""

    part: str
    error: TidelogError


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTransactions:
    """``last_stable`` is None if it cannot be read."""

    last_stable: int | None = None
    open: tuple[OpenTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStart:
    """The work of a broker's next start on the log. ``plan`` is None while a process holds the directory, or if it
    cannot be made. ``summary`` is a clause such as ``recovers 3 segments from 1960 (unflushed)``. ``later`` are the
    segments after the log end, and ``lost`` are the records that are removed."""

    summary: str
    plan: PartitionPlan | None = None
    later: tuple[ViewSegment, ...] = ()
    lost: LostRecords | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """``segments`` ascend, with one element of ``entries`` for each. ``sizes`` holds the size of every file by name.
    ``files`` belong to no segment."""

    partition: TopicPartition
    directory_state: DirectoryState
    state: ViewState
    segments: tuple[PlacedSegment, ...]
    entries: tuple[IndexEntries, ...]
    positions: LogPositions
    retention: PartitionRetention
    heads: SegmentHeads
    topic_id: str | None
    epochs: tuple[EpochEntry, ...]
    transactions: LogTransactions
    sizes: Mapping[str, int]
    files: tuple[DirectoryFile, ...]
    start: NextStart
    errors: tuple[PartError, ...]

    @property
    def condition(self) -> DirectoryCondition:
        return self.state.condition

    @property
    def log_end(self) -> int:
        return self.state.log_end.message_offset

    @property
    def recovery_point(self) -> int | None:
        """The checkpointed recovery point, or None if the checkpoint lacks the partition."""
        return self.directory_state.recovery_points.get(self.partition)

    @property
    def checkpointed_high_watermark(self) -> int | None:
        return self.directory_state.high_watermarks.get(self.partition)

    @property
    def high_watermark(self) -> int:
        """The high watermark by which retention decides, or the log end if retention has an error."""
        return self.log_end if self.retention.state is None else self.retention.state.high_watermark

    @property
    def last_timestamp(self) -> int | None:
        """The largest timestamp of all records in ms, or None if no record has one."""
        segments = () if self.retention.state is None else self.retention.state.segments
        return max((one.time_ms for one in segments if one.has_timestamp), default=None)


def read_log_report(
    view: LogView,
    partition: TopicPartition,
    sources: SettingSources,
    *,
    now_ms: int,
    expect: Callable[[int], None] = lambda _bytes: None,
    advance: Advance = lambda _bytes: None,
) -> LogReport:
    """Read the report of a view's log. ``expect`` receives the bytes of the ``.log`` files, and ``advance`` those of
    each segment that is done.

    Raise DirectoryError, FileMissingError or StorageError if the directory cannot be listed, and ConfigError for
    invalid settings.
    """
    for _ in range(_ATTEMPTS):
        reader = _Reader(view, partition)
        try:
            found = reader.read(sources, now_ms, expect, advance)
        except FileMissingError:
            view.refresh()
            continue
        if view.state is found.state:
            return found
    return _Reader(view, partition).read(sources, now_ms, expect, advance)


class _Reader:
    """The reading of one report. ``_errors`` collects the errors of its parts."""

    def __init__(self, view: LogView, partition: TopicPartition) -> None:
        self._view = view
        self._fs = view.fs
        self._directory = view.directory
        self._partition = partition
        self._state = view.state
        self._errors: list[PartError] = []

    def read(self, sources: SettingSources, now_ms: int, expect: Callable[[int], None], advance: Advance) -> LogReport:
        state = self._state
        expect(sum(segment.size for segment in state.segments))
        sizes = self._fs.list_sizes(self._directory)
        retention = survey_log(
            self._view,
            self._partition,
            sources.of_topic(self._partition.topic),
            sources.metadata,
            now_ms=now_ms,
            advance=advance,
        )
        if retention.error is not None:
            self._errors.append(PartError("the outlook of segments", retention.error))
        start = self._start(sources.metadata, sizes, now_ms)
        cleanup = plan_cleanup(state.listing, range(0)) if start.plan is None else start.plan.leftovers
        transactions = self._attempt("the last stable offset", self._read_transactions, LogTransactions())
        epochs: tuple[EpochEntry, ...] = self._attempt("the leader epochs", self._read_epochs, ())
        segments = place_segments(state)
        return LogReport(
            partition=self._partition,
            directory_state=self._view.directory_state,
            state=state,
            segments=segments,
            entries=self._count_entries(sizes, retention.settings.config.segment_index_bytes),
            positions=self._find_positions(segments, retention, transactions, epochs),
            retention=retention,
            heads=self._read_heads(),
            topic_id=self._attempt("the topic id", self._read_topic_id, None),
            epochs=epochs,
            transactions=transactions,
            sizes=sizes,
            files=describe_files(sizes, cleanup),
            start=start,
            errors=tuple(self._errors),
        )

    def _attempt(self, part: str, read: Callable[[], T], default: T) -> T:
        """Return a part of the report. An error is noted, unless the whole report must be read again."""
        try:
            return read()
        except (CancelledError, FileMissingError):
            raise
        except TidelogError as error:
            self._errors.append(PartError(part, error))
            return default

    def _start(self, metadata: TopicMetadata, sizes: Mapping[str, int], now_ms: int) -> NextStart:
        if self._state.condition is DirectoryCondition.HELD:
            return NextStart(summary="nothing: a running process holds the directory")
        later = later_segments(self._state, sizes)
        plan = self._attempt("the plan of the next start", lambda: self._plan(metadata, now_ms), None)
        return NextStart(
            summary="not known" if plan is None else outlook(plan, self._view),
            plan=plan,
            later=later,
            lost=self._attempt("the lost records", lambda: self._count_lost(later), None),
        )

    def _plan(self, metadata: TopicMetadata, now_ms: int) -> PartitionPlan | None:
        return plan_log(
            self._fs,
            self._directory.parent,
            self._directory.name,
            RecoverOptions(now_ms=now_ms),
            state=self._view.directory_state,
            metadata=metadata,
        )

    def _count_lost(self, later: Sequence[ViewSegment]) -> LostRecords | None:
        if self._state.condition is not DirectoryCondition.UNCLEAN:
            return None  # after a clean shutdown, a start keeps all bytes
        return count_lost_records(self._fs, self._directory, self._state, later)

    def _read_transactions(self) -> LogTransactions:
        view = self._view
        last_stable = view.last_stable_offset(Until.LOG_END)
        if not view.transactions(view.log_end).scan.open:
            return LogTransactions(last_stable=last_stable)
        none: tuple[OpenTransaction, ...] = ()
        found = self._attempt(
            "the open transactions", lambda: tuple(partition_transactions(view, self._partition)), none
        )
        return LogTransactions(last_stable=last_stable, open=found)

    def _read_epochs(self) -> tuple[EpochEntry, ...]:
        return tuple(LeaderEpochCheckpoint.read(self._fs, self._directory / LEADER_EPOCH_CHECKPOINT))

    def _read_topic_id(self) -> str | None:
        found = PartitionMetadata.read(self._fs, self._directory / PARTITION_METADATA_FILE)
        return None if found is None else found.topic_id_text

    def _read_heads(self) -> SegmentHeads:
        heads = SegmentHeads()

        def read() -> None:
            for segment in self._state.segments:
                with segment.open(self._fs, self._directory) as reader:
                    heads.add(reader)

        self._attempt("the formats", read, None)
        return heads

    def _count_entries(self, sizes: Mapping[str, int], index_bytes: int) -> tuple[IndexEntries, ...]:
        active = self._state.log_end.segment_base_offset

        def count(segment: ViewSegment) -> IndexEntries:
            is_active = segment.base_offset == active
            return count_index_entries(
                self._fs, self._directory, segment, sizes, is_active=is_active, index_bytes=index_bytes
            )

        unknown = IndexEntries(offset=None, time=None, transaction=None)
        return tuple(
            self._attempt("the entries of an index", partial(count, segment), unknown)
            for segment in self._state.segments
        )

    def _find_positions(
        self,
        segments: Sequence[PlacedSegment],
        retention: PartitionRetention,
        transactions: LogTransactions,
        epochs: Sequence[EpochEntry],
    ) -> LogPositions:
        state, view = self._state, self._view
        wanted = [transaction.start_offset for transaction in transactions.open]
        wanted += [state.log_start, view.directory_state.recovery_points.get(self._partition, 0)]
        wanted += [offset for offset in (transactions.last_stable,) if offset is not None]
        wanted += [] if retention.state is None else [retention.state.high_watermark]
        wanted += [entry.start_offset for entry in epochs]
        wanted += state.listing.snapshots
        positions = LogPositions(self._fs, self._directory, segments)
        self._attempt("the places of offsets", lambda: positions.prepare(wanted), None)
        return positions
