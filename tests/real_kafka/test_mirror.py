"""`tidelog mirror` of three real brokers under faults: the copy is true, and brokers go on with it.

A cluster serves all tests of a module, those of its own harness and of the load too: a start costs seconds. Kafka and
`tidelog serve` start on the copy with the source's groups, settings and ACLs, and a transactional producer goes on.
They start on snapshots of the copy too, which have the records of their time.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from real_kafka.broker import BrokerError
from real_kafka.cluster import Cluster
from real_kafka.cluster_load import CODECS, GROUP, GROUP_IN_TRANSACTIONS, TOPICS
from real_kafka.copied_cluster import SMALLEST_SEGMENT, client_of, everything, go_on, partitions_of, started
from real_kafka.copy_comparison import (
    SourcePartition,
    committed_offsets,
    partition_differences,
    settings_of,
    source_partitions,
    wait_for_true_copy,
)
from real_kafka.copy_damage import COMPACTED_FAULTS, FAULTS
from real_kafka.java import KRAFT_3, NEWEST
from real_kafka.mirror_harness import (
    KEPT,
    LATER,
    LONG,
    LOSSY,
    SHORT,
    UNCOMPACTED,
    MirroredCluster,
    log_end,
    mirrored_cluster,
    produce,
)
from real_kafka.mirror_process import MirrorProcess
from real_kafka.real_crashes.test_full_disk import mounting
from real_kafka.stored_batches import batches_of_partition
from real_kafka.tools import kafka_consume
from served_records import served_until
from snapshot_checks import digests
from tidelog.record.attributes import CONTROL_FLAG, TRANSACTIONAL_FLAG, codec_name, codec_of
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE
from tidelog.testing.cluster.route import Way

pytestmark = pytest.mark.kafka

TIMES = 10


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((NEWEST, SHORT), id="short"),
        pytest.param((KRAFT_3, SHORT), id="short-3.9", marks=pytest.mark.slow),
        pytest.param((NEWEST, LONG), id="long", marks=pytest.mark.slow),
        pytest.param((KRAFT_3, LONG), id="long-3.9", marks=pytest.mark.slow),
    ],
)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    release, size = request.param
    with mirrored_cluster(tmp_path_factory.mktemp("mirror"), release, size) as made:
        yield made


def test_the_load_has_everything(source: MirroredCluster) -> None:
    cluster, load = source.cluster, source.load
    for topic in TOPICS:
        assert load.acknowledged[topic] >= load.size.turns * load.size.records, topic
    for topic, codec in CODECS.items():
        for partition in source_partitions(cluster, [topic]):
            stored = batches_of_partition(partition.directory)
            assert {codec_name(codec_of(batch.row.attributes)) for batch in stored} == {codec}
            assert len(list(partition.directory.glob("*.log"))) > 1
    for topic, has_markers in (("txn", True), ("open", False)):
        stored = batches_of_partition(source_partitions(cluster, [topic])[0].directory)
        assert any(batch.row.attributes & TRANSACTIONAL_FLAG for batch in stored)
        assert any(batch.row.attributes & CONTROL_FLAG for batch in stored) == has_markers
    offsets = committed_offsets(cluster.admin, [GROUP, GROUP_IN_TRANSACTIONS])
    assert offsets[GROUP].keys() == {f"{topic}-{number}" for topic in TOPICS for number in range(load.size.partitions)}
    assert len(offsets[GROUP_IN_TRANSACTIONS]) == load.size.partitions
    assert settings_of(cluster.admin, ["plain"])["plain"]["retention.ms"] == "864000000"


def test_the_copy_is_true_after_all_faults(source: MirroredCluster) -> None:
    wait_for_true_copy(source.cluster, source.copy, UNCOMPACTED)
    wait_for_true_copy(source.cluster, source.copy, ["compacted"], source.served)
    consumed = kafka_consume(source.cluster.direct, [f"{LOSSY}-0"])[f"{LOSSY}-0"]
    assert [record[4] for record in consumed] == [KEPT] * 50 + [LATER] * 10


def test_a_replica_is_a_true_copy_and_a_damaged_one_is_not(source: MirroredCluster, tmp_path: Path) -> None:
    """Kafka's own follower has the leader's bytes, so it is a true copy. Then each rule is broken."""
    cluster = source.cluster
    partitions = {one.directory.name: one for one in source_partitions(cluster, UNCOMPACTED)}
    partitions |= {one.directory.name: one for one in source_partitions(cluster, ["compacted"], source.served)}
    replicas = {name: wait_for_true_replica(cluster, partition) for name, partition in partitions.items()}
    for name, faults in (("plain-0", FAULTS), ("compacted-0", COMPACTED_FAULTS)):
        for fault, difference in faults.items():
            copy = Path(shutil.copytree(replicas[name], tmp_path / fault.__name__ / name))
            fault(copy)
            assert re.search(difference, "\n".join(partition_differences(copy, partitions[name]))), (name, fault)
            shutil.rmtree(copy.parent)


def wait_for_true_replica(cluster: Cluster, partition: SourcePartition) -> Path:
    """Return the follower's directory of a partition when it is a true copy."""
    topic, _, number = partition.directory.name.rpartition("-")
    state = cluster.partitions(topic)[int(number)]
    (follower,) = set(state.replicas) - {state.leader}
    replica = cluster.partition_directory(follower, topic, int(number))
    cluster.wait(f"a true replica {replica}", lambda: not [*partition_differences(replica, partition)])
    return replica


