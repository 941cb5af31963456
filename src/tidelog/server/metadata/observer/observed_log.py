"""A broker's copy of the metadata log, as a ``MetadataObserver`` reads and changes it.

A fetched snapshot is written as ``….checkpoint.part``. It is checked, synced and renamed before the log is truncated,
so a crash leaves the old log or the new one. Appends are not synced: after a crash, the records are fetched again. The
next opening truncates the log after its last complete batch. ``quorum-state`` is durable before a write returns. Thread
rule: any thread, one at a time. Source: Kafka's ``KafkaMetadataLog``, ``FileQuorumStateStore``; KIP-595, KIP-630."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.model import CheckpointError, CorruptRecordError
from tidelog.protocol.fetch_response import SnapshotId as FetchedSnapshotId
from tidelog.server.metadata.kraft.batches import MAX_BATCH_BYTES, MetadataBatch, read_batches
from tidelog.server.metadata.kraft.metadata_log import MetadataLog
from tidelog.server.metadata.kraft.snapshot import PART_SUFFIX, read_image_batches, read_snapshot
from tidelog.storage.checkpoint import QuorumState
from tidelog.storage.epoch import EpochEndOffset
from tidelog.storage.fs import File
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId

if TYPE_CHECKING:
    from typing_extensions import Buffer

_log: Final = logging.getLogger(__name__)


class CommittedBatches(NamedTuple):
    batches: list[MetadataBatch]
    size: int
    """Their bytes in the log, or a few more."""


class ObservedLog(MetadataLog):
    """The log. It implements ``MetadataReplica``."""

    # --- reading by the observer ---

    @property
    def last_epoch(self) -> int:
        latest = self._log.epochs.latest
        if latest is not None:
            return latest
        newest = self.newest_snapshot
        return 0 if newest is None else newest.epoch

    def end_of_epoch(self, epoch: int) -> EpochEndOffset:
        found, snapshots = self._log.epochs.end_offset_for(epoch), self.snapshots
        if found is None:
            return EpochEndOffset(self.last_epoch, self.end_offset)
        if snapshots and (found.end_offset, found.epoch) == (snapshots[0].offset, epoch):
            return EpochEndOffset(snapshots[0].epoch, snapshots[0].offset)
        return found

    def has_snapshot(self, snapshot_id: FetchedSnapshotId) -> bool:
        return _own(snapshot_id) in self.snapshots

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        snapshots = self.snapshots
        return snapshots[-1] if snapshots else None

    # --- reading by the image ---

    def snapshot_batches(self, snapshot: SnapshotId) -> list[MetadataBatch]:
        """Return the batches of a snapshot. Raise CheckpointError if it is damaged."""
        return read_image_batches(self._fs, self.directory, snapshot)

    def committed_batches(self, start: int, end: int) -> CommittedBatches:
        """Return the next batches with records in [start, end), of about 8 MiB. ``end`` is the end of a batch. Raise
        CorruptRecordError if there is none, or if one is damaged."""
        for data, _table in self._log.read_through(start, end, MAX_BATCH_BYTES):
            batches = [batch for batch in read_batches(data, start_offset=start) if batch.last_offset < end]
            if batches:
                return CommittedBatches(batches, len(data))
        raise CorruptRecordError(f"the log ends before {end}", path=self.directory, offset=start)

    # --- changes ---

    def quorum_state(self) -> QuorumState | None:
        """Return the stored leader and epoch. Raise CheckpointError if the file cannot be read."""
        return QuorumState.read(self._fs, self.directory)

    def write_quorum_state(self, leader_id: int, epoch: int, voters: Sequence[int] | None) -> None:
        """Store the leader and the epoch. ``voters`` is None if they are in the log (``kraft.version`` 1)."""
        state = QuorumState(leader_id=leader_id, epoch=epoch, voters=None if voters is None else tuple(voters))
        state.write(self._fs, self.directory)
        self.epoch = epoch

    def append_fetched(self, records: Buffer, leader_epoch: int) -> None:
        """Append a leader's batches. Raise as ``PartitionLog.append_as_follower`` does."""
        self._log.append_as_follower(records, leader_epoch)

    def truncate_to(self, offset: int) -> None:
        self._log.truncate_to(offset)

    def update_high_watermark(self, offset: int) -> None:
        self._log.update_high_watermark(offset)

    # --- fetched snapshots ---

    def begin_snapshot(self, snapshot_id: FetchedSnapshotId) -> None:
        """Create an empty temporary file. A link with its name is removed and not followed."""
        path = self._part(snapshot_id)
        self._fs.remove(path, missing_ok=True)
        with self._fs.open(path, create=True) as file:
            file.truncate(0)

    def add_to_snapshot(self, snapshot_id: FetchedSnapshotId, position: int, data: bytes) -> None:
        with self._opened_part(snapshot_id) as file:
            file.pwrite(data, position)

    def install_snapshot(self, snapshot_id: FetchedSnapshotId, size: int) -> None:
        """Make the temporary file a snapshot, and let the log start at its end. Raise CheckpointError, and change
        nothing, if the file is not a snapshot of ``size`` bytes."""
        part, own = self._part(snapshot_id), _own(snapshot_id)
        found = self._fs.stat(part).size
        if found != size:
            raise CheckpointError(f"the snapshot has {found} bytes, but the leader's has {size}", path=part)
        read_snapshot(self._fs, part)
        with self._opened_part(snapshot_id) as file:
            file.sync()
        self._fs.rename(part, self.directory / own.file_name)
        self._fs.sync_dir(self.directory)
        older = [one for one in self.snapshots if one.offset < own.offset]
        self._log.truncate_fully_and_start_at(own.offset)
        for one in older:
            self._delete(one)
        _log.info("Installed snapshot %s of the cluster metadata, fetched from the leader", own.file_name)

    def drop_snapshot(self, snapshot_id: FetchedSnapshotId) -> None:
        """Remove the temporary file. Idempotent."""
        self._fs.remove(self._part(snapshot_id), missing_ok=True)

    def _opened_part(self, snapshot_id: FetchedSnapshotId) -> File:
        return self._fs.open(self._part(snapshot_id), create=True)

    def _part(self, snapshot_id: FetchedSnapshotId) -> Path:
        name = _own(snapshot_id).file_name
        return self.directory / f"{name}{PART_SUFFIX}"


def _own(snapshot_id: FetchedSnapshotId) -> SnapshotId:
    return SnapshotId(snapshot_id.end_offset, snapshot_id.epoch)
