"""Three processes under load, whose leaders are killed: nothing that was acknowledged is lost."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from server.cluster.process_cluster import BROKERS, CONTROLLER, PATIENCE_S, ProcessCluster
from tidelog.api import open_directory
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode

PARTITIONS = 3


class Load:
    """A thread that produces numbered records with acks=all, and knows which were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        """The offsets and values by partition, in the order of the acknowledgements."""
        self.errors: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "retry.backoff.ms": 50,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def wait_for_more(self, count: int) -> None:
        wanted, deadline = self.count + count, time.monotonic() + PATIENCE_S
        while self.count < wanted:
            assert time.monotonic() < deadline, f"no more records are acknowledged: {self.errors}"
            time.sleep(0.02)

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            self._producer.produce("t", b"%08d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0.001)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged[message.partition()].append((message.offset(), message.value()))


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_when_leaders_are_killed(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path) as cluster:
        cluster.create_topic("t", PARTITIONS, {"min.insync.replicas": "2"})
        cluster.wait_until_in_sync("t")
        load = Load(cluster.bootstrap)
        try:
            load.wait_for_more(100)
            for number in (2, 3, CONTROLLER):
                cluster.nodes[number].kill()
                if number != CONTROLLER:  # without a controller no other leader is elected
                    load.wait_for_more(100)
                cluster.restart(number)
                load.wait_for_more(100)
                cluster.wait_until_in_sync("t")
        finally:
            load.end()
        require_nothing_lost(cluster, load)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_when_replicas_move_and_a_directory_fails(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, {"replica.high.watermark.checkpoint.interval.ms": "500"}, log_dirs=2) as cluster:
        cluster.create_topic("t", PARTITIONS, {"min.insync.replicas": "2"})
        cluster.wait_until_in_sync("t")
        load = Load(cluster.bootstrap)
        try:
            load.wait_for_more(100)
            for number in BROKERS:  # the leader and the followers of each partition
                for partition in range(PARTITIONS):
                    (target,) = set(cluster.disks(number)) - {cluster.disk_of(number, "t", partition)}
                    move(cluster, number, partition, target)
                    load.wait_for_more(20)
            cluster.wait_until_in_sync("t")
            fail_second_disk(cluster, 2, load)
        finally:
            load.end()
        require_nothing_lost(cluster, load)


def move(cluster: ProcessCluster, number: int, partition: int, target: Path) -> None:
    """Move a replica to another log directory, and wait for the end of the move."""
    with cluster.client(number) as client:
        dirs = [{"path": str(target), "topics": [{"name": "t", "partitions": [partition]}]}]
        response = client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=dirs)
        assert response.results[0].partitions[0].error_code == ErrorCode.NONE
    disks = cluster.disks(number)
    cluster.wait_for(
        f"t-{partition} of broker {number} is in {target}",
        lambda: [disk for disk in disks if (disk / f"t-{partition}").exists()] == [target],
    )


def fail_second_disk(cluster: ProcessCluster, number: int, load: Load) -> None:
    """Let a disk with leaders fail, and repair it later. The broker serves its other log directory meanwhile."""
    first, disk = cluster.disks(number)
    cluster.elect_preferred_leaders("t")
    kept = next(partition for partition, state in cluster.partitions("t").items() if state.leader != number)
    lost = set(range(PARTITIONS)) - {kept}
    for partition in range(PARTITIONS):
        target = disk if partition in lost else first
        if cluster.disk_of(number, "t", partition) != target:
            move(cluster, number, partition, target)
    assert any(cluster.partitions("t")[partition].leader == number for partition in lost)
    away = disk.with_name("unmounted")
    disk.rename(away)
    disk.touch()
    cluster.wait_for(
        "the replicas in the failed directory are out of sync",
        lambda: all(number not in cluster.partitions("t")[partition].isrs for partition in lost),
    )
    assert all(state.leader in BROKERS for state in cluster.partitions("t").values())
    assert number in cluster.partitions("t")[kept].isrs
    load.wait_for_more(100)
    assert cluster.nodes[number].is_running
    cluster.nodes[number].kill()
    disk.unlink()
    away.rename(disk)
    cluster.restart(number)
    load.wait_for_more(100)


def require_nothing_lost(cluster: ProcessCluster, load: Load) -> None:
    """Stop the cluster. The load had no error, and the replicas of each partition are equal and have its records."""
    assert not load.errors
    cluster.wait_until_in_sync("t")
    cluster.stop()
    for partition in range(PARTITIONS):
        assert len({cluster.segment_bytes(number, "t", partition) for number in BROKERS}) == 1
        require_all(cluster, partition, load.acknowledged[partition])


def require_all(cluster: ProcessCluster, partition: int, acknowledged: list[tuple[int, bytes]]) -> None:
    """Compare the records of a partition with the acknowledged ones: none is lost, doubled or out of order."""
    with open_directory(cluster.disk_of(2, "t", partition), read_only=True) as logs:
        stored = [(record.offset, record.value) for record in logs.log("t", partition).records(until="log_end")]
    values = [value or b"" for _, value in stored]
    assert values == sorted(set(values))
    missing = set(acknowledged) - set(stored)
    assert not missing, sorted(missing)[:5]