def test_only_clients_of_the_links_pass_them(source: MirroredCluster) -> None:
    """A fault of a link affects the mirror, and neither the load nor the brokers."""
    cluster = source.cluster
    links = cluster.links
    cluster.create_topic("linked", assignment=[[1, 2]])
    before = {number: dict(link.passed) for number, link in links.items()}
    produce(cluster.direct, "linked", bytes(100), 300)
    assert {number: dict(link.passed) for number, link in links.items()} == before
    produce(cluster.bootstrap, "linked", bytes(100), 300)
    passed = {number: link.passed[Way.REQUESTS] - before[number][Way.REQUESTS] for number, link in links.items()}
    assert passed[1] > 30_000
    assert passed[2] < 10_000


@pytest.fixture(scope="module")
def kafka_on_the_copy(source: MirroredCluster) -> Iterator[str]:
    """Start Kafka on a second copy, whose clients change nothing that is older than the load's end."""
    with started(second_copy(source, "kafka"), "kafka") as bootstrap:
        yield bootstrap


def second_copy(source: MirroredCluster, name: str) -> Path:
    return Path(shutil.copytree(source.copy, source.root / name / "data"))


def test_kafka_goes_on_with_the_copy(source: MirroredCluster, kafka_on_the_copy: str) -> None:
    check_broker(source, kafka_on_the_copy)


def test_tidelog_serve_goes_on_with_the_copy(source: MirroredCluster) -> None:
    with started(second_copy(source, "tidelog"), "tidelog") as bootstrap:
        check_broker(source, bootstrap)


def check_broker(source: MirroredCluster, bootstrap: str) -> None:
    assert everything(bootstrap, client_of(bootstrap), UNCOMPACTED) == source.contents
    go_on(bootstrap)


def test_a_setting_that_kafka_4_refuses_is_noted(source: MirroredCluster) -> None:
    """Kafka 3 allows segments below 1 MiB. Kafka 4 does not start with the setting."""
    size = settings_of(source.cluster.admin, ["plain"])["plain"].get("segment.bytes")
    is_refused = size is not None and int(size) < SMALLEST_SEGMENT
    assert ("Topic plain: segment.bytes is 1048576 instead of" in source.mirror_text) == is_refused


@pytest.fixture(scope="module")
def records_by_time(source: MirroredCluster, kafka_on_the_copy: str) -> dict[str, list[dict[str, object]]]:
    """Read the copy once through Kafka: the records of each partition up to each of ten times."""
    partitions = partitions_of(client_of(kafka_on_the_copy), (*TOPICS, LOSSY))
    return served_until(kafka_on_the_copy, partitions, times(source))


