"""The load and the comparison for mirrors: everything is written, and each kind of difference is found.

The copy is a replica: Kafka's own follower has the leader's bytes, so it is a true copy. Then each rule is broken.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from real_kafka.cluster import Cluster
from real_kafka.cluster_load import CODECS, GROUP, GROUP_IN_TRANSACTIONS, TOPICS, Load
from real_kafka.copy_comparison import (
    committed_offsets,
    partition_differences,
    settings_of,
    source_partitions,
    wait_for_true_copy,
)
from real_kafka.served_batches import ServedBatches
from real_kafka.stored_batches import StoredBatch, batches_of_file, batches_of_partition
from tidelog.kernel import crc32c
from tidelog.record.attributes import CONTROL_FLAG, TRANSACTIONAL_FLAG, codec_name, codec_of
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT

pytestmark = pytest.mark.kafka

BASE_TIMESTAMP_END = 35


def remove_batch(copy: Path) -> None:
    """Remove the second batch of the last segment with two."""
    path, batches = last_with_two(copy)
    path.write_bytes(b"".join(batch.data for number, batch in enumerate(batches) if number != 1))


def change_timestamps(copy: Path) -> None:
    """Change the timestamps of a batch, and its checksum with them."""
    path, batches = last_with_two(copy)
    first = bytearray(batches[0].data)
    first[BASE_TIMESTAMP_END - 1] ^= 1
    first[17:21] = crc32c(bytes(first[21:])).to_bytes(4, "big")
    path.write_bytes(bytes(first) + b"".join(batch.data for batch in batches[1:]))


def last_with_two(copy: Path) -> tuple[Path, list[StoredBatch]]:
    for path in sorted(copy.glob("*.log"), reverse=True):
        batches = list(batches_of_file(path))
        if len(batches) > 1:
            return path, batches
    raise AssertionError(f"no segment of {copy} has two batches")


def remove_end(copy: Path) -> None:
    """Remove the last batch."""
    path, batches = last_with_two(copy)
    for later in copy.glob("*.log"):
        if later > path:
            later.unlink()
    path.write_bytes(b"".join(batch.data for batch in batches[:-1]))


def change_epoch(copy: Path) -> None:
    (copy / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n7 0\n")


def change_topic_id(copy: Path) -> None:
    (copy / PARTITION_METADATA_FILE).write_bytes(PartitionMetadata(topic_id=uuid.uuid4()).to_bytes())


FAULTS: dict[Callable[[Path], None], str] = {
    remove_batch: "instead of batch",
    change_timestamps: "instead of batch",
    remove_end: r"\[\d+, \d+\) instead of",
    change_epoch: "epochs {7: 0} instead of",
    change_topic_id: "topic_id",
}
COMPACTED_FAULTS: dict[Callable[[Path], None], str] = {
    remove_batch: r"the record at offset \d+ is missing",
    change_timestamps: "is none that the leader served",
}


def test_a_replica_is_a_true_copy_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.start()
        load = Load(cluster)
        load.create_topics(assignment=[1, 2])
        with ServedBatches(cluster, ["compacted"], tmp_path / "served") as served:
            load.start()
            load.wait()
            load.finish()
        for topic in TOPICS:
            assert load.acknowledged[topic] >= load.size.turns * load.size.records, topic
        cluster.wait("retention", lambda: source_partitions(cluster, ["rolling"])[0].log_start > 0)
        cluster.wait("compaction", lambda: is_compacted(cluster, served))
        cluster.wait("DeleteRecords", lambda: is_trimmed(cluster) or load.trim())
        check_load(cluster)
        assert committed_offsets(cluster.admin, [GROUP])[GROUP].keys() == {
            f"{topic}-{number}" for topic in TOPICS for number in range(load.size.partitions)
        }
        assert len(committed_offsets(cluster.admin, [GROUP_IN_TRANSACTIONS])[GROUP_IN_TRANSACTIONS]) == 2
        assert settings_of(cluster.admin, ["plain"])["plain"]["retention.ms"] == "864000000"

        replica = cluster.brokers[2].directory
        partitions = wait_for_true_copy(cluster, replica, set(TOPICS) - {"compacted"})
        compacted = wait_for_true_copy(cluster, replica, ["compacted"], served)
        for partition, faults in ((partitions[0], FAULTS), (compacted[0], COMPACTED_FAULTS)):
            for fault, difference in faults.items():
                copy = Path(shutil.copytree(replica / partition.directory.name, tmp_path / fault.__name__ / "t-0"))
                fault(copy)
                assert re.search(difference, "\n".join(partition_differences(copy, partition))), fault.__name__
                shutil.rmtree(copy.parent)


def is_compacted(cluster: Cluster, served: ServedBatches) -> bool:
    """Return True if the cleaner has removed batches from every partition."""
    return all(
        partition.served and len(partition.served) > len(batches_of_partition(partition.directory))
        for partition in source_partitions(cluster, ["compacted"], served)
    )


def is_trimmed(cluster: Cluster) -> bool:
    """Return True if DeleteRecords has moved the log start of every partition. A busy broker may refuse it."""
    return all(partition.log_start > 0 for partition in source_partitions(cluster, ["trimmed"]))


def check_load(cluster: Cluster) -> None:
    """Check that every kind of change has happened."""
    for topic, codec in CODECS.items():
        for partition in source_partitions(cluster, [topic]):
            stored = batches_of_partition(partition.directory)
            assert {codec_name(codec_of(batch.row.attributes)) for batch in stored} == {codec}
            assert len(list(partition.directory.glob("*.log"))) > 1
    for topic, has_markers in (("txn", True), ("open", False)):
        stored = batches_of_partition(source_partitions(cluster, [topic])[0].directory)
        assert any(batch.row.attributes & TRANSACTIONAL_FLAG for batch in stored)
        assert any(batch.row.attributes & CONTROL_FLAG for batch in stored) == has_markers
