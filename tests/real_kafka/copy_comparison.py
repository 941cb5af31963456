"""The comparison of a mirror's copy with its source, partition by partition and setting by setting.

Nothing is written to the source meanwhile. The rules:

==============  ======================================================================================================
part            rule
==============  ======================================================================================================
batches         From the log start to the high watermark both logs have the same batches, byte for byte.
compacted       Each batch of the copy equals, byte for byte, a batch that the leader served. Or the copy's own cleaner
                rewrote it: then it has the producer, epoch and last offset of a served batch, and some of its records.
                Its epoch is the leader's for these offsets. Each record that the leader has now is in the copy,
                unless the copy has a later record of the same key.
epochs          Both leader epoch caches have the same epochs in that range with the same start offsets. Compaction may
                remove an epoch's first records before they are copied, so there a start offset may be higher. It may
                be lower if a leader was killed after the compaction: it takes its epochs from the batches that are
                left, so it has no batch between the two offsets.
                A leader that is killed after DeleteRecords may come back with an earlier log start than its cache.
                Its batches tell the epochs of the offsets between them, and the copy has those.
log start       The same offset.
topic id        The same id in ``partition.metadata``.
==============  ======================================================================================================
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ConfigSource,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from real_kafka.cluster import PATIENCE_S, Cluster
from real_kafka.served_batches import ServedBatches
from real_kafka.stored_batches import StoredBatch, batches_of_partition
from tidelog.model import Record
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView

_MOST_DIFFERENCES = 5
"""The differences that are listed for one partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePartition:
    """A partition at the source: its leader's directory, and the offsets that the leader reports."""

    directory: Path
    log_start: int
    high_watermark: int
    served: Mapping[int, Sequence[StoredBatch]] | None = None
    """The batches of a compacted partition's leaders by last offset."""


def source_partitions(
    cluster: Cluster, topics: Collection[str], served: ServedBatches | None = None
) -> list[SourcePartition]:
    """Return the partitions of the topics. ``served`` makes its topics compacted ones."""
    found = []
    for topic in topics:
        for number, state in cluster.partitions(topic).items():
            place = KafkaPartition(topic, number)
            start, end = (
                cluster.admin.list_offsets({place: spec})[place].result(PATIENCE_S).offset
                for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
            )
            directory = cluster.partition_directory(state.leader, topic, number)
            batches = None if served is None else served.of(directory.name)
            found.append(
                SourcePartition(directory=directory, log_start=start, high_watermark=end, served=batches or None)
            )
    return found


def wait_for_true_copy(
    cluster: Cluster,
    copy: Path,
    topics: Collection[str],
    served: ServedBatches | None = None,
    timeout_s: float = PATIENCE_S,
) -> list[SourcePartition]:
    """Return the partitions when the copy has no difference. Raise AssertionError with the differences in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        partitions = source_partitions(cluster, topics, served)
        differences = copy_differences(copy, partitions)
        if not differences:
            return partitions
        if time.monotonic() > deadline:
            raise AssertionError("\n".join(differences))
        time.sleep(0.1)


def copy_differences(copy: Path, partitions: Collection[SourcePartition]) -> list[str]:
    """Return the differences between a copy and its source, none if it is true."""
    return [
        f"{partition.directory.name}: {difference}"
        for partition in partitions
        for difference in _first(partition_differences(copy / partition.directory.name, partition))
    ]


def _first(differences: Iterator[str]) -> Iterator[str]:
    for number, difference in enumerate(differences):
        if number == _MOST_DIFFERENCES:
            yield "…"
            return
        yield difference


def partition_differences(copy: Path, source: SourcePartition) -> Iterator[str]:
    """Yield the differences of one partition by the module's rules."""
    if not copy.is_dir():
        yield "missing"
        return
    view = LogView(LOCAL, copy)
    if (view.log_start, view.log_end) != (source.log_start, source.high_watermark):
        yield f"[{view.log_start}, {view.log_end}) instead of [{source.log_start}, {source.high_watermark})"
        return
    ids = [PartitionMetadata.read(LOCAL, path / PARTITION_METADATA_FILE) for path in (copy, source.directory)]
    if ids[0] != ids[1]:
        yield f"{ids[0]} instead of {ids[1]}"
    ours, theirs = ([*_in_range(path, source)] for path in (copy, source.directory))
    yield from _epoch_differences(copy, source, theirs)
    if source.served is None:
        yield from _byte_differences(ours, theirs)
    else:
        yield from _compacted_differences(ours, theirs, source)


def _in_range(directory: Path, source: SourcePartition) -> Iterator[StoredBatch]:
    for batch in batches_of_partition(directory):
        if batch.row.last_offset >= source.log_start and batch.row.base_offset < source.high_watermark:
            yield batch


