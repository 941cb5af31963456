"""The loader of a partition directory, used by its writer. It repairs the log and returns its state.

A crash after any of these steps leaves a directory that loads again, with the same result:

1. Settle the files that a crash left behind (``leftover_files``): remove unfinished files, complete finished swaps,
   remove orphaned indexes.
2. Recover flushed segments that lost an index. A missing ``.timeindex`` alone is created, empty.
3. After an unclean shutdown, recover the segments from the recovery point on, in offset order. The first segment that
   must be truncated ends the log: later segments are removed first, with their snapshots, then it is truncated. In
   both steps a segment with an offset that no index can hold is first split (``overflow_split``). Its pieces are
   recovered instead.
4. Remove all segments of a log that ends below its log start. Create an empty segment at the log start if none exists.
5. Truncate the leader epochs at both ends, remove stray snapshots, and rebuild the producer state from the newest
   usable snapshot and the batches after it.

A ``-delete`` directory is loaded only to be deleted, so it gets step 1 only.

Large segments are read and checked on all cores (``parallel_walks``). One thread writes the results, in offset order.
The recovery point never moves forward here, because nothing was synced. Deleted segments are removed immediately, as
there are no readers yet; Kafka renames them to ``.deleted`` and waits.

Thread rule: one caller, which owns the directory. Source: Kafka's ``LogLoader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.model import CheckpointError, OffsetOverflowError
from tidelog.storage.epoch import (
    LEADER_EPOCH_CHECKPOINT,
    EpochEntry,
    LeaderEpochCache,
    LeaderEpochCheckpoint,
    with_records,
)
from tidelog.storage.fs import File, FileSystem
from tidelog.storage.log.load.leftover_files import clean_up, plan_cleanup, read_end_offset, replaced_offsets
from tidelog.storage.log.load.listing import PartitionListing, list_with_sizes
from tidelog.storage.log.load.load_plan import (
    LoadPlan,
    RecoveryReason,
    SegmentToRecover,
    first_unflushed_base,
    plan_recovery,
)
from tidelog.storage.log.load.overflow_split import split_overflowed_segment
from tidelog.storage.log.load.parallel_walks import ParallelWalks, WalkThreads
from tidelog.storage.log.load.segment_effects import SegmentEffects
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.log.state.producer_state import LogProducerState, SnapshotFiles
from tidelog.storage.segment.file_names import SEGMENT_KINDS, DirectoryPurpose, FileKind, segment_file
from tidelog.storage.segment.segment_reader import SegmentReader
from tidelog.storage.segment.segment_recovery import RecoveredSegment, SegmentWalk, rebuild_segment, walk_segment

WORTH_A_THREAD_BYTES = 2 * 1024 * 1024
"""Fewer bytes are walked faster without another thread."""


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """The input of ``load_log``. ``log_start_offset`` and ``recovery_point`` come from checkpoints, else they are 0."""

    fs: FileSystem
    directory: Path
    config: LogConfig
    clean_shutdown: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    on_segment: Callable[[RecoveredSegment], None] | None = None
    """Called after each recovered segment, in offset order. Its error ends the loading; a retry is possible."""
    threads: WalkThreads | None = None
    """Threads that read segments, shared with other partitions. None: the loader creates one per processor."""
    listing: PartitionListing | None = None
    """The directory's content, if the caller has it already (``survey``)."""


@dataclass(frozen=True, slots=True)
class SegmentOnDisk:
    base_offset: int


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """The state of a loaded log, and the changes that loading made."""

    base_offsets: tuple[int, ...]
    log_start_offset: int
    recovery_point: int
    end_offset: int
    epochs: LeaderEpochCache
    producers: LogProducerState
    recovered: tuple[RecoveredSegment, ...] = ()
    splits: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Base offsets of split segments, each with the base offsets of its pieces."""
    deleted: tuple[int, ...] = ()
    """Base offsets of removed segments."""
    removed_files: tuple[str, ...] = ()
    """Names of removed files that a crash had left behind."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Known sizes of the ``.log`` files in bytes, by base offset."""
    created_segment: bool = False
    """True if there was no segment to load, so that an empty one was created."""
    warnings: list[str] = field(default_factory=list)
    written_epochs: tuple[EpochEntry, ...] = ()
    """The entries in the leader epoch file."""


def load_log(request: LoadRequest, *, now_ms: int) -> LoadedLog:
    """Load the directory. Raise StorageError if a file cannot be read, or if no index can hold an offset."""
    return _Loader(request, now_ms).load()


def _log_sizes(listing: PartitionListing) -> dict[int, int]:
    sizes = {segment.base_offset: segment.sizes[FileKind.LOG] for segment in listing.segments}
    return {base_offset: size for base_offset, size in sizes.items() if size >= 0}


