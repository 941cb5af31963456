"""Replicas side by side: rows against ``tidelog compare``, the picture, differences down to the byte, and clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.runner import rows as command_rows
from cli.test_compare import EPOCHS, FOUR, cluster, with_metadata
from cluster_maker import ClusterMaker, MadeReplica, records, state_of, write_metadata
from conftest import GoldenFactory
from golden_sets import CLUSTER, FLIGHTS, SCENARIOS, UNCLEAN_ELECTION
from tidelog.model import ConfigError
from tidelog.web.page import Page
from tidelog.web.sources import NotFoundError
from web.harness import check_picture, facts_of, items_drawn, read_page, rows_of, section_of, serving

URL = "/compare"


@pytest.fixture
def brokers(golden: GoldenFactory) -> list[Path]:
    root = golden(CLUSTER, UNCLEAN_ELECTION)
    return [root / f"broker{number}" for number in (1, 2, 3)]


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def marks_of(page: Page) -> list[dict[str, Any]]:
    picture = section_of(page, "replicas").picture
    assert picture is not None
    return [dict(item) for item in picture.items if "mark" in item]


def test_the_rows_of_each_partition_are_those_of_the_command(brokers: list[Path]) -> None:
    for partition in ("lossy-0", "plain-0", "plain-1", "compacted-0"):
        code = 1 if partition == "lossy-0" else 0
        expected = command_rows("compare", *brokers, partition, code=code)
        page = read_page(brokers, f"{URL}/{partition}")
        assert [without(row, "name", "url") for row in rows_of(page, "replicas")] == expected
        problems = [problem for row in expected for problem in row["problems"]]
        assert page.notes == problems
        assert facts_of(page)["problems"] == len(problems)
        check_picture(section_of(page, "replicas"))


def test_the_unclean_election_that_lost_30_records(brokers: list[Path]) -> None:
    page = read_page(brokers, f"{URL}/lossy-0")
    assert "committed records are lost" in page.notes[0]
    facts = facts_of(page)
    assert (facts["reference"], facts["leader"], facts["isr"], facts["committed_end"]) == ("node 3", 3, [3], 40)
    truncation, difference = marks_of(page)
    assert (truncation["start"], truncation["end"], truncation["records"]) == (40, 70, 30)
    assert (difference["offset"], difference["kind"], difference["replica"]) == (40, "header", "node 2")
    bands = [item for item in items_drawn(picture_of(page)) if "epoch" in item]
    assert [(band["replica"], band["epoch"], band["start"], band["end"]) for band in bands] == [
        ("node 3", 0, 0, 40),
        ("node 3", 2, 40, 50),
        ("node 2", 0, 0, 70),
    ]
    assert [(row["epoch"], row["starts"]) for row in rows_of(page, "epochs")] == [(2, [40, None]), (0, [0, 0])]
    section = section_of(page, difference["section"])
    assert "Following the reference truncates these records" in section.text
    (row,) = (row for row in command_rows("compare", *brokers, "lossy-0", code=1) if row["difference"])
    links = [link.url for link in section.links]
    assert links == [
        f"/logs/{key}/lossy-0/segments/0/batches/{row['difference'][side]['position']}"
        for key, side in ((2, "reference"), (1, "replica"))
    ]
    differing = {row["field"] for row in rows_of(page, difference["section"]) if row["differs"]}
    assert differing == {name.replace("_", " ") for name in row["difference"]["fields"]}


def picture_of(page: Page) -> Any:
    picture = section_of(page, "replicas").picture
    assert picture is not None
    return picture


def test_the_bytes_of_a_difference(tmp_path: Path) -> None:
    paths = list(
        cluster(tmp_path, third=MadeReplica(segments={0: FOUR}, epochs=EPOCHS, high_watermark=40)).paths.values()
    )
    log = paths[2] / "t-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    original = bytes(data)
    data[75] ^= 1
    log.write_bytes(data)
    page = read_page(paths, f"{URL}/t-0")
    (mark,) = (mark for mark in marks_of(page) if mark["mark"] == "difference")
    assert mark["kind"] == "records"
    lines = rows_of(page, mark["section"].replace("difference", "bytes"))
    assert [byte for row in lines for byte in row["different"]] == [75]
    line = next(row for row in lines if row["different"])
    assert line["byte"] == 64
    assert f"[{original[75]:02x}]" in line["reference"]
    assert f"[{data[75]:02x}]" in line["replica"]
    assert line["reference"].replace("[", " ").replace("]", " ").split() == [f"{b:02x}" for b in original[64:80]]
    assert "no truncation repairs it" in page.notes[0]
    assert "byte 75 of the batch differs" in section_of(page, mark["section"]).text


def test_a_replica_that_cannot_be_read_there(tmp_path: Path) -> None:
    third = MadeReplica(segments={0: FOUR[:2], 20: FOUR[2:]}, epochs=EPOCHS, high_watermark=40)
    paths = list(cluster(tmp_path, third=third).paths.values())
    log = paths[2] / "t-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[len(FOUR[0]) + 8 : len(FOUR[0]) + 12] = b"\xff" * 4
    log.write_bytes(data)
    page = read_page(paths, f"{URL}/t-0")
    check_picture(section_of(page, "replicas"))
    (mark,) = (mark for mark in marks_of(page) if mark["mark"] == "difference")
    assert mark["kind"] == "unreadable"
    assert "cannot be read there: " in section_of(page, mark["section"]).text
    assert str(log) in section_of(page, mark["section"]).text


def test_a_close_window_and_offsets_of_the_picture(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    batches = [records(10 * number) for number in range(500)]
    maker.add(1, t_0=MadeReplica(segments={0: batches}, high_watermark=5000))
    maker.add(2, t_0=MadeReplica(segments={0: batches[:-2]}, high_watermark=4980))
    paths = list(maker.paths.values())
    page = read_page(paths, f"{URL}/t-0")
    (link,) = section_of(page, "replicas").links
    assert link.url == "/compare/t-0?start=4975&end=5005"
    close = read_page(paths, link.url)
    check_picture(section_of(close, "replicas"))
    assert [one.url for one in section_of(close, "replicas").links] == ["/compare/t-0"]
    assert rows_of(close, "replicas")[1]["lag"] == 20
    check_picture(section_of(read_page(paths, f"{URL}/t-0?start=9000&end=9"), "replicas"))
    with pytest.raises(ConfigError):
        read_page(paths, f"{URL}/t-0?start=x")


def test_epochs_below_the_log_start_have_no_band(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    for node, log_start in ((1, 25), (2, 0)):
        maker.add(node, t_0=MadeReplica(segments={0: FOUR}, epochs=EPOCHS, high_watermark=40, log_start=log_start))
    page = read_page(list(maker.paths.values()), f"{URL}/t-0")
    check_picture(section_of(page, "replicas"))
    bands = [item for item in picture_of(page).items if "epoch" in item]
    assert [(band["replica"], band["epoch"], band["start"], band["end"]) for band in bands] == [
        ("node 1", 1, 25, 40),
        ("node 2", 0, 0, 20),
        ("node 2", 1, 20, 40),
    ]


def test_a_replica_without_epochs_has_no_band(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    for node in (1, 2):
        maker.add(node, t_0=MadeReplica(segments={0: FOUR}, epochs=EPOCHS, high_watermark=40))
    (maker.paths[2] / "t-0" / "leader-epoch-checkpoint").unlink()
    page = read_page(list(maker.paths.values()), f"{URL}/t-0")
    check_picture(section_of(page, "replicas"))
    assert [item["replica"] for item in picture_of(page).items if "epoch" in item] == ["node 1", "node 1"]


def test_many_epochs_are_few_items(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    batches = [records(number, 1, epoch=number) for number in range(400)]
    epochs = tuple((number, number) for number in range(400))
    for node in (1, 2, 3):
        maker.add(node, t_0=MadeReplica(segments={0: batches}, epochs=epochs))
    page = read_page(list(maker.paths.values()), f"{URL}/t-0")
    check_picture(section_of(page, "replicas"))
    bands = [item for item in picture_of(page).items if "epoch" in item]
    assert len(bands) <= 60
    assert sum(band["epochs"] for band in bands) == 1200
    table = section_of(page, "epochs").table
    assert table is not None
    assert table.paging is not None
    assert table.paging.total == 400


def test_the_first_look_and_the_comparison_of_everything(brokers: list[Path]) -> None:
    with serving(brokers) as served:
        look = served.ready(f"{URL}.json").json
        rows = {row["partition"]: row for row in look["sections"]["partitions"]["rows"]}
        assert set(rows) == {"__cluster_metadata-0", "plain-0", "plain-1", "compacted-0", "lossy-0"}
        lossy = rows["lossy-0"]
        assert (lossy["nodes"], lossy["high_watermarks"], lossy["behind"]) == ([2, 3], [70, 40], 30)
        assert (lossy["leader"], lossy["epochs"]) == (3, [0, 2])
        assert lossy["first_look"] == "different leader epochs; high watermarks 30 apart"
        assert "replicas" not in look["sections"]
        assert "/compare?run=1" in served.ready(URL).text
        report = served.ready(f"{URL}.json?run=1&replicas.size=1000").json
        expected = command_rows("compare", *brokers, code=1)
        found = report["sections"]["replicas"]["rows"]
        key = lambda row: (row["topic"], row["partition"], row["node_id"])  # noqa: E731
        assert sorted((without(row, "name", "problem_count") for row in found), key=key) == sorted(expected, key=key)
        assert found[0]["name"] == "lossy-0"
        assert report["facts"]["problems"] == 1
        assert [row["partition"] for row in report["sections"]["problems"]["rows"]] == ["lossy-0"]
        kept = served.ready(f"{URL}.json").json
        assert kept["facts"]["compared_at"] == report["facts"]["compared_at"]


def test_filters_of_the_first_look(tmp_path: Path) -> None:
    maker = cluster(tmp_path)
    (tmp_path / "broker2" / "u-0").rename(tmp_path / "gone")
    write_metadata(maker.paths[1], {"t": {0: state_of(1, 2, 3)}, "u": {0: state_of(1, 2, 3)}})
    paths = list(maker.paths.values())
    page = read_page(paths, f"{URL}?only=missing")
    assert [(row["partition"], row["missing"]) for row in rows_of(page, "partitions")] == [("u-0", [2])]
    assert facts_of(page)["missing"] == 1
    assert [row["partition"] for row in rows_of(read_page(paths, f"{URL}?only=behind"), "partitions")] == ["t-0"]
    assert rows_of(read_page(paths, f"{URL}?topic=nothing"), "partitions") == []
    page = read_page(paths, f"{URL}/u-0")
    missing = next(row for row in rows_of(page, "replicas") if row["state"] == "missing")
    assert (missing["name"], missing["url"]) == ("node 2", None)
    check_picture(section_of(page, "replicas"))
    for query in ("only=x", "partitions.sort=x", "run=2"):
        with pytest.raises(ConfigError):
            read_page(paths, f"{URL}?{query}")


def test_directories_of_several_clusters(golden: GoldenFactory, tmp_path: Path) -> None:
    paths = with_metadata(tmp_path)
    for url in (URL, f"{URL}/t-0", f"{URL}?run=1"):
        page = read_page([*paths, golden(FLIGHTS)], url)
        (note,) = page.notes
        assert note.startswith("The directories belong to several clusters: ")
        assert not page.sections


def test_directories_without_replicas(golden: GoldenFactory) -> None:
    page = read_page(golden(SCENARIOS), URL)
    assert "several brokers of one cluster" in page.notes[-1]
    alone = read_page(golden(SCENARIOS), f"{URL}/plain-0")
    assert "Only one given directory" in alone.notes[0]
    assert [row["state"] for row in rows_of(alone, "replicas")] == ["reference"]
    for name in ("nothing-0", "x", "meta.properties", "plain-0.0123456789abcdef0123456789abcdef-delete"):
        with pytest.raises(NotFoundError):
            read_page(golden(SCENARIOS), f"{URL}/{name}")


def test_a_directory_whose_node_is_not_known_and_an_unreadable_replica(tmp_path: Path) -> None:
    paths = with_metadata(tmp_path)
    (paths[1] / "meta.properties").unlink()
    (paths[2] / "t-0" / "leader-epoch-checkpoint").write_text("rubbish")
    page = read_page(paths, f"{URL}/t-0")
    assert any("meta.properties" in note for note in page.notes)
    states = {row["directory"]: row["state"] for row in rows_of(page, "replicas")}
    assert (states[str(paths[1])], states[str(paths[2])]) == ("equal", "unreadable")
    check_picture(section_of(page, "replicas"))


def test_hostile_bytes_are_escaped(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    for node, tag in ((1, "<script>"), (2, "</td><b>")):
        maker.add(node, t_0=MadeReplica(segments={0: [records(0), records(10, tag=tag)]}, high_watermark=20))
    with serving(list(maker.paths.values())) as served:
        html = served.ready(f"{URL}/t-0").text
    assert "<script>" not in html.replace('<script src="/static', "")
    assert "</td><b>" not in html
