"""The parts of one open log, and the changes that several operations share.

Segments, offsets, leader epochs, producer state and deleted segments change together. ``PartitionLog`` holds the lock;
the modules that append, truncate and delete work on this object.

Invariants: the active segment is the last one, and the log end lies in it. Every segment with unsynced bytes is in
``dirty``. Thread rule: the caller holds the partition's lock for a change. Segments and offsets are replaced as
immutable values, so readers take no lock.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from tidelog.kernel import LogOffsets
from tidelog.model import DirectoryError, LogOffsetMetadata, LogOffsetSnapshot, StorageError
from tidelog.runtime import Clock
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCache, LeaderEpochCheckpoint
from tidelog.storage.fs import FileSystem, run_all
from tidelog.storage.log.state.deleted_segments import DeletedSegments
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.state.log_read import resolve_offset
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.log.state.log_tasks import LogTasks
from tidelog.storage.log.state.producer_state import LogProducerState
from tidelog.storage.log.state.topic_id import TopicIdFile
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
    """The log has no other replicas, so its high watermark is always the log end."""
    verifies_transactions: bool
    """A client's first batch of a transaction needs a verification guard (KIP-890)."""
    syncs_rolls: bool
    """A roll syncs the log before the new segment exists."""
    topic: TopicIdFile
    deleted: DeletedSegments
    tasks: LogTasks
    epoch_file: Lock = field(default_factory=Lock)
    """Held while the leader epochs are written; taken after all other locks."""
    dirty: set[int] = field(default_factory=set)
    """Base offsets of segments with unsynced bytes."""
    truncation_count: int = 0
    """Number of truncations of the log end."""
    written_epochs: tuple[EpochEntry, ...] = ()
    """The entries in the leader epoch file."""
    dropped_epoch: int | None = None
    """An epoch without records that loading has dropped, and that the file still has; see ``before_records``."""
    first_unstable: LogOffsetMetadata | None = None
    """The start of the first transaction that is open, or whose marker is not below the high watermark."""

    @property
    def active(self) -> LogSegment:
        return self.segments.last

    @property
    def has_unsynced(self) -> bool:
        """True if a sync has something to do: a file was written, or the recovery point is behind."""
        return (
            bool(self.dirty)
            or self.epochs_stale
            or self.producers.snapshots.has_unsynced
            or self.offsets.recovery_point < self.offsets.log_end.message_offset
        )

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Set the topic id and schedule its write. Raise InconsistentTopicIdError if the log has another id."""
        self.topic.assign(topic_id)
        if self.topic.is_unwritten:
            self.tasks.after_topic_id()

    # --- offsets ---

    def set_log_end(self, end: LogOffsetMetadata) -> None:
        self.offsets.set_log_end(end)
        if self.is_sole_replica:
            self.offsets.update_high_watermark(end)

    def move_high_watermark_to_end(self) -> None:
        """Treat all records as replicated."""
        offsets = self.offsets
        if offsets.high_watermark is not offsets.log_end:
            offsets.update_high_watermark(offsets.log_end)
            self.after_high_watermark()

    def after_high_watermark(self) -> None:
        """Remove transactions whose marker is now below the high watermark from the last stable offset's limit."""
        if self.has_no_transactions:
            return
        self.producers.state.on_high_watermark_updated(self.offsets.high_watermark.message_offset)
        self.update_first_unstable()

    @property
    def has_no_transactions(self) -> bool:
        """True if no transaction is open or waits for the replication of its marker."""
        return self.first_unstable is None and self.producers.state.transactions.is_empty

    def update_first_unstable(self) -> None:
        first = self.producers.state.first_unstable_offset()
        start = self.offsets.log_start
        if first is not None and (first.is_offset_only or first.message_offset < start):
            first = self.resolve(max(first.message_offset, start))
        self.first_unstable = first

    def resolve(self, offset: int) -> LogOffsetMetadata:
        """Return the segment and position of ``offset``, or the log end if ``offset`` is not below it."""
        return resolve_offset(self.segments, offset, self.offsets.log_end)

    def resolve_high_watermark(self) -> None:
        """Find the high watermark's segment and position if they are unknown."""
        watermark = self.offsets.high_watermark
        if watermark.is_offset_only:
            self.offsets.resolved_high_watermark(self.resolve(watermark.message_offset))

    def last_stable(self) -> LogOffsetMetadata:
        """Return the first unstable offset if it is below the high watermark, else the high watermark."""
        # The high watermark is read first: every transaction that begins below it is known by then.
        watermark = self.offsets.high_watermark
        first = self.first_unstable
        if first is None or first.message_offset >= watermark.message_offset:
            return watermark
        return self.resolve(first.message_offset) if first.is_offset_only else first

    def offset_snapshot(self) -> LogOffsetSnapshot:
        """Return the offsets. Under the lock they are consistent; without it only appends keep them so."""
        offsets = self.offsets  # read in the reverse order of an append's updates, so none is above its limit
        log_start, stable = offsets.log_start, self.last_stable()
        watermark = offsets.high_watermark
        return LogOffsetSnapshot(
            log_start=log_start, last_stable=stable, high_watermark=watermark, log_end=offsets.log_end
        )

    # --- segments ---

    def apply_config(self, config: LogConfig) -> None:
        """Apply other settings to every segment, because a truncation may make any of them active."""
        self.config = config
        self.producers.state.expiration_ms = config.producer_id_expiration_ms
        for segment in self.segments:
            segment.update_limits(config.segment_limits)

    def roll(self, base_offset: int) -> LogSegment:
        """Start a new active segment, with a producer snapshot at its base, where a recovery can begin.

        If all data is synced already, recovery begins at the new segment as soon as it exists. The old segment's last
        time index entry is therefore synced first. With ``syncs_rolls`` the data is, too, and so are the names of its
        files: a power failure must not leave the new segment without the records before it. Raise StorageError unless
        ``base_offset`` is above the active one.
        """
        if base_offset <= self.active.base_offset:
            raise StorageError(
                f"a segment cannot begin at {base_offset}, the active one begins at {self.active.base_offset}",
                path=self.directory,
            )
        self.dirty.add(self.active.base_offset)
        self.active.on_become_inactive()
        if self.syncs_rolls:
            self._sync_segments()
        elif self.offsets.synced >= base_offset:
            self.active.flush()
        segment = self.new_segment(base_offset)
        self.segments.add(segment)
        self.producers.state.map_end_offset = base_offset
        self.producers.take_snapshot()
        self.set_log_end(LogOffsetMetadata(self.offsets.log_end.message_offset, base_offset, 0))
        self.tasks.after_roll(base_offset)
        return segment

    def finish_active(self) -> None:
        """Finish the active segment before the log closes. It becomes dirty if it needs a sync."""
        if self.active.on_become_inactive():
            self.dirty.add(self.active.base_offset)

    def _sync_segments(self) -> None:
        """Sync the dirty segments and the names of all files. The recovery point stays: a flush also syncs the rest."""
        for segment in self.segments:
            if segment.base_offset in self.dirty:
                segment.flush()
        self.fs.sync_dir(self.directory)
        self.dirty.clear()

    def new_segment(self, base_offset: int) -> LogSegment:
        """Create an empty segment that is not yet part of the log."""
        self.dirty.add(base_offset)
        return LogSegment.create(
            self.fs, self.directory, base_offset, self.config.segment_limits, now_ms=self.clock.now_ms()
        )

    def remove_segments(self, segments: Iterable[LogSegment]) -> None:
        """Remove segments from the log. Their files and snapshots are removed after ``file.delete.delay.ms``."""
        gone = list(segments)
        self.segments.remove_all(gone)
        self._delete_files(gone)

    def replace_segments(self, gone: Sequence[LogSegment], new: Sequence[LogSegment]) -> None:
        """Replace ``gone``, whose files are already named ``.deleted`` and wait for removal, by durable segments.

        A snapshot whose base offset has no segment any longer is removed too.
        """
        self.segments.replace(gone, new)
        self.deleted.add_renamed(gone, self._due_ms)
        bases = {segment.base_offset for segment in gone}
        self._forget(bases, snapshots=bases - {segment.base_offset for segment in new})

    def reset_to_empty(self, base_offset: int) -> None:
        """Replace all segments by an empty one. Their files wait for removal as in ``remove_segments``."""
        gone = list(self.segments)
        self._delete_files(gone)
        self.segments.reset_to(self.new_segment(base_offset))

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
        """The time at which files that are deleted now may be removed."""
        return self.clock.now_ms() + self.config.file_delete_delay_ms

    def close(self) -> None:
        """Close every segment, even if one fails; then raise the first failure."""
        try:
            run_all(segment.close for segment in self.segments)
        finally:
            self.deleted.close_handlers()

    def close_handlers(self) -> None:
        for segment in self.segments:
            segment.close_handlers()
        self.deleted.close_handlers()

    # --- the directory ---

    def require_free(self, directory: Path) -> None:
        """Raise DirectoryError if another directory has that name. The log itself stays usable."""
        if directory != self.directory and self.fs.exists(directory):
            raise DirectoryError("a log cannot be renamed to an existing directory", path=directory)

    def rename(self, directory: Path, *, syncs: bool = True) -> None:
        """Rename the log's directory, which ``require_free`` has checked. Open files stay open under the new name.

        A topic is deleted by renaming its directories to ``-delete`` and removing them later. A replica moves between
        disks under the suffix ``-future``. Source: Kafka's ``LocalLog.renameDir``.
        """
        if directory == self.directory:
            return
        self.fs.rename(self.directory, directory)
        if syncs:
            for parent in {self.directory.parent, directory.parent}:
                self.fs.sync_dir(parent)
        for segment in self.segments:
            segment.set_directory(directory)
        self.deleted.moved_to(directory)
        self.producers.moved_to(directory)
        self.topic.moved_to(directory)
        # The last step: a reader whose read failed compares this path, and reads again if it changed.
        self.directory = directory

    def delete(self) -> None:
        """Remove the segments, oldest first, then all other files, then the directory.

        A crash leaves a directory with the suffix ``-delete``, or a log without its oldest segments.
        """
        self.close_handlers()
        for segment in self.segments:
            segment.delete()
        for name in self.fs.list_names(self.directory):
            self.fs.remove(self.directory / name, missing_ok=True)
        self.fs.remove_dir(self.directory)
        self.fs.sync_dir(self.directory.parent)

    # --- leader epochs ---

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` begins at ``start_offset``, if that is new; durable on return."""
        if self.epochs.assign(epoch, start_offset):
            self.write_epochs()

    def begin_epoch(self, epoch: int) -> None:
        """Note that ``epoch`` begins at the log end, if that is new. The next flush writes the file."""
        self.epochs.assign(epoch, self.offsets.log_end.message_offset)

    @property
    def epochs_stale(self) -> bool:
        """True if the leader epoch file is stale; the next flush writes it."""
        return self.epochs.entries != self.written_epochs

    def before_records(self, epoch: int | None) -> None:
        """Write files that must precede the log's next batch, which has that leader epoch.

        A crash would bring back a dropped epoch if the batches in its place had no later epoch.
        """
        self.topic.write()
        dropped, self.dropped_epoch = self.dropped_epoch, None
        if dropped is not None and (epoch is None or epoch <= dropped):
            self.write_stale_epochs()

    def write_stale_epochs(self, *, syncs_name: bool = True) -> None:
        """Write the leader epochs durably if their file is stale. Needs no log lock; precedes a recovery point move.

        Until then the file may lag. Missing entries begin above the recovery point, where loading finds them in the
        batches. Extra entries lie below the log start or at the log end, where loading removes them.
        """
        if self.epochs_stale:
            self.write_epochs(syncs_name=syncs_name)

    def write_epochs(self, *, syncs_name: bool = True) -> None:
        """Write the leader epochs; durable on return. ``syncs_name`` is that of ``write_atomically``."""
        with self.epoch_file:
            entries = self.epochs.entries
            path = self.directory / LEADER_EPOCH_CHECKPOINT
            LeaderEpochCheckpoint.write(self.fs, path, entries, syncs_name=syncs_name)
            self.written_epochs = entries
