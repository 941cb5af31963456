"""Random faults of brokers in one process: no acknowledged record is lost, and replicas are equal at the end.

A run draws from its seed: produces with acks=all, kills and clean stops, restarts, connections that fail in one
direction, brokers that the controller fences, elections, reassignments, deletions of records, and new segments. A run
that fails shows its seed and its steps. After each step, every record that a consumer could read before is still at its
offset, or deleted.

At the end all brokers run and reach each other again. Every partition comes in sync, replicas have the same bytes, and
each acknowledged record that was not deleted is there once, in the sequence of the produces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from server.cluster.local_cluster import LocalCluster
from tidelog.kernel import ColumnDecoder
from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.record.decode import decode_chunk, iter_records
from tidelog.server.metadata.requests import ElectionType, Reassignment
from tidelog.storage.log.partition_log import PartitionLog

BROKERS = (1, 2, 3)
PARTITIONS = tuple(TopicPartition("t", number) for number in range(2))
STEPS = 25
QUICK_SEEDS, SLOW_SEEDS = range(2), range(2, 302)
LAG = {"replica.lag.time.max.ms": "300", "min.insync.replicas": "2"}
TIMEOUT_MS = 1000
"""The timeout of a produce or a deletion. A request that times out has an unknown effect."""


class Story:
    """A cluster under random faults, and everything that clients know of its records."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        self.cluster = cluster
        self.random = Random(seed)
        self.steps: list[str] = []
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {one: {} for one in PARTITIONS}
        """The values by offset, in the sequence of the produces."""
        self.read: dict[TopicPartition, dict[int, bytes]] = {one: {} for one in PARTITIONS}
        """The values that consumers could read, by offset."""
        self.deleted = dict.fromkeys(PARTITIONS, 0)
        """The offsets below which a client has asked to delete records."""
        self._count = 0

    # --- steps ---

    def run(self) -> None:
        """Take the steps. Add them to the error of a broken rule."""
        actions: dict[Callable[[], str], int] = {
            self.produce: 10,
            self.kill: 2,
            self.stop: 1,
            self.start: 4,
            self.cut: 2,
            self.heal: 2,
            self.fence: 1,
            self.unfence: 2,
            self.elect: 1,
            self.reassign: 2,
            self.delete: 1,
            self.roll: 1,
        }
        try:
            for action in self.random.choices(list(actions), list(actions.values()), k=STEPS):
                self.steps.append(f"{action.__name__}: {action()}")
                self.check_readers()
            self.settle()
            self.check_end()
        except BaseException as error:
            error.add_note("\n".join(self.steps))
            raise

    def produce(self) -> str:
        partition = self.random.choice(PARTITIONS)
        leader = self.cluster.leader(partition)
        if leader not in self.cluster.brokers:
            return f"{partition} has no leader"
        values = [b"value-%d" % (self._count + number) for number in range(self.random.randint(1, 3))]
        self._count += len(values)
        found = self.cluster.try_produce(*values, partition=partition, timeout_ms=TIMEOUT_MS)
        if found.error_code == ErrorCode.NONE:
            self.acknowledged[partition].update(enumerate(values, found.base_offset))
        return f"{values} to {partition} at {leader}: {ErrorCode(found.error_code).name} at {found.base_offset}"

    def kill(self) -> str:
        return self._end(self.cluster.kill)

    def stop(self) -> str:
        return self._end(self.cluster.stop)

    def _end(self, end: Callable[[int], None]) -> str:
        if not self.cluster.brokers:
            return "no broker runs"
        node_id = self.random.choice(list(self.cluster.brokers))
        end(node_id)
        return f"broker {node_id}"

    def start(self) -> str:
        away = [node_id for node_id in BROKERS if node_id not in self.cluster.brokers]
        if not away:
            return "all brokers run"
        node_id = self.random.choice(away)
        self.cluster.start(node_id)
        return f"broker {node_id}"

    def cut(self) -> str:
        source, target = self.random.sample(BROKERS, 2)
        self.cluster.cut(source, target)
        return f"broker {source} does not reach {target}"

    def heal(self) -> str:
        node_id = self.random.choice(BROKERS)
        self.cluster.heal(node_id)
        return f"broker {node_id}"

    def fence(self) -> str:
        return self._note_at_controller(self.cluster.fence)

    def unfence(self) -> str:
        return self._note_at_controller(self.cluster.unfence)

    def _note_at_controller(self, note: Callable[[int], None]) -> str:
        node_id = self.random.choice(BROKERS)
        if node_id in self.cluster.brokers:
            note(node_id)
        return f"broker {node_id}"

    def elect(self) -> str:
        metadata = self.cluster.metadata
        self.cluster.run(lambda: metadata.elect_leaders(ElectionType.PREFERRED, PARTITIONS))
        return "preferred leaders"

    def reassign(self) -> str:
        partition = self.random.choice(PARTITIONS)
        replicas = tuple(self.random.sample(BROKERS, self.random.choice((2, 3))))
        wanted = Reassignment(*partition, self.random.choice((replicas, replicas, None)))
        (outcome,) = self.cluster.run(lambda: self.cluster.metadata.alter_reassignments([wanted]))
        return f"{partition} to {wanted.replicas}: {outcome.error.name}"

    def delete(self) -> str:
        partition = self.random.choice(PARTITIONS)
        leader, known = self.cluster.leader(partition), list(self.acknowledged[partition])
        if leader not in self.cluster.brokers or not known:
            return f"{partition} has no leader, or no record"
        offset = self.random.choice(known)
        topics = [{"name": "t", "partitions": [{"partition_index": partition.partition, "offset": offset}]}]
        self.deleted[partition] = max(self.deleted[partition], offset)
        with self.cluster.client(leader) as client:
            response = client.call(ApiKey.DELETE_RECORDS, topics=topics, timeout=TIMEOUT_MS)
        code = response.topics[0].partitions[0].error_code
        return f"{partition} below {offset}: {ErrorCode(code).name}"

    def roll(self) -> str:
        partition = self.random.choice(PARTITIONS)
        leader = self.cluster.leader(partition)
        if leader in self.cluster.brokers:
            self.cluster.call(self.cluster.log(leader, partition).roll)
        return f"{partition} at {leader}"

    # --- rules ---

    def check_readers(self) -> None:
        """Read each partition at its leader as a consumer does."""
        for partition in PARTITIONS:
            leader = self.cluster.leader(partition)
            if leader not in self.cluster.brokers:
                continue
            try:
                log = self.cluster.log(leader, partition)
                found = values_of(log, log.log_start_offset, log.high_watermark)
            except TidelogError:
                continue  # a reassignment has ended, and the log with it
            known = self.read[partition]
            for offset, value in found.items():
                assert known.setdefault(offset, value) == value, f"{partition} at {leader}: offset {offset}"

    def settle(self) -> None:
        """End the faults, and wait until every partition is in sync."""
        self.steps.append("the faults end")
        for node_id in BROKERS:
            self.cluster.heal(node_id)
            if node_id in self.cluster.brokers:
                self.cluster.unfence(node_id)
            else:
                self.cluster.start(node_id)
        topics = self.cluster.metadata.image.topics

        def is_settled() -> bool:
            return all(
                not state.is_reassigning and set(state.isr) == set(state.replicas) and state.leader in state.isr
                for state in topics["t"].partitions.values()
            )

        self.cluster.wait_for(is_settled)
        for partition in PARTITIONS:
            self.cluster.produce(b"the end", partition=partition)
            self.cluster.wait_until_equal(*self.cluster.state(partition).replicas, partition=partition)

    def check_end(self) -> None:
        for partition in PARTITIONS:
            replicas = self.cluster.state(partition).replicas
            start = max(self.cluster.log(node_id, partition).log_start_offset for node_id in replicas)
            assert start <= self.deleted[partition]
            logs = [self.cluster.log(node_id, partition) for node_id in replicas]
            assert len({bytes_of(log, start) for log in logs}) == 1, f"the replicas of {partition} differ"
            values = values_of(logs[0], start, logs[0].end_offset)
            kept = {offset: value for offset, value in self.acknowledged[partition].items() if offset >= start}
            assert kept.items() <= values.items(), f"{partition} has lost acknowledged records"
            assert list(kept) == sorted(kept), f"{partition} has acknowledged records out of order"
            assert len(set(values.values())) == len(values), f"{partition} has records twice"


def bytes_of(log: PartitionLog, start: int) -> bytes:
    """Return the batches from an offset on."""
    return b"".join(data for data, _ in log.read_through(start, log.end_offset, 1 << 20))


def values_of(log: PartitionLog, start: int, end: int) -> dict[int, bytes]:
    """Return the values of the records in a range of offsets by their offsets."""
    decoder = ColumnDecoder(start_offset=start)
    for data, table in log.read_through(start, end, 1 << 20):
        decode_chunk(data, table, decoder)
    records = iter_records(decoder.finish())
    return {record.offset: record.value or b"" for record in records if record.offset < end}


@contextmanager
def story(directory: Path, seed: int) -> Iterator[Story]:
    with LocalCluster(directory, len(BROKERS), LAG) as cluster:
        cluster.create_topic("t", [[1, 2, 3], [2, 3, 1]])
        yield Story(cluster, seed)


@pytest.mark.parametrize("seed", QUICK_SEEDS)
def test_no_acknowledged_record_is_lost(tmp_path: Path, seed: int) -> None:
    with story(tmp_path, seed) as made:
        made.run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_no_acknowledged_record_is_lost_for_long(tmp_path: Path, seed: int) -> None:
    with story(tmp_path, seed) as made:
        made.run()
