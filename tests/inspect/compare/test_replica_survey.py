"""The first look at replicas: who has a partition, who should have it, and how far the high watermarks are apart."""

from __future__ import annotations

from pathlib import Path

from cluster_maker import ClusterMaker, MadeReplica, directory_id, records
from conftest import GoldenFactory
from golden_sets import CLUSTER, UNCLEAN_ELECTION
from tidelog.inspect.compare import Placement, Role, read_broker_directories
from tidelog.inspect.compare.replica_survey import latest_epoch, survey_replicas
from tidelog.model import TopicPartition
from tidelog.server.metadata.kraft.newest_metadata import read_newest_metadata
from tidelog.storage.fs import LOCAL

T0, U0, V0 = (TopicPartition(name, 0) for name in "tuv")


def replica(high_watermark: int | None = None, *, epochs: tuple[tuple[int, int], ...] = ((0, 0),)) -> MadeReplica:
    return MadeReplica(segments={0: [records(0)]}, high_watermark=high_watermark, epochs=epochs)


def placed(*replicas: int, isr: tuple[int, ...] | None = None) -> Placement:
    return Placement(
        leader=replicas[0],
        leader_epoch=0,
        replicas=replicas,
        isr=replicas if isr is None else isr,
        directories={node: directory_id(node) for node in replicas},
    )


def test_replicas_and_their_high_watermarks(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(10), u_0=replica(5))
    maker.add(2, t_0=replica(4), v_0=replica())
    maker.add(3, t_0=replica(), v_0=replica(1))
    directories = read_broker_directories(LOCAL, maker.paths.values())
    found = {one.partition: one for one in survey_replicas(directories, {T0: placed(2, 1, isr=(2,))})}
    assert sorted(found) == [T0, V0], "one directory alone has u-0"
    assert (found[T0].high_watermark, found[T0].behind) == (10, 6)
    assert [one.role for one in found[T0].replicas] == [Role.OUT_OF_SYNC, Role.LEADER, Role.NOT_ASSIGNED]
    assert (found[V0].high_watermark, found[V0].behind) == (1, None)
    assert {one.role for one in found[V0].replicas} == {Role.UNKNOWN}


def test_a_replica_is_missing_only_if_its_directory_is_given_and_it_must_have_the_records(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    maker.add(1, t_0=replica(), u_0=replica())
    maker.add(2, v_0=replica())
    directories = read_broker_directories(LOCAL, maker.paths.values())
    placements = {T0: placed(1, 2, 3), U0: placed(1, 2, isr=(1,)), V0: placed(2, 3)}
    found = survey_replicas(directories, placements)
    assert [(one.partition, one.missing) for one in found] == [(T0, (2,))]
    elsewhere = Placement(
        leader=1, leader_epoch=0, replicas=(1, 2), isr=(1, 2), directories={1: directory_id(1), 2: directory_id(9)}
    )
    assert survey_replicas(directories, {T0: elsewhere}) == []


def test_the_cluster_of_kafka(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    paths = [brokers / f"broker{number}" for number in (1, 2, 3)]
    directories = read_broker_directories(LOCAL, paths)
    found = {str(one.partition): one for one in survey_replicas(directories, read_newest_metadata(paths).placements)}
    assert not any(one.missing for one in found.values())
    lossy = found["lossy-0"]
    assert (lossy.behind, [one.directory.node_id for one in lossy.replicas]) == (30, [2, 3])
    assert [latest_epoch(LOCAL, one.directory, lossy.partition) for one in lossy.replicas] == [0, 2]


def test_epochs_that_cannot_be_read(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    path = maker.add(1, t_0=replica(epochs=((2, 0), (7, 5))), u_0=replica(epochs=()))
    (directory,) = read_broker_directories(LOCAL, [path])
    assert latest_epoch(LOCAL, directory, T0) == 7
    assert latest_epoch(LOCAL, directory, U0) is None
    (path / "t-0" / "leader-epoch-checkpoint").write_text("rubbish")
    assert latest_epoch(LOCAL, directory, T0) is None
    assert latest_epoch(LOCAL, directory, V0) is None
