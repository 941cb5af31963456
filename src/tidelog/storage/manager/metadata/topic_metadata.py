"""The settings, replicas and leaders of topics, read from a broker's copy of the cluster metadata.

Recovery needs them because ``index.interval.bytes`` decides the bytes of an index, and the disk holds a topic's
settings nowhere else. ``cluster_metadata_log`` reads the log. These records are read, and all others skipped:
TopicRecord, RemoveTopicRecord, PartitionRecord, PartitionChangeRecord (replicas, leader, in-sync replicas),
ConfigRecord of topics and brokers.
The server's ``MetadataImage`` has all records. Source: Kafka's metadata records (KIP-631).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidelog import kernel
from tidelog.config.topic_settings import topic_texts
from tidelog.kernel import RecordColumns
from tidelog.model import CorruptRecordError, TopicPartition, UnsupportedCompressionError
from tidelog.record.decode import decode_columns, iter_records
from tidelog.record.internal_records.frames import decode_framed
from tidelog.record.internal_records.metadata_tables import METADATA_TYPES
from tidelog.storage.checkpoint import uuid_from_text
from tidelog.storage.fs import FileSystem, read_whole
from tidelog.storage.manager.metadata.cluster_metadata_log import (
    METADATA_DIRECTORY,
    list_snapshots,
    read_log_chunks,
    valid_batches,
)
from tidelog.storage.segment.segment_reader import Chunk

_SAME_LEADER: Final = -2
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4


@dataclass(slots=True)
class TopicMetadata:
    """``topic_settings`` holds Kafka's keys and texts. ``replicas`` holds broker ids."""

    topic_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """Settings by broker id as text. The key "" holds the cluster-wide defaults."""
    replicas: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    leaders: dict[TopicPartition, int] = field(default_factory=dict)
    """The leader's broker id; a partition without a leader is not included."""
    in_sync: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    """Topic ids as text, by topic name."""
    newer_records: set[str] = field(default_factory=set)
    """Types and versions of records that this release does not know. Settings may be missing."""
    epoch: int = -1
    """The largest epoch of a batch or a snapshot's name. With ``end_offset`` it tells which of two copies is newer."""
    end_offset: int = 0
    _names: dict[str, str] = field(default_factory=dict)
    """Topic names by topic id."""

    def settings_of(self, topic: str, node_id: int | None = None) -> dict[str, str]:
        """Return a topic's settings over the broker's over the cluster's, in topic keys."""
        broker = {**self.broker_settings.get("", {}), **self.broker_settings.get(str(node_id), {})}
        defaults = {key: found.text for key, found in topic_texts(broker).items()}
        return defaults | self.topic_settings.get(topic, {})

    def topic_id(self, topic: str) -> uuid.UUID | None:
        text = self.topic_ids.get(topic)
        return None if text is None else uuid_from_text(text)

    def is_only_replica(self, partition: TopicPartition) -> bool:
        return len(self.replicas.get(partition, ())) == 1

    def apply(self, name: str, fields: Mapping[str, Any]) -> None:
        """Apply one metadata record."""
        match name:
            case "TopicRecord":
                self._names[fields["topicId"]] = fields["name"]
                self.topic_ids[fields["name"]] = fields["topicId"]
            case "PartitionRecord" | "PartitionChangeRecord":
                self._set_partition(fields)
            case "RemoveTopicRecord":
                topic = self._names.pop(fields["topicId"], None)
                self.replicas = {key: value for key, value in self.replicas.items() if key.topic != topic}
                self.leaders = {key: value for key, value in self.leaders.items() if key.topic != topic}
                self.in_sync = {key: value for key, value in self.in_sync.items() if key.topic != topic}
                if topic is not None:
                    self.topic_ids.pop(topic, None)
                    self.topic_settings.pop(topic, None)
            case "ConfigRecord":
                self._set_config(fields)

    def _set_partition(self, fields: Mapping[str, Any]) -> None:
        """Set the fields that a PartitionRecord or a PartitionChangeRecord has."""
        topic = self._names.get(fields["topicId"])
        if topic is None:
            return
        partition = TopicPartition(topic, fields["partitionId"])
        if fields.get("replicas") is not None:
            self.replicas[partition] = tuple(fields["replicas"])
        if fields.get("isr") is not None:
            self.in_sync[partition] = tuple(fields["isr"])
        leader = fields.get("leader", _SAME_LEADER)
        if leader >= 0:
            self.leaders[partition] = leader
        elif leader != _SAME_LEADER:
            self.leaders.pop(partition, None)

    def _set_config(self, fields: Mapping[str, Any]) -> None:
        resources = {_TOPIC_RESOURCE: self.topic_settings, _BROKER_RESOURCE: self.broker_settings}.get(
            fields["resourceType"]
        )
        if resources is None:
            return
        settings = resources.setdefault(fields["resourceName"], {})
        if fields["value"] is None:
            settings.pop(fields["name"], None)
        else:
            settings[fields["name"]] = fields["value"]


def read_topic_metadata(fs: FileSystem, log_directory: Path) -> TopicMetadata:
    """Read the metadata, empty if there is no metadata log. Damage ends the reading and is never an error."""
    metadata = TopicMetadata()
    directory = log_directory / METADATA_DIRECTORY
    if fs.exists(directory):
        with suppress(CorruptRecordError, UnsupportedCompressionError):  # a batch with a valid CRC and invalid records
            _read_into(metadata, fs, directory)
    return metadata


def _read_into(metadata: TopicMetadata, fs: FileSystem, directory: Path) -> None:
    next_offset = 0
    snapshots = list_snapshots(fs, directory)
    if snapshots:
        next_offset, metadata.epoch = snapshots[-1]
        metadata.end_offset = next_offset
        data = memoryview(read_whole(fs, directory / snapshots[-1].file_name))
        _apply_all(metadata, Chunk(data, valid_batches(kernel.scan_batches(data)), 0), 0)
    for chunk in read_log_chunks(fs, directory):
        summary = chunk.table.summary
        metadata.epoch = max(metadata.epoch, summary.leader_epoch)
        metadata.end_offset = max(metadata.end_offset, summary.last_offset + 1)
        _apply_all(metadata, chunk, next_offset)


def _apply_all(metadata: TopicMetadata, chunk: Chunk, start_offset: int) -> None:
    """Apply the data records at or above ``start_offset``."""
    for value in _record_values(chunk, start_offset):
        try:
            record = decode_framed(METADATA_TYPES, value)
        except CorruptRecordError:
            continue
        if record.name is not None and record.fields is not None:
            metadata.apply(record.name, record.fields)
        else:
            metadata.newer_records.add(f"{record.name or f'type {record.number}'}, version {record.version}")


def _record_values(chunk: Chunk, start_offset: int) -> Iterator[bytes]:
    table = chunk.table
    rows = table.take(~table.is_control & (table.last_offset >= start_offset))
    decoder = kernel.ColumnDecoder(keys=False, headers=False, start_offset=start_offset)
    try:
        for columns in decode_columns(chunk.buffer, rows, decoder, base_position=chunk.base_position):
            yield from _values(columns)
    except (CorruptRecordError, UnsupportedCompressionError):
        yield from _values(decoder.finish())  # the batches before the damage
        raise


def _values(columns: RecordColumns) -> Iterator[bytes]:
    return (record.value for record in iter_records(columns) if record.value is not None)
