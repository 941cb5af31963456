"""What one open log is made of, and the changes that several of its operations share. No lock: its owner has it.

Segments, offsets, leader epochs, producer state, and the segments that wait for their deletion belong together and
change together; ``PartitionLog`` holds the lock, and the modules that append, truncate and delete work on this.

Invariants: the active segment is the last one; the log end lies in it; a segment with unsynced bytes is in ``dirty``.
Called by: PartitionLog, ``batch_write``, ``truncation``, ``deletion``. Thread rule: changes under
the partition's lock; segments and offsets are replaced whole, so readers take no lock.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Self

from tidelog.model import LogOffsetMetadata, LogOffsetSnapshot, StorageError
from tidelog.runtime import Clock
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCache, LeaderEpochCheckpoint
from tidelog.storage.fs import FileSystem, each_despite_failures
from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.deleted_segments import DeletedSegments
from tidelog.storage.log.load.loader import LoadedLog
from tidelog.storage.log.log_offsets import LogOffsets
from tidelog.storage.log.log_read import resolve_offset
from tidelog.storage.log.log_tasks import LogTasks
from tidelog.storage.log.open_request import OpenRequest
from tidelog.storage.log.producer_state import LogProducerState
from tidelog.storage.log.segments import LogSegments
from tidelog.storage.log.topic_id import TopicIdFile
from tidelog.storage.segment.segment import LogSegment


@dataclass(slots=True, kw_only=True)
class LogState:
    fs: FileSystem
    directory: Path
    clock: Clock
    config: LogConfig
    segments: LogSegments[LogSegment]
    offsets: LogOffsets
    epochs: LeaderEpochCache
    producers: LogProducerState
    is_sole_replica: bool
    """Nobody replicates the log, so the high watermark is its end at all times."""
    verifies_transactions: bool
    """A client's first batch of a transaction needs a guard (KIP-890)."""
    topic: TopicIdFile
    deleted: DeletedSegments
    tasks: LogTasks
    epoch_file: Lock = field(default_factory=Lock)
    """Held while the leader epochs are written, taken after all other locks."""
    dirty: set[int] = field(default_factory=set)
    """Base offsets of segments with bytes that are not synced."""
    cuts: int = 0
    """How often records were cut off the end."""
    epochs_behind: bool = False
    """Their file is to be written with the next flush."""
    first_unstable: LogOffsetMetadata | None = None
    """Where the first transaction begins that is open, or whose marker is not below the high watermark."""

    @classmethod
    def of(cls, request: OpenRequest, loaded: LoadedLog, tasks: LogTasks) -> Self:
        """The active segment's indexes get room for more entries with the first append."""
        now_ms, limits = request.clock.now_ms(), request.config.segment_limits
        segments = LogSegments(
            tuple(
                LogSegment(request.fs, request.directory, base, limits, now_ms=now_ms, size=loaded.sizes.get(base))
                for base in loaded.base_offsets
            )
        )
        active = segments.last
        active.grow_indexes()
        if loaded.made_segment:
            active.make_room()
        end = LogOffsetMetadata(loaded.end_offset, active.base_offset, active.size)
        state = cls(
            fs=request.fs,
            directory=request.directory,
            clock=request.clock,
            config=request.config,
            segments=segments,
            offsets=LogOffsets(log_start=loaded.log_start_offset, log_end=end, recovery_point=loaded.recovery_point),
            epochs=loaded.epochs,
            producers=loaded.producers,
            is_sole_replica=request.is_sole_replica,
            verifies_transactions=request.verifies_transactions,
            topic=TopicIdFile(request.fs, request.directory),
            deleted=DeletedSegments(request.fs),
            tasks=tasks,
            dirty={segment.base_offset for segment in loaded.recovered},
        )
        state.offsets.on_high_watermark = request.on_high_watermark
        state.set_log_end(end)
        if not request.is_sole_replica:
            state.offsets.update_high_watermark(LogOffsetMetadata(request.high_watermark))
        state.after_high_watermark()
        return state

    @property
    def active(self) -> LogSegment:
        return self.segments.last

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Set the id, and have it written soon. InconsistentTopicIdError if the log belongs to another topic."""
        self.topic.assign(topic_id)
        if self.topic.is_unwritten:
            self.tasks.after_topic_id()

    # --- offsets ---

    def set_log_end(self, end: LogOffsetMetadata) -> None:
        self.offsets.set_log_end(end)
        if self.is_sole_replica:
            self.offsets.update_high_watermark(end)

    def move_high_watermark_to_end(self) -> None:
        """All that is there is replicated."""
        offsets = self.offsets
        if offsets.high_watermark is not offsets.log_end:
            offsets.update_high_watermark(offsets.log_end)
            self.after_high_watermark()

    def after_high_watermark(self) -> None:
        """Transactions whose marker is now below the high watermark hold nothing back any more."""
        if self.has_no_transactions:
            return
        self.producers.state.on_high_watermark_updated(self.offsets.high_watermark.message_offset)
        self.update_first_unstable()

    @property
    def has_no_transactions(self) -> bool:
        """None is open, none waits for its marker to be replicated."""
        return self.first_unstable is None and self.producers.state.transactions.is_empty

    def update_first_unstable(self) -> None:
        first = self.producers.state.first_unstable_offset()
        start = self.offsets.log_start
        if first is not None and (first.is_offset_only or first.message_offset < start):
            first = self.resolve(max(first.message_offset, start))
        self.first_unstable = first

    def resolve(self, offset: int) -> LogOffsetMetadata:
        """Segment and position of ``offset``; the log end from there on."""
        return resolve_offset(self.segments, offset, self.offsets.log_end)

    def resolve_high_watermark(self) -> None:
        """Look up where it lies, if that is not known."""
        watermark = self.offsets.high_watermark
        if watermark.is_offset_only:
            self.offsets.resolved_high_watermark(self.resolve(watermark.message_offset))

    def last_stable(self) -> LogOffsetMetadata:
        """The first unstable offset where it lies below the high watermark, else that."""
        # In this order: a transaction that begins below this high watermark is known by now.
        watermark = self.offsets.high_watermark
        first = self.first_unstable
        if first is None or first.message_offset >= watermark.message_offset:
            return watermark
        return self.resolve(first.message_offset) if first.is_offset_only else first

    def offset_snapshot(self) -> LogOffsetSnapshot:
        """Whole under the lock. Without it appends leave it whole too, other changes may not."""
        offsets = self.offsets  # read in this order, for an append moves them in the other
        log_start, stable = offsets.log_start, self.last_stable()
        watermark = offsets.high_watermark
        return LogOffsetSnapshot(
            log_start=log_start, last_stable=stable, high_watermark=watermark, log_end=offsets.log_end
        )

    # --- segments ---

    def go_by(self, config: LogConfig) -> None:
        """Take over other settings, in every segment: a truncation may make any of them the active one."""
        self.config = config
        self.producers.state.expiration_ms = config.producer_id_expiration_ms
        for segment in self.segments:
            segment.update_limits(config.segment_limits)

    def roll(self, base_offset: int) -> LogSegment:
        """A new active segment; the snapshot at its base lets a recovery begin there.

        Where all is synced already, a recovery begins with the new segment as soon as that is there: so the last entry
        of the old one's time index is synced first. StorageError where the new one would not lie behind the active one.
        """
        if base_offset <= self.active.base_offset:
            raise StorageError(
                f"a segment cannot begin at {base_offset}, the active one begins at {self.active.base_offset}",
                path=self.directory,
            )
        self.dirty.add(self.active.base_offset)
        self.active.on_become_inactive()
        if self.offsets.synced >= base_offset:
            self.active.flush()
        segment = self.new_segment(base_offset)
        self.segments.add(segment)
        self.producers.state.map_end_offset = base_offset
        self.producers.take_snapshot()
        self.set_log_end(LogOffsetMetadata(self.offsets.log_end.message_offset, base_offset, 0))
        self.tasks.after_roll(base_offset)
        return segment

    def new_segment(self, base_offset: int) -> LogSegment:
        """An empty one, not yet among the segments."""
        self.dirty.add(base_offset)
        return LogSegment.create(
            self.fs, self.directory, base_offset, self.config.segment_limits, now_ms=self.clock.now_ms()
        )

    def remove_segments(self, segments: Iterable[LogSegment]) -> None:
        """Take segments out of the log; their files and snapshots go after ``file.delete.delay.ms``."""
        gone = list(segments)
        self.segments.remove_all(gone)
        self._delete_files(gone)

    def replace_segments(self, gone: Sequence[LogSegment], new: Sequence[LogSegment]) -> None:
        """``new`` have taken the place of ``gone``, whose files are named ``.deleted`` already and go the same way.

        What is new is on the disk. A snapshot whose segment is there no more goes, too.
        """
        self.segments.replace(gone, new)
        self.deleted.add_renamed(gone, self._due_ms)
        bases = {segment.base_offset for segment in gone}
        self._forget(bases, snapshots=bases - {segment.base_offset for segment in new})

    def start_over(self, base_offset: int) -> None:
        """One empty segment instead of all; the files of those go the same way."""
        gone = list(self.segments)
        self._delete_files(gone)
        self.segments.become(self.new_segment(base_offset))

    def _delete_files(self, gone: Sequence[LogSegment]) -> None:
        bases = {segment.base_offset for segment in gone}
        self.deleted.add(gone, self._due_ms)
        self._forget(bases, snapshots=bases)

    def _forget(self, base_offsets: set[int], *, snapshots: set[int]) -> None:
        self.dirty -= base_offsets
        paths = (self.producers.snapshots.forget(offset) for offset in sorted(snapshots))
        self.deleted.add_files(paths, self._due_ms)
        if base_offsets:
            self.tasks.after_deletion(self.config.file_delete_delay_ms)

    @property
    def _due_ms(self) -> int:
        """When files that are deleted now may go."""
        return self.clock.now_ms() + self.config.file_delete_delay_ms

    def close(self) -> None:
        """Close every segment, even if one fails; the first failure is raised then."""
        try:
            each_despite_failures(segment.close for segment in self.segments)
        finally:
            self.deleted.close_handlers()

    def close_handlers(self) -> None:
        for segment in self.segments:
            segment.close_handlers()
        self.deleted.close_handlers()

    # --- leader epochs ---

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` begins at ``start_offset``, if it is news; durable on return."""
        if self.epochs.assign(epoch, start_offset):
            self.write_epochs()

    def begin_epoch(self, epoch: int) -> None:
        """Note that ``epoch`` begins at the log end, if it is news; its file follows with the next flush."""
        self.epochs_behind |= self.epochs.assign(epoch, self.offsets.log_end.message_offset)

    def write_epochs_behind(self, *, syncs_name: bool = True) -> None:
        """Bring the file up to date, durably; needs no lock of the log's. Called before the recovery point moves.

        Until then it may lag: what it misses begins behind the recovery point, where loading finds it in the batches,
        and what it has too much lies below the log start, where loading drops it.
        """
        if self.epochs_behind:
            self.write_epochs(syncs_name=syncs_name)

    def write_epochs(self, *, syncs_name: bool = True) -> None:
        """Durable on return; ``syncs_name``: as in ``write_atomically``."""
        with self.epoch_file:
            self.epochs_behind = False
            path = self.directory / LEADER_EPOCH_CHECKPOINT
            LeaderEpochCheckpoint.write(self.fs, path, self.epochs.entries, syncs_name=syncs_name)
