"""``count``, ``info`` and ``verify`` with the directories of several brokers: leaders, lags, records counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.runner import rows, run
from cluster_maker import ClusterMaker, MadeReplica, records, state_of, write_metadata

THREE = [records(0), records(10), records(20)]


@pytest.fixture
def maker(tmp_path: Path) -> ClusterMaker:
    """Write three brokers. Node 2 leads ``t-0`` and is shorter than node 1; only node 3 has ``u-0``."""
    made = ClusterMaker(tmp_path)
    made.add(1, t_0=MadeReplica(segments={0: THREE}))
    made.add(2, t_0=MadeReplica(segments={0: THREE[:2]}))
    made.add(3, t_0=MadeReplica(segments={0: THREE[:1]}), u_0=MadeReplica(segments={0: THREE[:1]}))
    return made


def lead(maker: ClusterMaker) -> list[Path]:
    write_metadata(maker.paths[3], {"t": {0: state_of(1, 2, 3, leader=2, isr=(2,))}, "u": {0: state_of(3)}})
    return list(maker.paths.values())


def test_records_are_counted_once_from_the_leader(maker: ClusterMaker) -> None:
    paths = lead(maker)
    found = rows("count", *paths, "t", "u")
    assert [(row["topic"], row["records"], row["directory"]) for row in found] == [
        ("t", 20, str(paths[1])),
        ("u", 10, str(paths[2])),
    ]
    text = run("count", *paths, "t", "u").stdout
    assert "1 partitions lie in the directories of several brokers: each was counted once, from the leader's" in text
    assert "total" in text
    assert " 30 " in text


def test_every_replica_is_counted_if_asked(maker: ClusterMaker) -> None:
    paths = lead(maker)
    found = rows("count", *paths, "t", "--replicas")
    assert [(row["records"], row["role"], row["lag"]) for row in found] == [
        (30, "out of sync", -10),
        (20, "leader", 0),
        (10, "out of sync", 10),
    ]
    text = run("count", *paths, "t", "--replicas").stdout
    assert f"t-0 has 10 records in {paths[2]}, and 20 in {paths[1]}." in text
    assert "total" in text
    assert "60" not in text


def test_without_metadata_the_longest_replica_is_counted(maker: ClusterMaker) -> None:
    paths = list(maker.paths.values())
    (row,) = rows("count", *paths, "t")
    assert (row["records"], row["directory"], row["role"]) == (30, str(paths[0]), "unknown")
    assert "the leader's replica is not known or not given" in run("count", *paths, "t").stdout


def test_a_leader_that_cannot_be_read_is_replaced(maker: ClusterMaker) -> None:
    paths = lead(maker)
    (paths[1] / "t-0" / "leader-epoch-checkpoint").write_text("rubbish")
    (row,) = rows("count", *paths, "t")
    assert row["directory"] == str(paths[0])


def test_directories_of_no_cluster_are_counted_each(maker: ClusterMaker) -> None:
    """A directory without ``meta.properties`` can be anything: so can a copy of the same node's directory."""
    paths = lead(maker)
    (paths[0] / "meta.properties").unlink()
    own = (paths[1] / "meta.properties").read_text()
    (paths[2] / "meta.properties").write_text(own)
    assert [row["records"] for row in rows("count", *paths, "t")] == [30, 20, 10]
    (paths[0] / "meta.properties").write_text(own.replace("node.id=2", "node.id=1").replace("cluster-of", "other"))
    assert [row["records"] for row in rows("count", *paths, "t")] == [30, 20, 10]


def test_info_shows_roles_and_lags(maker: ClusterMaker) -> None:
    paths = lead(maker)
    found = {(row["node_id"], row["topic"]): (row["role"], row["lag"]) for row in rows("info", *paths, "t", "u")}
    assert found[2, "t"] == ("leader", 0)
    assert found[3, "t"] == ("out of sync", 10)
    assert found[3, "u"] == (None, None)
    text = run("info", *paths, "t").stdout
    assert "2 replicas end at another offset than the leader's" in text
    assert " role " in text
    assert " role " not in run("info", paths[0], "t").stdout


def test_verify_shows_the_role_of_a_damaged_replica(maker: ClusterMaker) -> None:
    paths = lead(maker)
    log = paths[1] / "t-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    found = [row for row in rows("verify", *paths, "t", code=1) if row["severity"] == "error"]
    assert {(row["role"], row["directory"]) for row in found} == {("leader", str(paths[1]))}
    assert "tidelog compare tells whether these replicas are equal" in run("verify", *paths, "t", code=1).stdout
