"""The settings and replicas of topics, read from a broker's copy of the cluster metadata.

Recovery needs them because ``index.interval.bytes`` decides the bytes of an index, and the disk holds a topic's
settings nowhere else. The first source in a log directory is the newest KRaft snapshot (``…-….checkpoint``) of
``__cluster_metadata-0``. The complete batches of its segments follow, up to the first damaged one.

These records are read, and all others skipped: TopicRecord, RemoveTopicRecord, PartitionRecord, PartitionChangeRecord
(replicas), ConfigRecord of topics and brokers. Reading changes nothing. Source: Kafka's metadata records (KIP-631).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tidelog import kernel
from tidelog.config.topic_settings import topic_texts
from tidelog.model import CorruptRecordError, DirectoryError, TopicPartition
from tidelog.record.decode import decode_columns, iter_records
from tidelog.record.internal.frames import decode_framed
from tidelog.record.internal.metadata_tables import METADATA_TYPES
from tidelog.storage.checkpoint import uuid_from_text
from tidelog.storage.fs import FileSystem, read_whole
from tidelog.storage.log.load.listing import list_partition
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.segment.segment_reader import SegmentReader

METADATA_TOPIC = "__cluster_metadata"
METADATA_DIRECTORY = "__cluster_metadata-0"

_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
SNAPSHOT_NAME = re.compile(r"(0[0-8][0-9]{18})-([01][0-9]{9})\.checkpoint")
"""The offset of the first record after the snapshot, and the last epoch in it. Only numbers in range match."""


@dataclass(slots=True)
class TopicMetadata:
    """``topic_settings`` holds Kafka's keys and texts. ``replicas`` holds broker ids."""

    topic_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """Settings by broker id as text. The key "" holds the cluster-wide defaults."""
    replicas: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    """Topic ids as text, by topic name."""
    newer_records: set[str] = field(default_factory=set)
    """Types and versions of records that this release does not know. Settings may be missing."""
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
            case "PartitionRecord":
                self._set_replicas(fields["topicId"], fields["partitionId"], fields["replicas"])
            case "PartitionChangeRecord" if fields.get("replicas") is not None:
                self._set_replicas(fields["topicId"], fields["partitionId"], fields["replicas"])
            case "RemoveTopicRecord":
                topic = self._names.pop(fields["topicId"], None)
                self.replicas = {key: value for key, value in self.replicas.items() if key.topic != topic}
                if topic is not None:
                    self.topic_ids.pop(topic, None)
                    self.topic_settings.pop(topic, None)
            case "ConfigRecord":
                self._set_config(fields)

    def _set_replicas(self, topic_id: str, partition: int, replicas: list[int]) -> None:
        topic = self._names.get(topic_id)
        if topic is not None:
            self.replicas[TopicPartition(topic, partition)] = tuple(replicas)

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


def topic_partitions(fs: FileSystem, log_dir: Path) -> Iterator[TopicPartition]:
    """Return the partitions of ``live_partitions`` without the metadata log's."""
    return (partition for partition in live_partitions(fs, log_dir) if partition.topic != METADATA_TOPIC)


def partition_for_writing(directory: Path) -> TopicPartition:
    """Return the partition of a directory name. Raise DirectoryError for an invalid name or the metadata log's."""
    partition = TopicPartition.from_directory_name(directory.name)
    if partition.topic == METADATA_TOPIC:
        raise DirectoryError("the cluster metadata belongs to its controllers", path=directory)
    return partition


def require_name(partition: TopicPartition) -> None:
    """Raise DirectoryError if the partition's directory would be another's, or outside the log directory."""
    if partition.topic == METADATA_TOPIC or TopicPartition.from_directory_name(str(partition)) != partition:
        raise DirectoryError(f"{str(partition)!r} is not the name of a partition that can be written")


def read_topic_metadata(fs: FileSystem, log_directory: Path) -> TopicMetadata:
    """Read the metadata, empty if there is no metadata log. Damage ends the reading and is never an error."""
    metadata = TopicMetadata()
    directory = log_directory / METADATA_DIRECTORY
    if not fs.exists(directory):
        return metadata
    next_offset = 0
    snapshots = sorted(name for name in fs.list_names(directory) if SNAPSHOT_NAME.fullmatch(name))
    if snapshots:
        next_offset = int(snapshots[-1].split("-")[0])
        data = memoryview(read_whole(fs, directory / snapshots[-1]))
        for value in _record_values(data, kernel.scan_batches(data), 0):
            _apply(metadata, value)
    for segment in list_partition(fs, directory).segments:
        with SegmentReader(fs, directory, segment.base_offset) as reader:
            for chunk in reader.chunks():
                for value in _record_values(chunk.buffer, chunk.table, next_offset):
                    _apply(metadata, value)
                if not chunk.table.crc_ok.all():
                    return metadata
    return metadata


def _record_values(buffer: memoryview, table: kernel.BatchTable, start_offset: int) -> Iterator[bytes]:
    """Yield the values of the data records at or above ``start_offset``, up to the first damaged batch."""
    if not table.crc_ok.all():
        table = table.take(slice(0, int(np.argmin(table.crc_ok))))
    base_position = int(table.position[0]) if len(table) else 0
    rows = table.take(~table.is_control & (table.last_offset >= start_offset))
    decoder = kernel.ColumnDecoder(keys=False, headers=False, start_offset=start_offset)
    for columns in decode_columns(buffer, rows, decoder, base_position=base_position):
        for record in iter_records(columns):
            if record.value is not None:
                yield record.value


def _apply(metadata: TopicMetadata, value: bytes) -> None:
    try:
        record = decode_framed(METADATA_TYPES, value)
    except CorruptRecordError:
        return
    if record.name is not None and record.fields is not None:
        metadata.apply(record.name, record.fields)
    else:
        metadata.newer_records.add(f"{record.name or f'type {record.number}'}, version {record.version}")
