"""The cluster metadata's log ``__cluster_metadata-0``: its names, its snapshots, and a reader of its batches.

The log belongs to the controller, and only the controller may write it. All other parts of this room skip it. A reader
takes the newest snapshot (``OFFSET-EPOCH.checkpoint``) first, and then the segments' complete batches from its offset
on, up to the first damaged batch. Reading changes nothing. Source: Kafka's ``Snapshots``; KIP-630, KIP-631.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np

from tidelog.kernel import BatchTable
from tidelog.model import DirectoryError, TopicPartition
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.listing import list_partition
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.segment.segment_reader import Chunk, SegmentReader

METADATA_DIRECTORY: Final = f"{CLUSTER_METADATA_TOPIC}-0"
_SNAPSHOT_NAME: Final = re.compile(r"(0[0-8][0-9]{18})-([01][0-9]{9})\.checkpoint")
"""Only numbers in range match."""


class SnapshotId(NamedTuple):
    """The name of a snapshot: the offset of the first record after it, and the epoch of its last record."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.offset:020}-{self.epoch:010}.checkpoint"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the id, or None if the name is not a snapshot's."""
        match = _SNAPSHOT_NAME.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2]))


def list_snapshots(fs: FileSystem, directory: Path) -> list[SnapshotId]:
    """Return the ids of the complete snapshots, sorted by offset and epoch."""
    found = (SnapshotId.parse(name) for name in fs.list_names(directory))
    return sorted(one for one in found if one is not None)


def read_log_chunks(fs: FileSystem, directory: Path) -> Iterator[Chunk]:
    """Yield the log's batches from its start up to the first damaged batch."""
    for segment in list_partition(fs, directory).segments:
        with SegmentReader(fs, directory, segment.base_offset) as reader:
            for chunk in reader.chunks():
                valid = valid_batches(chunk.table)
                yield chunk._replace(table=valid)
                if len(valid) < len(chunk.table):
                    return


def valid_batches(table: BatchTable) -> BatchTable:
    """Return the rows before the first batch with a wrong CRC."""
    return table if table.crc_ok.all() else table.take(slice(0, int(np.argmin(table.crc_ok))))


def topic_partitions(fs: FileSystem, log_dir: Path) -> Iterator[TopicPartition]:
    """Return the partitions of ``live_partitions`` without the metadata log's."""
    return (partition for partition in live_partitions(fs, log_dir) if partition.topic != CLUSTER_METADATA_TOPIC)


def partition_for_writing(directory: Path) -> TopicPartition:
    """Return the partition of a directory name. Raise DirectoryError for an invalid name or the metadata log's."""
    partition = TopicPartition.from_directory_name(directory.name)
    if partition.topic == CLUSTER_METADATA_TOPIC:
        raise DirectoryError("the cluster metadata belongs to its controllers", path=directory)
    return partition


def require_name(partition: TopicPartition) -> None:
    """Raise DirectoryError if the partition's directory would be another's, or outside the log directory."""
    if partition.topic == CLUSTER_METADATA_TOPIC or TopicPartition.from_directory_name(str(partition)) != partition:
        raise DirectoryError(f"{str(partition)!r} is not the name of a partition that can be written")
