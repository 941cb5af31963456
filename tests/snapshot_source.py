"""A log directory for tests of snapshots, written batch by batch, with every record noted in a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snapshot_checks import UNSYNCED, Seen
from tidelog.model import Record, TimestampType, TopicPartition
from tidelog.record.build import build_batch, build_end_transaction_batch, sequence_after
from tidelog.record.control import EndTransactionMarker
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.directory.owned_directory import OwnedDirectory
from tidelog.storage.producer import AppendOrigin
from tidelog.testing import ManualClock

T0 = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=64, producer_id_expiration_ms=2**31 - 1)


@dataclass
class SourceLog:
    """A partition: its open log, all records ever appended, and the offsets of those in transactions."""

    log: PartitionLog
    clock: ManualClock
    appended: list[Seen] = field(default_factory=list)
    transactional: set[int] = field(default_factory=set)
    sequences: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.log.end_offset

    @property
    def seen(self) -> list[Seen]:
        """The records that are not deleted."""
        return [record for record in self.appended if record.offset >= self.log.log_start_offset]

    def append(
        self,
        timestamps: Sequence[int],
        *,
        codec: str = "none",
        producer_id: int = -1,
        transactional: bool = False,
        keys: Sequence[bytes | None] | None = None,
        values: Sequence[bytes | None] | None = None,
        leader_epoch: int = 0,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> range:
        """Append a batch with a record for each timestamp."""
        start = self.end
        keys = [b"k%d" % (number % 3) for number in range(len(timestamps))] if keys is None else keys
        values = [b"v%d" % (start + number) for number in range(len(timestamps))] if values is None else values
        records = [
            Record(number, timestamp, TimestampType.CREATE, key, value, ())
            for number, (timestamp, key, value) in enumerate(zip(timestamps, keys, values, strict=True))
        ]
        producer: dict[str, Any] = {}
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence_after(sequence, len(records))
            epoch = self.epochs.setdefault(producer_id, 0)
            producer = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        batch = build_batch(records, codec=codec, transactional=transactional, **producer)
        self.log.append_as_leader(batch, leader_epoch=leader_epoch, origin=origin)
        is_append_time = self.log.config.message_timestamp_type == "LogAppendTime"
        for record in records:
            if transactional:
                self.transactional.add(start + record.offset)
            self.appended.append(
                Seen(
                    start + record.offset,
                    self.clock.now_ms() if is_append_time else record.timestamp,
                    int(is_append_time),
                    record.key,
                    record.value,
                    (),
                    producer_id,
                    False,
                )
            )
        return range(start, self.end)

    def end_transaction(self, producer_id: int, *, committed: bool, timestamp: int) -> None:
        """Append a marker with the producer's epoch."""
        marker = EndTransactionMarker(committed=committed, coordinator_epoch=0)
        offset = self.end
        batch = build_end_transaction_batch(
            marker,
            base_offset=0,
            timestamp=timestamp,
            producer_id=producer_id,
            producer_epoch=self.epochs.setdefault(producer_id, 0),
        )
        self.log.append_as_leader(batch, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
        is_append_time = self.log.config.message_timestamp_type == "LogAppendTime"
        time = self.clock.now_ms() if is_append_time else timestamp
        self.appended.append(
            Seen(offset, time, int(is_append_time), marker.key(), marker.value(), (), producer_id, True)
        )

    def delete_before(self, offset: int) -> None:
        """Move the log start, as DeleteRecords does."""
        self.log.maybe_increment_log_start_offset(offset)
        self.log.delete_old_segments()


class Source:
    """A log directory that this process holds until ``finish``."""

    def __init__(self, path: Path, fs: FileSystem = UNSYNCED, *, now_ms: int = T0) -> None:
        fs.make_dir(path)
        self.path = path
        self.fs = fs
        self.clock = ManualClock(now_ms)
        self.owned = OwnedDirectory(fs, path)
        self.owned.mark_open()
        self.logs: dict[TopicPartition, SourceLog] = {}

    def log(self, name: str, config: LogConfig = SMALL) -> SourceLog:
        """Open the log of a TOPIC-PARTITION."""
        partition = TopicPartition.from_directory_name(name)
        if partition not in self.logs:
            request = OpenRequest(
                fs=self.fs,
                directory=self.path / name,
                clock=self.clock,
                config=config,
                clean_shutdown=self.owned.was_clean,
                recovery_point=self.owned.recovery_points.get(partition, 0),
                log_start_offset=self.owned.log_starts.get(partition, 0),
            )
            self.logs[partition] = SourceLog(PartitionLog.open(request), self.clock)
        return self.logs[partition]

    def finish(self, *, clean: bool = True, high_watermarks: dict[str, int] | None = None) -> None:
        """Close the logs and release the directory, without a marker and checkpoints if not ``clean``."""
        for partition, source in self.logs.items():
            log = source.log
            ends = (log.log_start_offset, log.end_offset, log.starts_inside_segment)
            if clean:
                log.close()
            else:
                log.close_handlers()
            start, end, is_inside = ends
            if clean:
                self.owned.recovery_points[partition] = end
            if is_inside:
                self.owned.log_starts[partition] = start
            self.owned.high_watermarks[partition] = (high_watermarks or {}).get(str(partition), end)
        self.owned.write(
            "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"
        )
        if clean:
            self.owned.mark_clean(-1)
        self.owned.release()
