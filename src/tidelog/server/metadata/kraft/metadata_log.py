"""The directory ``__cluster_metadata-0``: the log of the metadata records, its snapshots and leader.

The caller holds the lock of its log directory. The log manager skips this log. Each start recovers it from the
beginning, up to the first damaged batch. States::

    opened -> replayed (``replay``: the newest snapshot, then the log after it) -> leading (``lead``) -> closed

``lead`` writes the new epoch to ``quorum-state`` first, and then a control batch with the leader to the log. An append
is in the page cache. Only ``flush`` commits it: with one voter, every record on the disk is committed. After a crash,
the next opening truncates the log after its last complete batch and removes unfinished snapshots.

Snapshots replace the records that they contain. Old snapshots are deleted by ``metadata.max.retention.*``, together
with the log's segments below the oldest remaining snapshot. A log without its beginning is an error if no snapshot
covers the missing part.

Thread rule: any thread, one at a time. Source: Kafka's ``KafkaMetadataLog``, ``KafkaRaftClient``; KIP-595, KIP-630.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.kernel import scan_batches
from tidelog.model import CheckpointError, CorruptRecordError, FileMissingError, Isolation, StorageError
from tidelog.runtime import Clock, Scheduler
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.batches import (
    MAX_BATCH_BYTES,
    MetadataBatch,
    build_control,
    build_records,
    read_batches,
)
from tidelog.server.metadata.kraft.quorum import ControlRecord
from tidelog.server.metadata.kraft.snapshot import (
    DELETED_SUFFIX,
    build_snapshot,
    image_records,
    leftover_files,
    read_image_batches,
    read_snapshot,
    write_whole,
)
from tidelog.server.metadata.metadata_record import encode_record
from tidelog.storage.checkpoint import QuorumState
from tidelog.storage.epoch import EpochEndOffset
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.state.log_read import LogReadRequest
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY, SnapshotId, list_snapshots
from tidelog.storage.producer import AppendOrigin

METADATA_TOPIC_ID: Final = uuid.UUID(int=1)
_READ_BYTES: Final = MAX_BATCH_BYTES
_FILE_DELETE_DELAY_MS: Final = 60_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogSettings:
    """The values of Kafka's ``metadata.log.*`` and ``metadata.max.retention.*``."""

    segment_bytes: int
    segment_ms: int
    retention_bytes: int
    """The retention in bytes; a negative value means no limit."""
    retention_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        internal = config["internal.metadata.log.segment.bytes"]
        return cls(
            segment_bytes=internal if isinstance(internal, int) else config.number("metadata.log.segment.bytes"),
            segment_ms=config.number("metadata.log.segment.ms"),
            retention_bytes=config.number("metadata.max.retention.bytes"),
            retention_ms=config.number("metadata.max.retention.ms"),
        )

    @property
    def log_config(self) -> LogConfig:
        """The log's config. Snapshots decide about deletion, not the age or size of the log."""
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            retention_bytes=-1,
            retention_ms=-1,
            max_message_bytes=MAX_BATCH_BYTES,
            file_delete_delay_ms=_FILE_DELETE_DELAY_MS,
        )