def _byte_differences(ours: Sequence[StoredBatch], theirs: Sequence[StoredBatch]) -> Iterator[str]:
    for our, their in zip_longest(ours, theirs):
        if our is None or their is None or our.data != their.data:
            yield f"{our} instead of {their}"


def _compacted_differences(
    ours: Sequence[StoredBatch], theirs: Sequence[StoredBatch], source: SourcePartition
) -> Iterator[str]:
    assert source.served is not None
    entries = LeaderEpochCheckpoint.read(LOCAL, source.directory / LEADER_EPOCH_CHECKPOINT)
    for batch in ours:
        versions = source.served.get(batch.row.last_offset, ())
        if not any(batch.data == version.data for version in versions) and not any(
            batch.owner == version.owner and set(map(_key, batch.records())) <= set(map(_key, version.records()))
            for version in versions
        ):
            yield f"{batch} is none that the leader served"
        epoch = max((entry.epoch for entry in entries if entry.start_offset <= batch.row.base_offset), default=-1)
        if epoch >= 0 and batch.row.leader_epoch != epoch:
            yield f"{batch} where the leader has epoch {epoch}"
    copied = {record.offset: _key(record) for batch in ours for record in batch.records()}
    last_of_key = {record.key: record.offset for batch in ours for record in batch.records()}
    for batch in theirs:
        for record in batch.records():
            if copied.get(record.offset, _key(record)) != _key(record):
                yield f"another record at offset {record.offset}"
            elif record.offset not in copied and last_of_key.get(record.key, -1) < record.offset:
                yield f"the record at offset {record.offset} is missing"


def _key(record: Record) -> tuple[object, ...]:
    """Return the parts of a record that compaction keeps."""
    return record.offset, record.timestamp, record.key, record.value, tuple(record.headers)


def _epoch_differences(copy: Path, source: SourcePartition, batches: Sequence[StoredBatch]) -> Iterator[str]:
    ours, theirs = (_epochs(path, source.log_start, source.high_watermark) for path in (copy, source.directory))
    theirs |= _forgotten_epochs(batches, source.log_start, min(theirs.values(), default=source.high_watermark))

    def may_begin(start: int, leaders: int) -> bool:
        if source.served is None or start == leaders:
            return start == leaders
        return start > leaders or not any(start <= batch.row.base_offset < leaders for batch in batches)

    if ours.keys() != theirs.keys() or not all(may_begin(start, theirs[epoch]) for epoch, start in ours.items()):
        yield f"epochs {ours} instead of {theirs}"


def _epochs(directory: Path, log_start: int, high_watermark: int) -> dict[int, int]:
    """Return the start offset of each epoch that has offsets in the range."""
    entries = LeaderEpochCheckpoint.read(LOCAL, directory / LEADER_EPOCH_CHECKPOINT)
    ends = [entry.start_offset for entry in entries[1:]] + [high_watermark] * bool(entries)
    return {
        entry.epoch: max(entry.start_offset, log_start)
        for entry, end in zip(entries, ends, strict=True)
        if max(entry.start_offset, log_start) < min(end, high_watermark)
    }


def _forgotten_epochs(batches: Sequence[StoredBatch], log_start: int, cache_start: int) -> dict[int, int]:
    """Return the start offsets of the epochs that the batches below the leader epoch cache have."""
    starts: dict[int, int] = {}
    for batch in batches:
        if batch.row.base_offset < cache_start:
            starts.setdefault(batch.row.leader_epoch, max(batch.row.base_offset, log_start))
    return starts


def settings_of(admin: AdminClient, topics: Collection[str]) -> dict[str, dict[str, str | None]]:
    """Return the settings of each topic itself, without defaults."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    return {
        resource.name: {
            key: entry.value
            for key, entry in described.result(PATIENCE_S).items()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        for resource, described in admin.describe_configs(resources).items()
    }


def acls_of(admin: AdminClient) -> list[str]:
    """Return all ACLs as sorted texts."""
    every = AclBindingFilter(  # its stub does not know that None stands for any name
        ResourceType.ANY,
        None,  # type: ignore[arg-type]
        ResourcePatternType.ANY,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    return sorted(str(entry) for entry in admin.describe_acls(every).result(PATIENCE_S))


def committed_offsets(admin: AdminClient, groups: Collection[str]) -> dict[str, dict[str, tuple[int, str]]]:
    """Return each group's committed offsets and metadata by ``topic-partition``."""
    found = {}
    for group in groups:
        asked = ConsumerGroupTopicPartitions(group)
        places = admin.list_consumer_group_offsets([asked])[group].result(PATIENCE_S).topic_partitions
        found[group] = {
            f"{place.topic}-{place.partition}": (place.offset, place.metadata or "")
            for place in places
            if place.offset >= 0
        }
    return found