_Walks = ParallelWalks[tuple[SegmentWalk, SegmentEffects]]


class _Loader:
    def __init__(self, request: LoadRequest, now_ms: int) -> None:
        self._request = request
        self._now_ms = now_ms
        self._fs = request.fs
        self._directory = request.directory
        self._listed: Sequence[int] = ()
        self._sizes: dict[int, int] = {}
        """The sizes of ``.log`` files in bytes, by base offset."""
        self._read: dict[int, File] = {}
        self._ends: dict[int, int] = {}
        self._recovered: list[RecoveredSegment] = []
        self._splits: list[tuple[int, tuple[int, ...]]] = []
        self._deleted: list[int] = []
        self._warnings: list[str] = []
        self._epochs = LeaderEpochCache()
        self._epochs_lost = False
        self._written_epochs: tuple[EpochEntry, ...] | None = None
        """The checkpoint's entries; None without a checkpoint."""
        self._segments: LogSegments[SegmentOnDisk] = LogSegments()
        self._snapshots = SnapshotFiles(self._fs, self._directory, ())

    def load(self) -> LoadedLog:
        listing, removed = self._settle_leftover_files()
        self._snapshots = SnapshotFiles(self._fs, self._directory, listing.snapshots)
        self._snapshots.contents = dict(listing.contents)
        if LEADER_EPOCH_CHECKPOINT in listing.others:
            self._read_epochs(listing.contents.get(LEADER_EPOCH_CHECKPOINT))
        self._listed, self._sizes, self._read = listing.base_offsets, _log_sizes(listing), dict(listing.logs)
        if listing.end_offset >= 0:
            self._ends[self._listed[-1]] = listing.end_offset
        if self._directory.name.endswith(DirectoryPurpose.DELETE.value):
            return self._load_to_delete(removed)
        plan = plan_recovery(
            self._fs,
            self._directory,
            listing,
            clean_shutdown=self._request.clean_shutdown,
            recovery_point=self._request.recovery_point,
        )
        if plan.recover:
            self._recover(listing, plan)
        else:
            self._segments = LogSegments(tuple(map(SegmentOnDisk, listing.base_offsets)))
        self._make_time_indexes(plan.new_time_indexes)
        end_offset = self._end_offset()
        if end_offset is not None and end_offset < self._request.log_start_offset:
            self._delete_all(end_offset)
            end_offset = None
        created_segment = not len(self._segments)
        if created_segment:
            self._create_segment(self._request.log_start_offset)
        if end_offset is None:
            end_offset = self._segments.last.base_offset
        log_start_offset = max(self._request.log_start_offset, self._segments.first.base_offset)
        self._truncate_epochs(end_offset)
        self._snapshots.remove_strays(self._segments.base_offsets)
        producers = self._new_producers()
        producers.rebuild(
            self._segments,
            log_start_offset,
            end_offset,
            after_clean_shutdown=self._request.clean_shutdown,
            now_ms=self._now_ms,
        )
        self._snapshots.contents = None
        clean = self._request.clean_shutdown
        return LoadedLog(
            base_offsets=tuple(self._segments.base_offsets),
            log_start_offset=log_start_offset,
            recovery_point=end_offset if clean else min(self._request.recovery_point, end_offset),
            end_offset=end_offset,
            epochs=self._epochs,
            producers=producers,
            recovered=tuple(self._recovered),
            splits=tuple(self._splits),
            deleted=tuple(self._deleted),
            removed_files=removed,
            sizes=self._sizes | {segment.base_offset: segment.size for segment in self._recovered},
            created_segment=created_segment,
            warnings=self._warnings,
            written_epochs=self._written_epochs or (),
        )

    # --- the steps ---

    def _load_to_delete(self, removed: tuple[str, ...]) -> LoadedLog:
        """List the segments of a directory that will be deleted. Nothing is recovered or rebuilt."""
        for base_offset in self._listed:
            self._segments.add(SegmentOnDisk(base_offset))
        if not len(self._segments):
            self._create_segment(0)
        return LoadedLog(
            base_offsets=tuple(self._segments.base_offsets),
            log_start_offset=max(self._request.log_start_offset, self._segments.first.base_offset),
            recovery_point=0,
            end_offset=0,
            epochs=self._epochs,
            producers=self._new_producers(),
            removed_files=removed,
            warnings=self._warnings,
            written_epochs=self._epochs.entries,
        )

    @contextmanager
    def _parallel_walks(self, base_offsets: Sequence[int]) -> Iterator[_Walks]:
        threads = self._request.threads
        with ExitStack() as stack:
            if sum(self._sizes.get(base_offset, 0) for base_offset in base_offsets) < WORTH_A_THREAD_BYTES:
                threads = None
            elif threads is None and len(base_offsets) > 1:
                threads = stack.enter_context(WalkThreads())
            yield stack.enter_context(ParallelWalks(self._walk, base_offsets, threads))

    def _settle_leftover_files(self) -> tuple[PartitionListing, tuple[str, ...]]:
        """Settle the directory. Return the resulting listing and the names of the removed files."""
        listing = self._request.listing or list_with_sizes(self._fs, self._directory)
        if listing.is_settled:
            return listing, ()
        plan = plan_cleanup(listing, replaced_offsets(self._fs, self._directory, listing))
        clean_up(self._fs, self._directory, plan)
        return list_with_sizes(self._fs, self._directory), plan.removals

    def _recover(self, listing: PartitionListing, plan: LoadPlan) -> None:
        damaged = [part for part in plan.recover if part.reason is not RecoveryReason.UNFLUSHED]
        unflushed = [part for part in plan.recover if part.reason is RecoveryReason.UNFLUSHED]
        bases = [part.base_offset for part in (*damaged, *unflushed)]
        with self._parallel_walks(bases) as walks:
            self._recover_damaged(listing, damaged, walks)
            self._recover_unflushed(unflushed, walks)

    def _recover_damaged(self, listing: PartitionListing, damaged: Sequence[SegmentToRecover], walks: _Walks) -> None:
        """Add all segments in offset order, and recover the flushed segments without a valid index."""
        if not damaged:
            self._segments = LogSegments(tuple(map(SegmentOnDisk, listing.base_offsets)))
            return
        bases = {part.base_offset for part in damaged}
        for segment in listing.segments:
            if segment.base_offset not in bases:
                self._segments.add(SegmentOnDisk(segment.base_offset))
                continue
            for walk, effects in self._walked(segment.base_offset, walks):
                self._rebuild(walk, effects, below_recovery_point=True)
                self._segments.add(SegmentOnDisk(walk.base_offset))

    def _recover_unflushed(self, unflushed: Iterable[SegmentToRecover], walks: _Walks) -> None:
        for part in unflushed:
            for walk, effects in self._walked(part.base_offset, walks):
                first = first_unflushed_base(self._segments.base_offsets, self._request.recovery_point)
                below = first is not None and walk.base_offset < first  # true only for a piece of a split segment
                # Kafka truncates a segment with a lost index in its first pass, which does not end the log.
                is_last = walk.emptied or (walk.size < walk.size_before and not part.index_lost)
                self._rebuild(walk, effects, below_recovery_point=below, is_last=is_last)
                if is_last:
                    return

    def _walked(self, base_offset: int, walks: _Walks) -> Iterator[tuple[SegmentWalk, SegmentEffects]]:
        """Yield the segment's walk, or the walks of its pieces if it had to be split."""
        try:
            walked = walks.take(base_offset)
        except OffsetOverflowError:
            pieces = self._split(base_offset)
        else:
            yield walked
            return
        for piece in pieces:
            yield self._walk(piece)

    def _walk(self, base_offset: int) -> tuple[SegmentWalk, SegmentEffects]:
        """Read a segment. Thread rule: any thread."""
        effects = SegmentEffects()
        walk = walk_segment(
            self._fs,
            self._directory,
            base_offset,
            index_interval_bytes=self._request.config.index_interval_bytes,
            on_batches=effects.gather,
            file=self._read.pop(base_offset, None),
        )
        return walk, effects

    def _split(self, base_offset: int) -> Sequence[int]:
        above = [base for base in self._listed if base > base_offset]
        pieces = split_overflowed_segment(
            self._fs, self._directory, base_offset, next_base_offset=above[0] if above else None
        )
        if base_offset in self._segments.base_offsets:
            self._segments.remove(base_offset)
            for piece in pieces:
                self._segments.add(SegmentOnDisk(piece))
        if base_offset not in pieces:
            self._snapshots.remove(base_offset)
        self._splits.append((base_offset, tuple(pieces)))
        self._warnings.append(
            f"the segment at {base_offset} had offsets that no index can hold, more than 31 bits above its base offset:"
            f" it was split into those at {', '.join(map(str, pieces))}"
        )
        return pieces

    def _rebuild(
        self, walk: SegmentWalk, effects: SegmentEffects, *, below_recovery_point: bool, is_last: bool = False
    ) -> None:
        """Write a walk's result. ``is_last`` ends the log: delete later segments while the damage still exists."""
        producers = self._new_producers()
        producers.rebuild(
            self._segments,
            self._request.log_start_offset,
            walk.base_offset,
            after_clean_shutdown=False,
            now_ms=self._now_ms,
        )
        known = self._epochs.entries
        aborted = effects.apply(producers, self._epochs)
        if self._epochs.entries != known and not self._epochs_lost:  # while a crash still leads to another recovery
            self._write_epochs()
        if is_last:
            self._delete([segment.base_offset for segment in self._segments.between(walk.base_offset)[1:]])
        recovered = rebuild_segment(self._fs, self._directory, walk, aborted, below_recovery_point=below_recovery_point)
        if not recovered.emptied:
            producers.take_snapshot()
        self._ends[walk.base_offset] = recovered.end_offset
        self._recovered.append(recovered)
        if self._request.on_segment is not None:
            self._request.on_segment(recovered)

    def _make_time_indexes(self, base_offsets: Iterable[int]) -> None:
        for base_offset in base_offsets:
            with self._fs.open(segment_file(self._directory, base_offset, FileKind.TIME_INDEX), create=True):
                pass

    def _end_offset(self) -> int | None:
        if not len(self._segments):
            return None
        base_offset = self._segments.last.base_offset
        if base_offset not in self._ends:
            with SegmentReader(self._fs, self._directory, base_offset) as reader:
                self._ends[base_offset] = read_end_offset(reader)
        return self._ends[base_offset]

    def _delete_all(self, end_offset: int) -> None:
        self._warnings.append(
            f"the log ends at offset {end_offset}, below its log start {self._request.log_start_offset}:"
            " all its segments are deleted"
        )
        self._epochs.clear()  # first: after a crash without the segments, the entries would seem to be valid
        self._write_epochs()
        self._snapshots.remove_all()
        self._delete(self._segments.base_offsets)

    def _delete(self, base_offsets: Iterable[int]) -> None:
        """Delete segments, the last one first. The ``.log`` goes last, so a crash leaves no orphaned indexes.

        The directory is synced: otherwise a second crash could restore the segments behind newly appended records.
        """
        gone = sorted(base_offsets, reverse=True)
        for base_offset in gone:
            for kind in reversed(SEGMENT_KINDS):
                self._fs.remove(segment_file(self._directory, base_offset, kind), missing_ok=True)
            self._segments.remove(base_offset)
            self._snapshots.remove(base_offset)
            self._deleted.append(base_offset)
        if gone:
            self._fs.sync_dir(self._directory)

    def _create_segment(self, base_offset: int) -> None:
        for kind in (FileKind.LOG, FileKind.INDEX, FileKind.TIME_INDEX):
            self._create(segment_file(self._directory, base_offset, kind).name)
        self._segments.add(SegmentOnDisk(base_offset))

    def _create(self, name: str) -> None:
        with self._fs.open(self._directory / name, create=True):
            pass

    # --- leader epochs ---

    def _read_epochs(self, content: bytes | None) -> None:
        path = self._directory / LEADER_EPOCH_CHECKPOINT
        try:
            if content is None:
                entries = LeaderEpochCheckpoint.read(self._fs, path)
            else:
                entries = LeaderEpochCheckpoint.parse(content, path=path)
        except CheckpointError as error:
            self._warnings.append(f"{error}; the leader epochs are taken from the batches")
            self._epochs_lost = True
        else:
            self._epochs = LeaderEpochCache(entries)
        self._written_epochs = self._epochs.entries

    def _truncate_epochs(self, end_offset: int) -> None:
        if self._epochs_lost:
            self._epochs.clear()
            for segment in self._segments:
                effects = SegmentEffects()
                with SegmentReader(self._fs, self._directory, segment.base_offset) as reader:
                    for _, table, _ in reader.chunks(verify_crc=False):
                        effects.gather_epochs(table)
                effects.assign_epochs(self._epochs)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(self._request.log_start_offset)
        if self._written_epochs is None and not self._epochs.entries:
            self._create(LEADER_EPOCH_CHECKPOINT)  # an empty file, like a broker's, means the same as no file
        elif self._epochs.entries != with_records(self._written_epochs or (), end_offset):
            self._write_epochs()  # else a task or a flush drops an epoch without records: a start need not wait for it

    def _write_epochs(self) -> None:
        self._written_epochs = self._epochs.entries
        LeaderEpochCheckpoint.write(self._fs, self._directory / LEADER_EPOCH_CHECKPOINT, self._written_epochs)

    def _new_producers(self) -> LogProducerState:
        return LogProducerState(
            self._fs,
            self._directory,
            self._snapshots,
            expiration_ms=self._request.config.producer_id_expiration_ms,
        )
