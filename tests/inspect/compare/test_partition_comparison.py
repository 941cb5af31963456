"""The verdict on a partition's replicas: the reference, states, truncations and problems."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from cluster_maker import ClusterMaker, MadeReplica, directory_id, records, topic_id
from tidelog.inspect.compare import ComparedPartition, ComparedReplica, Placement, ReplicaState, Role
from tidelog.inspect.compare.broker_directory import read_broker_directories
from tidelog.inspect.compare.cluster_comparison import compare_cluster
from tidelog.model import ConfigError, TopicPartition
from tidelog.storage.fs import LOCAL

T0 = TopicPartition("t", 0)
BATCHES = [records(0), records(10), records(20, epoch=1), records(30, epoch=1)]
EPOCHS = ((0, 0), (1, 20))


def replica(count: int, *more: bytes, high_watermark: int | None = 40, **fields: object) -> MadeReplica:
    """Return a replica with the first ``count`` batches of the leader, and other batches after them."""
    epochs = EPOCHS if count > 2 else EPOCHS[:1]
    made = {"segments": {0: [*BATCHES[:count], *more]}, "epochs": epochs, "high_watermark": high_watermark}
    return MadeReplica(**made | fields)  # type: ignore[arg-type]


def placement(*replicas: int, isr: tuple[int, ...], leader: int = 1, elr: tuple[int, ...] = ()) -> Placement:
    return Placement(
        leader=leader,
        leader_epoch=1,
        replicas=replicas,
        isr=isr,
        elr=elr,
        topic_id=topic_id("t"),
        directories={node: directory_id(node) for node in replicas},
    )


def compared(maker: ClusterMaker, known: Placement | None = None) -> ComparedPartition:
    directories = read_broker_directories(LOCAL, maker.paths.values())
    (found,) = compare_cluster(LOCAL, directories, [T0], {} if known is None else {T0: known}, threads=1)
    return found


def by_node(found: ComparedPartition) -> dict[int | None, ComparedReplica]:
    return {one.node_id: one for one in found.replicas}


def test_equal_replicas(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    for node in (1, 2, 3):
        maker.add(node, t_0=replica(4))
    found = compared(maker, placement(1, 2, 3, isr=(1, 2, 3)))
    assert [one.state for one in found.replicas] == [ReplicaState.REFERENCE, ReplicaState.EQUAL, ReplicaState.EQUAL]
    assert [one.role for one in found.replicas] == [Role.LEADER, Role.IN_SYNC, Role.IN_SYNC]
    assert (found.problems, found.committed_end) == ((), 40)


def test_a_replica_out_of_sync_may_lag_and_diverge(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2, t_0=replica(3, high_watermark=30))
    maker.add(3, t_0=replica(2, records(20, tag="w"), records(30, 5, tag="w"), high_watermark=20))
    found = by_node(compared(maker, placement(1, 2, 3, isr=(1,))))
    assert (found[2].state, found[2].lag, found[2].truncated_records) == (ReplicaState.BEHIND, 10, 0)
    third = found[3]
    assert third.truncation is not None
    assert third.difference is not None
    assert (third.state, third.role) == (ReplicaState.DIVERGED, Role.OUT_OF_SYNC)
    assert (third.truncation.offset, third.truncated_records, third.difference.offset) == (20, 15, 20)
    assert (third.reference_truncated_to, third.lag, third.problems) == (20, 5, ())


def test_an_in_sync_replica_must_have_committed_records(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2, t_0=replica(3, high_watermark=30))
    maker.add(3, t_0=replica(3, high_watermark=30))
    found = by_node(compared(maker, placement(1, 2, 3, isr=(1, 2), elr=(3,))))
    for node in (2, 3):
        (problem,) = found[node].problems
        assert "the log ends at 30, but the records below 40 are committed" in problem


def test_a_leader_that_lost_committed_records(tmp_path: Path) -> None:
    """The old leader knows which records were committed before an unclean election."""
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4, high_watermark=35))
    lost = replica(2, records(20, epoch=2, tag="w"), epochs=((0, 0), (2, 20)), high_watermark=30)
    maker.add(2, t_0=lost)
    found = compared(maker, placement(1, 2, isr=(2,), leader=2))
    assert found.reference is not None
    assert found.reference.directory.node_id == 2
    (problem,) = found.problems
    assert "its high watermark is 35" in problem
    assert "only the records below 20" in problem
    assert by_node(found)[1].truncated_records == 20


@pytest.mark.parametrize("known", [True, False])
def test_a_damaged_record_is_a_problem_for_any_replica(tmp_path: Path, known: bool) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2, t_0=replica(4))
    log = tmp_path / "broker2" / "t-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[len(BATCHES[0]) + 70] ^= 1
    log.write_bytes(data)
    found = compared(maker, placement(1, 2, isr=(1,)) if known else None)
    (problem,) = found.problems
    assert "differ from offset 10 on, and no truncation repairs it" in problem
    assert by_node(found)[2].state is ReplicaState.DIFFERENT


def test_without_metadata_a_replica_knows_its_own_high_watermark(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2, t_0=replica(3, high_watermark=40))
    maker.add(3, t_0=replica(3, high_watermark=30))
    found = by_node(compared(maker))
    assert found[1].state is ReplicaState.REFERENCE
    assert [found[2].state, found[3].state] == [ReplicaState.BEHIND, ReplicaState.BEHIND]
    assert len(found[2].problems) == 1
    assert found[3].problems == ()


def test_missing_and_not_given(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2)
    found = compared(maker, placement(1, 2, 3, isr=(1, 2, 3)))
    states = {node: one.state for node, one in by_node(found).items()}
    assert states == {1: ReplicaState.REFERENCE, 2: ReplicaState.MISSING, 3: ReplicaState.NOT_GIVEN}
    assert found.problems == ("node 2: the partition is missing, although the replica is in sync",)


def test_a_directory_of_another_disk_is_not_missing_it(tmp_path: Path) -> None:
    """A broker can have several log directories, and not all of them need to be given."""
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2)
    known = placement(1, 2, isr=(1, 2))
    elsewhere = Placement(
        leader=1, leader_epoch=1, replicas=(1, 2), isr=(1, 2), directories={2: uuid.uuid4()}, topic_id=known.topic_id
    )
    assert by_node(compared(maker, elsewhere))[2].state is ReplicaState.NOT_GIVEN


def test_a_partition_of_a_deleted_topic(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2, t_0=replica(2))
    (tmp_path / "broker2" / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEA")
    found = compared(maker, placement(1, 2, isr=(1, 2)))
    assert by_node(found)[2].state is ReplicaState.OTHER_TOPIC
    assert len(found.problems) == 1


def test_an_unreadable_replica(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2, t_0=replica(4))
    (tmp_path / "broker2" / "t-0" / "leader-epoch-checkpoint").write_text("rubbish")
    found = by_node(compared(maker))
    assert found[2].state is ReplicaState.UNREADABLE
    assert "leader-epoch-checkpoint" in found[2].problems[0]


def test_no_leader_means_the_best_in_sync_replica(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4, high_watermark=20))
    maker.add(2, t_0=replica(3, high_watermark=20))
    maker.add(3, t_0=replica(2, high_watermark=20))
    found = compared(maker, placement(1, 2, 3, isr=(2, 3), leader=-1))
    assert found.reference is not None
    assert found.reference.directory.node_id == 2
    assert by_node(found)[1].state is ReplicaState.AHEAD


def test_a_replica_that_is_not_assigned(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2, t_0=replica(1, high_watermark=10))
    found = compared(maker, placement(1, 3, isr=(1, 3)))
    assert by_node(found)[2].role is Role.NOT_ASSIGNED
    assert found.problems == ()


def test_a_replica_below_the_leaders_log_start_starts_over(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=MadeReplica(segments={20: BATCHES[2:]}, epochs=((1, 20),), high_watermark=40, log_start=20))
    maker.add(2, t_0=replica(1, high_watermark=10))
    found = by_node(compared(maker, placement(1, 2, isr=(1,))))[2]
    assert found.truncation is not None
    assert (found.truncation.starts_over_at, found.truncated_records, found.problems) == (20, 10, ())


def test_compacted_replicas(tmp_path: Path) -> None:
    """A cleaned replica lacks records that a later one of their key supersedes."""
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2, t_0=MadeReplica(segments={0: BATCHES[3:]}, epochs=EPOCHS, high_watermark=40, is_cleaned=True))
    found = compared(maker, placement(1, 2, isr=(1, 2)))
    assert (found.is_compacted, found.problems) == (True, ())
    assert by_node(found)[2].state is ReplicaState.EQUAL
    (tmp_path / "broker2" / "cleaner-offset-checkpoint").unlink()
    assert len(compared(maker, placement(1, 2, isr=(1, 2))).problems) == 1


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1)
    maker.add(2)
    (tmp_path / "broker2" / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=2\n")
    with pytest.raises(ConfigError, match="several clusters"):
        read_broker_directories(LOCAL, maker.paths.values())


def test_a_replica_out_of_sync_may_end_below_its_high_watermark(tmp_path: Path) -> None:
    """The replica truncated after its last checkpoint, and the leader has the records."""
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(4))
    maker.add(2, t_0=replica(3, high_watermark=40))
    found = compared(maker, placement(1, 2, isr=(1,)))
    assert by_node(found)[2].state is ReplicaState.BEHIND
    assert found.problems == ()


def test_the_copy_in_another_directory_of_the_leader_does_not_lead(tmp_path: Path) -> None:
    """The metadata assigns each replica to one log directory of its broker."""
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(2, high_watermark=20))
    maker.add(2, t_0=replica(4))
    first, second = (tmp_path / name / "meta.properties" for name in ("broker1", "broker2"))
    second.write_text(second.read_text().replace("node.id=2", "node.id=1"))
    known = placement(1, isr=(1,))
    found = compared(maker, known)
    assert found.reference is not None
    assert found.reference.directory.path == first.parent
    assert [one.role for one in found.replicas] == [Role.LEADER, Role.NOT_ASSIGNED]