class MetadataLog:
    def __init__(
        self, fs: FileSystem, log_directory: Path, settings: MetadataLogSettings, clock: Clock, scheduler: Scheduler
    ) -> None:
        """Open the log and remove the files of unfinished and deleted snapshots. Raise StorageError or
        CheckpointError."""
        self._fs = fs
        self._settings = settings
        self._clock = clock
        self._scheduler = scheduler
        self.directory = log_directory / METADATA_DIRECTORY
        state = QuorumState.read(fs, self.directory)
        self._log = PartitionLog.open(
            OpenRequest(
                fs=fs,
                directory=self.directory,
                clock=clock,
                config=settings.log_config,
                clean_shutdown=False,
                topic_id=METADATA_TOPIC_ID,
                scheduler=scheduler,
            )
        )
        for path in leftover_files(fs, self.directory):
            fs.remove(path, missing_ok=True)
        self.epoch = max(0 if state is None else state.epoch, self._log.epochs.latest or 0)
        """The epoch of the current or last leader."""
        self.past_voters = () if state is None else state.voters or ()
        """The ids of the voters from ``quorum-state`` of version 0."""
        self._last_timestamp_ms = -1
        self.replayed_bytes = 0
        """The bytes of the log after the newest snapshot."""

    # --- reading ---

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.end_offset

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def snapshots(self) -> list[SnapshotId]:
        """The snapshots at or above the log start, by offset."""
        return [found for found in list_snapshots(self._fs, self.directory) if found.offset >= self.log_start_offset]

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        """Return complete batches from ``offset`` up to ``end_offset``, at least one of any size; empty if there is
        none. Raise OffsetOutOfRangeError below the log start. Thread rule: any thread."""
        if offset >= end_offset:
            return b""
        request = LogReadRequest(start_offset=offset, max_bytes=max_bytes, isolation=Isolation.LOG_END)
        data = self._log.read(request).data()
        table = scan_batches(data)
        count = int((table.last_offset < end_offset).sum())
        return data[: int(table.position[count - 1] + table.size[count - 1])] if count else b""

    def end_of_epoch(self, epoch: int) -> EpochEndOffset:
        """Return where ``epoch``, or the largest known one below it, ends in this log."""
        found = self._log.epochs.end_offset_for(epoch)
        known = self.snapshots if found is not None and found.end_offset == self.log_start_offset else []
        if known and known[0].offset == self.log_start_offset:
            return EpochEndOffset(known[0].epoch, known[0].offset)
        return EpochEndOffset(self.epoch, self.end_offset) if found is None else found

    def read_snapshot(self, id_: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """Return a snapshot's size and the bytes from ``position`` on, or None if there is none. Thread rule: any
        thread."""
        try:
            with self._fs.open(self.directory / id_.file_name) as file:
                return file.size, file.pread(max_bytes, position)
        except FileMissingError:
            return None

    def replay(self) -> Iterator[MetadataBatch]:
        """Yield all batches by offset. The log is truncated if the newest snapshot is ahead of it. Raise
        CheckpointError if a part is missing, and CorruptRecordError if a batch is damaged."""
        start = self._log.log_start_offset
        known = self.snapshots
        newest = known[-1] if known else None
        if newest is None and start > 0:
            raise CheckpointError(
                f"the log begins at offset {start}, but no snapshot has the records before it", path=self.directory
            )
        if newest is not None:
            yield from read_image_batches(self._fs, self.directory, newest)
            if newest.offset > self.end_offset:
                self._log.truncate_fully_and_start_at(newest.offset)
            start = newest.offset
            self.epoch = max(self.epoch, newest.epoch)
        reached = start
        for data, _table in self._log.read_through(start, self.end_offset, _READ_BYTES):
            self.replayed_bytes += len(data)
            for batch in read_batches(data, start_offset=start):
                self._last_timestamp_ms = batch.timestamp_ms
                reached = batch.last_offset + 1
                yield batch
        if reached < self.end_offset:
            raise CorruptRecordError(f"the log ends before {self.end_offset}", path=self.directory, offset=reached)

    # --- writing ---

    def become_leader(self, voters: Sequence[int] | None, records: Sequence[ControlRecord]) -> None:
        """Begin an epoch above all earlier ones, with ``records`` as its first records.

        ``voters`` is set if they are not in the log (``kraft.version`` 0).
        """
        self.epoch += 1
        node_id = records[0].fields["leaderId"]
        QuorumState(leader_id=node_id, epoch=self.epoch, voters=None if voters is None else tuple(voters)).write(
            self._fs, self.directory
        )
        now_ms = self._clock.now_ms()
        self._append(build_control(records, base_offset=self.end_offset, epoch=self.epoch, now_ms=now_ms), now_ms)

    def append(self, values: Sequence[bytes]) -> None:
        """Append encoded records as one batch. Only ``flush`` commits it. A StorageError fails the log."""
        now_ms = self._clock.now_ms()
        self._append(build_records(values, base_offset=self.end_offset, epoch=self.epoch, now_ms=now_ms), now_ms)

    def _append(self, batch: bytearray, now_ms: int) -> None:
        self._log.append_as_leader(batch, leader_epoch=self.epoch, origin=AppendOrigin.RAFT_LEADER)
        self._last_timestamp_ms = now_ms

    def flush(self) -> None:
        """Flush all appended records to the disk."""
        self._log.flush()

    def close(self) -> None:
        """Close the log; idempotent."""
        self._log.close()

    # --- snapshots ---

    @property
    def snapshot_id(self) -> SnapshotId:
        """The id of a snapshot of all current records."""
        return SnapshotId(self.end_offset, self.epoch)

    @property
    def last_timestamp_ms(self) -> int:
        """The timestamp of the last record."""
        return self._last_timestamp_ms

    def write_snapshot(
        self, id_: SnapshotId, image: MetadataImage, quorum: Sequence[ControlRecord], last_timestamp_ms: int
    ) -> None:
        """Write a snapshot of an image, which is durable on return, then delete old ones. A failure is logged: the next
        snapshot may succeed."""
        try:
            self._write_snapshot(id_, image, quorum, last_timestamp_ms)
        except StorageError as error:
            _log.error("A snapshot of the cluster metadata could not be written: %s", error)

    def _write_snapshot(
        self, id_: SnapshotId, image: MetadataImage, quorum: Sequence[ControlRecord], last_timestamp_ms: int
    ) -> None:
        values = [encode_record(record, image.metadata_version) for record in image_records(image)]
        data = build_snapshot(
            values,
            epoch=id_.epoch,
            last_timestamp_ms=last_timestamp_ms,
            now_ms=self._clock.now_ms(),
            quorum=quorum,
        )
        write_whole(self._fs, self.directory / id_.file_name, data)
        _log.info("Wrote snapshot %s of %d records", id_.file_name, len(values))
        self.clean()

    def clean(self) -> None:
        """Delete the oldest snapshots, and the log below the oldest remaining one, while they exceed the retention."""
        while True:
            known = self.snapshots
            if len(known) < 2 or not self._is_due(known):
                return
            self._log.maybe_increment_log_start_offset(known[1].offset)
            self._log.delete_old_segments()
            self._delete(known[0])

    def _is_due(self, known: Sequence[SnapshotId]) -> bool:
        sizes = self._fs.list_sizes(self.directory)
        total = self._log.size + sum(sizes[one.file_name] for one in known)
        if 0 <= self._settings.retention_bytes < total:
            return True
        age_ms = self._clock.now_ms() - self._taken_at_ms(known[0])
        return 0 <= self._settings.retention_ms < age_ms

    def _taken_at_ms(self, id_: SnapshotId) -> int:
        header = read_snapshot(self._fs, self.directory / id_.file_name)[0].control_records[0]
        return int(header.fields["lastContainedLogTimestamp"])

    def _delete(self, id_: SnapshotId) -> None:
        path = self.directory / id_.file_name
        deleted = path.with_name(path.name + DELETED_SUFFIX)
        self._fs.rename(path, deleted)
        _log.info("Deleted snapshot %s", path.name)

        def remove() -> None:
            try:
                self._fs.remove(deleted, missing_ok=True)
            except StorageError as error:
                _log.warning("%s", error)

        self._scheduler.schedule("delete-snapshot-files", remove, delay_ms=_FILE_DELETE_DELAY_MS)
