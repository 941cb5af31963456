"""A broker's machine: its simulated disk and its log directory, with crashes, starts and clean shutdowns.

A *kill* ends the process, and the page cache survives. A *power loss* also loses changes that were not synced, in any
combination that the disk allows. Both are unclean shutdowns. A start is the real one: the log directory is opened,
checkpoints are read, logs are recovered, and the marker of a clean shutdown is removed. A shutdown closes the logs,
writes the checkpoints, and writes the marker with the broker epoch last.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

from simulation.history import TOPIC
from simulation.plan import Shape
from simulation.replica import Replica
from tidelog.model import TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.fs import read_whole
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.directory.log_directory import LogDirectory, LogOpening
from tidelog.storage.segment.file_names import DirectoryPurpose, FileKind, PartitionDirectoryName
from tidelog.testing import Kept, SimulatedDisk

_ROOT = Path("/logs")
_NEVER = 1 << 60
_PREFIX = struct.Struct(">qi")
"""The base offset and the length of a batch."""
_UNIQUE_ID = "0" * 32
_INDEX_BYTES = 48
"""Preallocated indexes are small, so that a new log costs little."""


class Machine:
    def __init__(self, node_id: int, shape: Shape, clock: Clock, touched: set[int]) -> None:
        """``touched`` takes the partitions whose logs change."""
        self._node_id = node_id
        self._clock = clock
        self._touched = touched
        self._config = _config(shape)
        self.disk = SimulatedDisk(clock=clock)
        self.directory: LogDirectory | None = None
        self._crash_call: int | None = None
        self.replicas: dict[int, Replica] = {}
        self.written: dict[int, set[int]] = {}
        """The prints of all records that the machine has ever written, by partition."""

    @property
    def is_up(self) -> bool:
        return self.directory is not None

    # --- start and end ---

    def open(self) -> int | None:
        """Open the log directory. Return the broker epoch of a clean shutdown, or None."""
        self.directory = LogDirectory(self.disk, _ROOT)
        self.replicas = {}
        return self.directory.broker_epoch if self.directory.was_clean else None

    def load(self) -> None:
        """Load the logs, and remove the logs whose deletion a crash ended. A later crash is an unclean shutdown."""
        assert self.directory is not None
        for name in self.disk.list_directories(_ROOT):
            parsed = PartitionDirectoryName.parse(name)
            if parsed.purpose is DirectoryPurpose.DELETE:
                self._open_log(parsed).delete()
            else:
                self.replicas[parsed.topic_partition.partition] = self._open(parsed.topic_partition.partition)
        self.directory.mark_open()

    def shut_down(self, broker_epoch: int) -> None:
        """Shut down cleanly."""
        assert self.directory is not None
        for replica in self.replicas.values():
            replica.log.close()
        for replica in self.replicas.values():
            self.directory.note_closed(TopicPartition(TOPIC, replica.partition))
        self.directory.stop(broker_epoch=broker_epoch)
        self.directory = None

    def crash(self, lost: int | None) -> None:
        """End without warning. ``lost`` is the seed of a power loss, or None if the page cache survives."""
        self.disk = self.disk.after_crash(Kept()) if lost is None else _after_power_loss(self.disk, lost)
        self.directory, self._crash_call = None, None

    # --- replicas ---

    def create(self, partition: int) -> Replica:
        """Create the log of a partition that was assigned to the broker."""
        self.replicas[partition] = self._open(partition)
        return self.replicas[partition]

    def delete(self, partition: int) -> None:
        """Delete the log of a partition that left the broker. A renamed directory is never opened as a replica."""
        assert self.directory is not None
        topic_partition, log = TopicPartition(TOPIC, partition), self.replicas.pop(partition).log
        name = PartitionDirectoryName.of(topic_partition, DirectoryPurpose.DELETE, _UNIQUE_ID)
        log.rename(_ROOT / str(name), retires=True)
        log.delete()
        self.directory.forget(topic_partition)

    def delete_below(self, partition: int, offset: int) -> None:
        """Move the log start of a partition, and write its checkpoint before the next crash.

        Kafka writes that checkpoint once a minute. A crash in between moves the log start back, but not the epoch
        cache: records of its first epoch then lie below that epoch's start. The runs leave this out, because no rule
        of replication can repair it. docs/replication.md has the consequences.
        """
        assert self.directory is not None
        self.disk.crash_before(_NEVER)
        self.replicas[partition].delete_below(offset)
        self.directory.checkpoint_log_starts()
        if self._crash_call is not None:
            self.disk.crash_before(max(self._crash_call, len(self.disk.calls)))

    def crash_within(self, calls: int) -> None:
        """Lose the power before one of the next disk calls."""
        self._crash_call = len(self.disk.calls) + calls
        self.disk.crash_before(self._crash_call)

    def checkpoint(self) -> None:
        """Write the three checkpoints."""
        assert self.directory is not None
        self.directory.checkpoint()

    def _open(self, partition: int) -> Replica:
        log = self._open_log(PartitionDirectoryName(TopicPartition(TOPIC, partition)))
        return Replica(self._node_id, partition, log, self.written.setdefault(partition, set()), self._touched)

    def _open_log(self, name: PartitionDirectoryName) -> PartitionLog:
        assert self.directory is not None
        opening = LogOpening(clock=self._clock, is_sole_replica=False, config_of=lambda _topic: self._config)
        return self.directory.open_log(_ROOT / str(name), name, opening)


def _after_power_loss(disk: SimulatedDisk, seed: int) -> SimulatedDisk:
    """Return a disk on which no write is torn within a base offset.

    The CRC does not include the base offset. If its bytes end one sector and the batch is in the next one, a power loss
    may leave a valid batch with a lower offset. Kafka's recovery and tidelog's keep it. docs/replication.md names this
    among the limits.
    """
    while True:
        found = disk.after_crash(seed)
        if not any(_has_torn_base_offset(found, _ROOT / name) for name in found.list_directories(_ROOT)):
            return found
        seed += 1


def _has_torn_base_offset(disk: SimulatedDisk, directory: Path) -> bool:
    for name in disk.list_names(directory):
        if not name.endswith(FileKind.LOG):
            continue
        data, position, last = read_whole(disk, directory / name), 0, -1
        while position + _PREFIX.size <= len(data):
            base_offset, length = _PREFIX.unpack_from(data, position)
            if length <= 0:
                break
            if base_offset <= last:
                return True
            last, position = base_offset, position + _PREFIX.size + length
    return False


_CONFIGS: dict[tuple[int | None, int, int], LogConfig] = {}


def _config(shape: Shape) -> LogConfig:
    """Return the topic's settings. They are shared, because building them takes longer than many a run."""
    key = (shape.flush_messages, shape.segment_bytes, shape.min_isr)
    if key not in _CONFIGS:
        config = LogConfig(
            segment_bytes=shape.segment_bytes,
            segment_index_bytes=_INDEX_BYTES,
            min_insync_replicas=shape.min_isr,
            file_delete_delay_ms=0,
        )
        if shape.flush_messages is not None:
            config = replace(config, flush_messages=shape.flush_messages)
        _CONFIGS[key] = config
    return _CONFIGS[key]