def times(source: MirroredCluster) -> list[int]:
    """Return ten times, the first before all records and the last after all of them."""
    length = source.ended_ms - source.begun_ms
    return [source.begun_ms + length * number // (TIMES - 1) for number in range(TIMES)]


@pytest.mark.parametrize(
    ("tenth", "kind"),
    [
        (3, "kafka"),
        (6, "tidelog"),
        *(pytest.param(number, "kafka", marks=pytest.mark.slow) for number in range(TIMES) if number != 3),
    ],
)
def test_a_snapshot_of_the_copy_has_the_records_of_its_time(
    source: MirroredCluster, records_by_time: dict[str, list[dict[str, object]]], tenth: int, kind: str
) -> None:
    expected = {name: entries[tenth] for name, entries in records_by_time.items()}
    before = source.copied_bytes
    target = source.root / f"snapshot-{tenth}-{kind}" / "data"
    target.parent.mkdir()
    tidelog.snapshot(source.copy, target, at=times(source)[tenth])
    with started(target, kind) as bootstrap:
        found = served_until(bootstrap, expected, [source.ended_ms])
    assert {name: entry for name, (entry,) in found.items()} == expected
    assert digests(source.copy) == before
    shutil.rmtree(target.parent)


def test_a_full_disk_ends_the_mirror_and_the_copy_goes_on(source: MirroredCluster) -> None:
    """The first run fills a tmpfs. The same command completes the copy after the disk has grown."""
    prefix = mounting(source.root)
    if prefix is None:
        pytest.skip("no tmpfs: `unshare --mount` and `mount` are not allowed here")
    disk, kept = source.root / "disk", source.root / "kept"
    disk.mkdir()
    size = sum(path.stat().st_size for path in source.copy.rglob("*") if path.is_file())
    mirror = " ".join(map(shlex.quote, MirrorProcess(disk / "copy", source.cluster.bootstrap).command))
    script = f"""
        mount -t tmpfs -o size={size // 2} tmpfs {disk}
        {mirror}; echo first $?
        mount -o remount,size={size * 4} {disk}
        {mirror}; echo second $?
        cp -a {disk}/copy {kept}
    """
    done = subprocess.run([*prefix, "sh", "-c", script], capture_output=True, text=True)
    assert "first 3" in done.stdout, done.stdout[-2000:] + done.stderr
    assert "no space left on the disk" in done.stderr
    assert "second 0" in done.stdout, done.stdout[-2000:] + done.stderr
    wait_for_true_copy(source.cluster, kept, UNCOMPACTED)


def test_a_stopped_broker_gives_its_leaderships_away(source: MirroredCluster) -> None:
    """The broker stays stopped; the next test starts it."""
    cluster = source.cluster
    leader = cluster.leader(LOSSY, 0)
    cluster.stop(leader)
    assert {cluster.leader(LOSSY, 0), leader} == {1, 2}
    with pytest.raises(BrokerError, match=f"node {leader} does not run"):
        cluster.stop(leader)


def test_a_source_that_lost_a_topics_records_does_not_empty_the_copy(source: MirroredCluster) -> None:
    """All replicas of a topic lose their files. The copy keeps its records until it may follow."""
    cluster, before = source.cluster, log_end(source.copy / "zstd-0")
    cluster.kill(*cluster.brokers)
    for node in cluster.brokers.values():
        for path in node.directory.glob("zstd-*/*"):
            if path.name != PARTITION_METADATA_FILE:
                path.unlink()
    cluster.restart(*cluster.brokers)
    cluster.wait("all brokers lead again", lambda: cluster.leader("zstd", 0) >= 0)
    with MirrorProcess(source.copy, cluster.bootstrap) as mirror:
        assert mirror.run_once() == 1, mirror.events
        assert "zstd-0: the source's log ends at offset 0" in mirror.text
        assert log_end(source.copy / "zstd-0") == before
        wait_for_true_copy(cluster, source.copy, set(UNCOMPACTED) - {"zstd"})
        assert mirror.run_once("--accept-data-loss") == 0, mirror.events
        wait_for_true_copy(cluster, source.copy, UNCOMPACTED)
