"""Builder of several brokers' log directories, with the batches, epochs and metadata that a test defines.

``log_maker`` writes the segments. A cluster has one topic ``t`` unless a test names others.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from log_maker import batch, mark_clean, write_checkpoint, write_segment
from tidelog.server.metadata.features import NEW_CLUSTER
from tidelog.server.metadata.image import METADATA_VERSION
from tidelog.server.metadata.metadata_record import MetadataRecord, encode_record
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.storage.checkpoint import uuid_to_text
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCheckpoint

CLUSTER_ID = "cluster-of-tests"


def topic_id(topic: str) -> uuid.UUID:
    return uuid.UUID(int=7_000 + int.from_bytes(topic.encode()))


def directory_id(node_id: int) -> uuid.UUID:
    return uuid.UUID(int=9_000 + node_id)


def records(base_offset: int, count: int = 10, *, epoch: int = 0, tag: str = "v", key: bytes | None = b"k") -> bytes:
    """Build a batch whose values name their offsets."""
    return batch(base_offset, [b"%s-%d" % (tag.encode(), base_offset + n) for n in range(count)], epoch=epoch, key=key)


@dataclass(kw_only=True)
class MadeReplica:
    """A partition's log: segments by base offset, and its epochs with their start offsets."""

    segments: Mapping[int, Sequence[bytes]]
    epochs: Sequence[tuple[int, int]] = ((0, 0),)
    high_watermark: int | None = None
    log_start: int | None = None
    is_cleaned: bool = False


@dataclass
class ClusterMaker:
    root: Path
    paths: dict[int, Path] = field(default_factory=dict)

    def add(self, node_id: int, *, is_clean: bool = True, **replicas: MadeReplica) -> Path:
        """Write the log directory of a broker. ``replicas`` are by topic and partition with ``_`` for ``-``."""
        path = self.paths[node_id] = self.root / f"broker{node_id}"
        path.mkdir(parents=True)
        own = f"node.id={node_id}\ndirectory.id={uuid_to_text(directory_id(node_id))}\n"
        (path / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER_ID}\n{own}")
        by_name = {name.replace("_", "-"): replica for name, replica in replicas.items()}
        for name, replica in by_name.items():
            write_replica(path / name, replica)
        marks = {name: one.high_watermark for name, one in by_name.items()}
        starts = {name: one.log_start for name, one in by_name.items()}
        cleaned = {name: 1 for name, one in by_name.items() if one.is_cleaned}
        _write_known(path, "replication-offset-checkpoint", marks)
        _write_known(path, "log-start-offset-checkpoint", starts)
        _write_known(path, "cleaner-offset-checkpoint", cleaned)
        if is_clean:
            mark_clean(path)
        return path


def _write_known(path: Path, name: str, offsets: Mapping[str, int | None]) -> None:
    known = {partition: offset for partition, offset in offsets.items() if offset is not None}
    if known:
        write_checkpoint(path, name, known)


def write_replica(directory: Path, replica: MadeReplica) -> None:
    topic = directory.name.rpartition("-")[0]
    for base_offset, batches in replica.segments.items():
        write_segment(directory, base_offset, batches)
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_to_text(topic_id(topic))}")
    entries = [EpochEntry(*entry) for entry in replica.epochs]
    (directory / LEADER_EPOCH_CHECKPOINT).write_bytes(LeaderEpochCheckpoint.format(entries))


def write_metadata(
    path: Path, topics: Mapping[str, Mapping[int, PartitionState]], changes: Sequence[MetadataRecord] = ()
) -> None:
    """Write ``__cluster_metadata-0`` with these partitions by topic and number, and ``changes`` as a later batch."""
    version = NEW_CLUSTER[METADATA_VERSION]
    made = [MetadataRecord("FeatureLevelRecord", {"name": METADATA_VERSION, "featureLevel": version})]
    for topic, partitions in topics.items():
        text = uuid_to_text(topic_id(topic))
        made.append(MetadataRecord("TopicRecord", {"name": topic, "topicId": text}))
        made += [
            MetadataRecord("PartitionRecord", {**state.fields(), "topicId": text, "partitionId": partition})
            for partition, state in partitions.items()
        ]
    batches, end = [], 0
    for found in (made, changes):
        if found:
            values = [encode_record(record, version) for record in found]
            batches.append(batch(end, values, key=None, epoch=1))
            end += len(found)
    write_segment(path / "__cluster_metadata-0", 0, batches)


def change_of(topic: str, partition: int, **fields: object) -> MetadataRecord:
    """Return a change of a partition's metadata, for example of its leader."""
    place = {"topicId": uuid_to_text(topic_id(topic)), "partitionId": partition}
    return MetadataRecord("PartitionChangeRecord", {**place, **fields})


def state_of(
    *replicas: int, leader: int | None = None, isr: Sequence[int] | None = None, epoch: int = 0
) -> PartitionState:
    """Return a partition's metadata. By default all replicas are in sync, and the first one leads."""
    return PartitionState(
        replicas=replicas,
        isr=tuple(replicas if isr is None else isr),
        leader=replicas[0] if leader is None else leader,
        leader_epoch=epoch,
        directories=tuple(map(directory_id, replicas)),
    )
