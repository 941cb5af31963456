"""``tidelog compare``: rows, tables, exit codes, and the newest metadata among the directories."""

from __future__ import annotations

import json
from pathlib import Path

from cli.runner import rows, run
from cluster_maker import ClusterMaker, MadeReplica, change_of, records, state_of, write_metadata

FOUR = [records(0), records(10), records(20, epoch=1), records(30, epoch=1)]
EPOCHS = ((0, 0), (1, 20))


def cluster(root: Path, *, third: MadeReplica | None = None) -> ClusterMaker:
    """Write three brokers. The third one has other records from 20 on, and is out of sync."""
    maker = ClusterMaker(root)
    other = MadeReplica(segments={0: [*FOUR[:2], records(20, tag="w")]}, high_watermark=20)
    for node in (1, 2, 3):
        same = MadeReplica(segments={0: FOUR} if node == 1 else {0: FOUR[:1], 10: FOUR[1:]}, epochs=EPOCHS)
        same.high_watermark = 40
        maker.add(node, t_0=(third or other) if node == 3 else same, u_0=MadeReplica(segments={0: FOUR[:1]}))
    return maker


def with_metadata(root: Path) -> list[Path]:
    """Write three brokers, of which the second has the newest metadata."""
    maker = cluster(root)
    topics = {"t": {0: state_of(1, 2, 3, leader=3)}, "u": {0: state_of(1, 2, 3)}}
    write_metadata(maker.paths[1], topics)
    write_metadata(maker.paths[2], topics, [change_of("t", 0, leader=1, isr=[1, 2])])
    return list(maker.paths.values())


def test_a_row_for_each_replica(tmp_path: Path) -> None:
    paths = with_metadata(tmp_path)
    first, second, third = rows("compare", *paths, "t")
    assert [row["state"] for row in (first, second, third)] == ["reference", "equal", "diverged"]
    assert [row["role"] for row in (first, second, third)] == ["leader", "in sync", "out of sync"]
    assert (third["truncated_to"], third["truncated_records"], third["lag"]) == (20, 10, 10)
    assert (third["isr"], third["leader"], third["epochs"]) == ([1, 2], 1, [[0, 0]])
    difference = third["difference"]
    assert (difference["offset"], difference["fields"]) == (20, ["leader_epoch", "crc"])
    assert difference["replica"]["file"] == str(paths[2] / "t-0" / f"{0:020}.log")
    assert difference["replica"]["position"] == difference["reference"]["position"] == sum(map(len, FOUR[:2]))
    lines = run("compare", *paths, "t", "--jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [first, second, third]


def test_tables_for_people(tmp_path: Path) -> None:
    paths = with_metadata(tmp_path)
    text = run("compare", *paths).stdout
    assert "t-0: node 1 and node 3 differ from offset 20 on, below the high watermark" in text
    assert "leader epoch (differs)" in text
    assert "t-0: start offsets of the leader" in text
    assert str(paths[1] / "__cluster_metadata-0") in text
    assert "No problem found." in text
    assert "Problems" not in text


def test_problems_end_with_1(tmp_path: Path) -> None:
    paths = list(
        cluster(tmp_path, third=MadeReplica(segments={0: FOUR}, epochs=EPOCHS, high_watermark=40)).paths.values()
    )
    assert "leaders and in-sync replicas are not known" in run("compare", *paths).stdout
    log = paths[2] / "t-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    text = run("compare", *paths, "--quiet", code=1).stdout
    assert "Problems" in text
    assert "differ from offset 0 on, and no truncation repairs it" in text
    assert "byte 70 of the batch" in text
    assert "crc ok" in text
    assert run("compare", *paths, "u").exit_code == 0


def test_an_in_sync_node_without_the_partition(tmp_path: Path) -> None:
    """The node's directory is given, although no name matches in it."""
    maker = cluster(tmp_path)
    maker.add(4)
    write_metadata(maker.paths[4], {"t": {0: state_of(1, 2, 4, epoch=1)}})
    found = {row["node_id"]: row for row in rows("compare", *maker.paths.values(), "t", code=1)}
    assert found[4]["state"] == "missing"
    assert found[3]["role"] == "not assigned"


def test_what_cannot_be_read(tmp_path: Path) -> None:
    paths = list(cluster(tmp_path).paths.values())
    (paths[1] / "t-0" / "leader-epoch-checkpoint").write_text("rubbish")
    assert run("compare", *paths, code=3).exit_code == 3
    maker = ClusterMaker(tmp_path / "more")
    maker.add(1)
    (maker.paths[1] / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=1\n")
    assert "several clusters" in run("compare", *paths, maker.paths[1], code=2).stderr


def test_damaged_metadata_is_left_out(tmp_path: Path) -> None:
    paths = with_metadata(tmp_path)
    snapshot = paths[1] / "__cluster_metadata-0" / f"{0:020}-{1:010}.checkpoint"
    snapshot.write_bytes(b"rubbish")
    result = run("compare", *paths, "t", code=1)
    assert "cannot be read" in result.stdout
    assert "node 3" in result.stdout


def test_a_directory_whose_node_is_not_known(tmp_path: Path) -> None:
    """The replica is compared by its directory, and the output has the reason."""
    paths = with_metadata(tmp_path)
    (paths[1] / "meta.properties").unlink()
    text = run("compare", *paths, "t").stdout
    assert f"Warning: {paths[1]} has no meta.properties that can be read" in text
    found = {row["directory"]: row for row in rows("compare", *paths, "t") if row["directory"] is not None}
    assert (found[str(paths[1])]["role"], found[str(paths[1])]["state"]) == ("unknown", "equal")
