"""Builder of metadata logs: batches of records with times and epochs, leader changes and snapshots, as a test lists
them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from log_maker import BASE_TIME, CONTROL, batch, write_segment
from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.record.control import ControlType, control_key
from tidelog.record.quorum import quorum_value
from tidelog.server.metadata.kraft.snapshot import build_snapshot
from tidelog.server.metadata.metadata_record import MetadataRecord, encode_record
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY, SnapshotId

VERSION = 33


def record(name: str, /, **fields: Any) -> MetadataRecord:
    return MetadataRecord(name, fields)


def topic_of(name: str, id_text: str) -> MetadataRecord:
    return record("TopicRecord", name=name, topicId=id_text)


def partition_of(id_text: str, number: int, state: PartitionState) -> MetadataRecord:
    return record("PartitionRecord", topicId=id_text, partitionId=number, **state.fields())


def change_of(id_text: str, number: int, **fields: Any) -> MetadataRecord:
    return record("PartitionChangeRecord", topicId=id_text, partitionId=number, **fields)


NO_OP = record("NoOpRecord")


@dataclass
class MetadataLogMaker:
    """The next batch's offset, time and epoch. A batch is 1 s later than the one before it."""

    log_directory: Path
    base_offset: int = 0
    epoch: int = 1
    time_ms: int = BASE_TIME
    batches: list[bytes] = field(default_factory=list)
    next_offset: int = -1

    def __post_init__(self) -> None:
        self.next_offset = self.base_offset

    def add(self, *records: MetadataRecord) -> int:
        """Add a batch, and return the offset of its first record."""
        return self.add_values([encode_record(one, VERSION) for one in records])

    def add_values(self, values: Sequence[bytes]) -> int:
        return self._add(
            batch(self.next_offset, values, key=None, epoch=self.epoch, timestamp=self.time_ms), len(values)
        )

    def add_leader(self, node_id: int, epoch: int, voters: Sequence[int] = ()) -> int:
        """Add the first record of an epoch."""
        self.epoch = epoch
        voted = [{"voterId": voter} for voter in voters or [node_id]]
        fields = {"version": 0, "leaderId": node_id, "voters": voted, "grantingVoters": voted}
        value = quorum_value(ControlType.LEADER_CHANGE, fields)
        made = batch(
            self.next_offset,
            [value],
            key=control_key(ControlType.LEADER_CHANGE),
            attributes=CONTROL,
            epoch=epoch,
            timestamp=self.time_ms,
        )
        return self._add(made, 1)

    def _add(self, made: bytes, count: int) -> int:
        offset = self.next_offset
        self.batches.append(made)
        self.next_offset += count
        self.time_ms += 1000
        return offset

    def write_snapshot(self, *records: MetadataRecord, offset: int | None = None) -> SnapshotId:
        """Write a snapshot of the given records. By default it ends at the next batch."""
        found = SnapshotId(self.next_offset if offset is None else offset, self.epoch)
        values = [encode_record(one, VERSION) for one in records]
        data = build_snapshot(values, epoch=self.epoch, last_timestamp_ms=self.time_ms, now_ms=self.time_ms)
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / found.file_name).write_bytes(data)
        return found

    @property
    def directory(self) -> Path:
        return self.log_directory / METADATA_DIRECTORY

    def write(self, *, node_id: int = 1) -> Path:
        """Write the log and ``meta.properties``, and return the path of the ``.log``."""
        path = write_segment(self.directory, self.base_offset, self.batches)
        meta = f"version=1\ncluster.id=cluster-of-tests\nnode.id={node_id}\n"
        (self.log_directory / "meta.properties").write_text(meta)
        return path


def id_of(number: int) -> str:
    """Return the text of a topic id."""
    return uuid_to_text(uuid.UUID(int=5000 + number))
