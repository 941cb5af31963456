"""Several brokers' replicas of a partition in ``logDirs``: records are read once, from the chosen replica."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_maker import ClusterMaker, MadeReplica, change_of, records, state_of, write_metadata
from spark.in_process import options_of, reader_of, rows, rows_of
from tidelog.model import ConfigError, DirectoryError, TopicPartition
from tidelog.spark.read.options import ReadOptions, ReplicaChoice, Use
from tidelog.spark.stream.log_watch import LogWatch

THREE = [records(0), records(10), records(20)]


@pytest.fixture
def maker(tmp_path: Path) -> ClusterMaker:
    """Write three brokers. Node 2 leads ``t-0`` by the newest metadata; node 1's replica is the longest."""
    made = ClusterMaker(tmp_path)
    made.add(1, t_0=MadeReplica(segments={0: THREE}))
    made.add(2, t_0=MadeReplica(segments={0: THREE[:2]}))
    made.add(3, t_0=MadeReplica(segments={0: THREE[:1]}), t_1=MadeReplica(segments={0: THREE[:1]}))
    state = {"t": {0: state_of(1, 2, 3, leader=3), 1: state_of(3)}}
    write_metadata(made.paths[1], state)
    write_metadata(made.paths[3], state, [change_of("t", 0, leader=2, isr=[2])])
    return made


def dirs(maker: ClusterMaker, *nodes: int) -> str:
    return ",".join(str(maker.paths[node]) for node in nodes or (1, 2, 3))


def counts(log_dirs: str, **given: object) -> dict[int, int]:
    found = [row["partition"] for row in rows(log_dirs, **given)]
    return {partition: found.count(partition) for partition in sorted(set(found))}


def test_the_leaders_replica_is_read(maker: ClusterMaker) -> None:
    assert counts(dirs(maker)) == {0: 20, 1: 10}
    assert counts(dirs(maker), replica="LEADER", until="log_end") == {0: 20, 1: 10}


def test_the_longest_and_a_nodes_replica(maker: ClusterMaker) -> None:
    assert counts(dirs(maker), replica="longest") == {0: 30, 1: 10}
    assert counts(dirs(maker), replica=3) == {0: 10, 1: 10}
    assert counts(dirs(maker), replica=" 1 ") == {0: 30, 1: 10}
    with pytest.raises(DirectoryError, match="node 7 has no replica of t-0"):
        counts(dirs(maker), replica=7)


def test_without_the_leaders_directory_the_longest_is_read(
    maker: ClusterMaker, caplog: pytest.LogCaptureFixture
) -> None:
    assert counts(dirs(maker, 1, 3)) == {0: 30, 1: 10}
    assert "The leader's replica of t-0 is not known or cannot be read" in caplog.text
    caplog.clear()
    assert counts(dirs(maker)) == {0: 20, 1: 10}
    assert "leader's replica" not in caplog.text


def test_a_refusal_says_how_to_choose(maker: ClusterMaker) -> None:
    with pytest.raises(DirectoryError, match=r"t-0 lies in two of the directories.*set the option replica"):
        counts(dirs(maker), replica="fail")


def test_copies_that_are_no_replicas_are_refused(maker: ClusterMaker) -> None:
    properties = maker.paths[1] / "meta.properties"
    own = properties.read_text()
    properties.write_text(own.replace("node.id=1", "node.id=2"))
    with pytest.raises(DirectoryError, match="of the same node"):
        counts(dirs(maker, 1, 2))
    properties.write_text(own.replace("cluster-of-tests", "other"))
    with pytest.raises(DirectoryError, match="not replicas of one cluster"):
        counts(dirs(maker, 1, 2))
    properties.unlink()
    with pytest.raises(DirectoryError, match="not replicas of one cluster"):
        counts(dirs(maker, 1, 2), replica="longest")


def test_other_tables_have_all_replicas(maker: ClusterMaker) -> None:
    assert len(rows(dirs(maker), mode="segments", assign='{"t":[0]}')) == 3
    assert len(rows_of(reader_of(dirs(maker), mode="batches", assign='{"t":[0]}'))) == 6


def test_a_stream_takes_a_node_or_fails() -> None:
    def parsed(use: Use, **given: object) -> ReplicaChoice | int:
        return ReadOptions.parse(options_of("/data", **given), use).replica

    assert parsed(Use.BATCH) is ReplicaChoice.LEADER
    assert parsed(Use.STREAM) is ReplicaChoice.FAIL
    assert parsed(Use.STREAM, replica="2") == 2
    for choice in ("leader", "longest"):
        with pytest.raises(ConfigError, match="give the id of a node"):
            parsed(Use.STREAM, replica=choice)
    with pytest.raises(ConfigError, match="replica"):
        parsed(Use.BATCH, replica="nearest")


def test_a_stream_follows_the_replica_of_its_node(maker: ClusterMaker) -> None:
    for node, end in ((1, 30), (3, 10)):
        options = ReadOptions.parse(options_of(dirs(maker), replica=node), Use.STREAM)
        watch = LogWatch(options, pytest.fail)
        assert watch.look()[TopicPartition("t", 0)].log_end == end
