"""The metadata log as a timeline: every record, filters, the picture, damage and secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.runner import run
from cli.test_metadata import EVERYTHING
from cluster_maker import state_of
from conftest import GoldenFactory
from golden_sets import CLUSTER, UNCLEAN_ELECTION, ZOOKEEPER
from golden_sets import EVERYTHING as EVERYTHING_SETS
from log_maker import BASE_TIME
from metadata_log_maker import NO_OP, MetadataLogMaker, change_of, id_of, partition_of, record, topic_of
from server.metadata.left_directory import left
from tidelog.model import ConfigError
from tidelog.web.page import Page
from tidelog.web.page_json import page_json
from tidelog.web.sources import NotFoundError
from web.harness import check_picture, facts_of, items_drawn, read_page, rows_of, section_of, serving

URL = "/metadata/log"
NAME = "__cluster_metadata-0"


def changes(page: Page) -> list[tuple[int, str]]:
    return [(row["offset"], row["change"]) for row in rows_of(page, "records")]


def dumped(path: Path) -> list[dict[str, Any]]:
    """Return the records that ``tidelog dump`` prints of the metadata log."""
    text = run("dump", *sorted((path / NAME).glob("*.log")), "--jsonl").stdout
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("release", EVERYTHING_SETS)
def test_every_record_of_kafka_has_a_row(golden: GoldenFactory, release: str) -> None:
    path = golden(EVERYTHING_SETS[release], "unclean")
    page = read_page(path, f"{URL}?kind=all&order=oldest&records.size=1000")
    rows, expected = rows_of(page, "records"), dumped(path)
    assert [row["offset"] for row in rows] == [one["offset"] for one in expected]
    assert [row["time"] for row in rows] == [one["timestamp"] for one in expected]
    names = [one["value"]["name"] if "value" in one else "LeaderChange" for one in expected]
    assert [row["type"] for row in rows] == names
    assert all(row["change"] for row in rows if row["type"] != "NoOpRecord")
    assert facts_of(page)["records"] == len(expected)
    assert facts_of(page)["log_bytes"] == sum(file.stat().st_size for file in (path / NAME).glob("*.log"))
    changed = read_page(path, f"{URL}?records.size=1000")
    assert facts_of(changed)["matching"] == len(names) - names.count("NoOpRecord")
    check_picture(section_of(changed, "timeline"))


def test_when_leader_and_isr_of_a_partition_changed(golden: GoldenFactory) -> None:
    path = golden(CLUSTER, UNCLEAN_ELECTION) / "broker3"
    page = read_page(path, f"{URL}?topic=lossy&partition=0&type=PartitionChangeRecord&order=oldest")
    assert [change for _, change in changes(page)] == [
        "lossy-0: ISR [2, 3] → [2]",
        "lossy-0: ISR [2] → [2, 3]",
        "lossy-0: ISR [2, 3] → [2]",
        "lossy-0: leader 2 → none (epoch 0 → 1), ISR [2] → [], ELR [] → [2], last known ELR [] → [2]",
        "lossy-0: leader none → 3 (epoch 1 → 2), ISR [] → [3], ELR [2] → [], last known ELR [2] → [], unclean election",
    ]
    by_offset = {one["offset"]: one for one in dumped(path)}
    for row in rows_of(page, "records"):
        fields = by_offset[row["offset"]]["value"]["fields"]
        assert (row["partition"], row["controller"]) == (fields["partitionId"], 100)
        assert f"→ {fields['isr']}" in row["change"]


def test_the_newest_copy_is_shown_and_another_one_can_be_chosen(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    paths = [brokers / f"broker{number}" for number in (1, 2, 3)]
    ends = [dumped(path)[-1]["offset"] + 1 for path in paths]
    page = read_page(paths, URL)
    assert facts_of(page)["end_offset"] == max(ends)
    assert facts_of(page)["directory"] == str(paths[ends.index(max(ends))])
    assert facts_of(read_page(paths, f"{URL}?dir=1"))["end_offset"] == ends[1]


def deleted_topic(path: Path) -> dict[str, int]:
    """Write a log in which ``orders`` is deleted and created again. Return offsets by name."""
    maker = MetadataLogMaker(path)
    at = {"leader": maker.add_leader(7, 1, voters=[7, 8, 9])}
    at["created"] = maker.add(
        topic_of("orders", id_of(1)),
        partition_of(id_of(1), 0, state_of(1, 2, 3)),
        record("ConfigRecord", resourceType=2, resourceName="orders", name="retention.ms", value="5"),
    )
    maker.add(topic_of("other", id_of(2)), partition_of(id_of(2), 0, state_of(2, 3)))
    at["second leader"] = maker.add_leader(8, 2, voters=[7, 8, 9])
    maker.add(NO_OP)
    at["changed"] = maker.add(
        record("ConfigRecord", resourceType=2, resourceName="orders", name="retention.ms", value="7")
    )
    at["deleted"] = maker.add(record("RemoveTopicRecord", topicId=id_of(1)))
    at["again"] = maker.add(topic_of("orders", id_of(3)), partition_of(id_of(3), 0, state_of(3, 2, epoch=4)))
    at["leads"] = maker.add(change_of(id_of(3), 0, leader=2), change_of(id_of(2), 0, isr=[2]))
    at["fenced"] = maker.add(record("FenceBrokerRecord", id=3, epoch=5))
    maker.write_snapshot()
    at["end"] = maker.next_offset
    maker.write()
    return at


def test_who_deleted_a_topic_and_when(tmp_path: Path) -> None:
    at = deleted_topic(tmp_path)
    page = read_page(tmp_path, f"{URL}?topic=orders&order=oldest")
    assert changes(page) == [
        (at["created"], f"topic orders is created (id {id_of(1)})"),
        (at["created"] + 1, "orders-0 is created: leader 1 (epoch 0), replicas [1, 2, 3], ISR [1, 2, 3]"),
        (at["created"] + 2, "topic orders: retention.ms = 5"),
        (at["changed"], "topic orders: retention.ms = 7 (was 5)"),
        (at["deleted"], f"topic orders is deleted, with 1 partition (id {id_of(1)})"),
        (at["again"], f"topic orders is created (id {id_of(3)})"),
        (at["again"] + 1, "orders-0 is created: leader 3 (epoch 4), replicas [3, 2], ISR [3, 2]"),
        (at["leads"], "orders-0: leader 3 → 2 (epoch 4 → 5)"),
    ]
    (removal,) = rows_of(read_page(tmp_path, f"{URL}?topic=orders&type=RemoveTopicRecord"), "records")
    assert (removal["time"], removal["epoch"], removal["controller"]) == (BASE_TIME + 6000, 2, 8)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("broker=3", ["created+1", "other+1", "again+1", "leads", "leads+1", "fenced"]),
        ("broker=1", ["created+1"]),
        ("kind=topics", ["created", "other", "deleted", "again"]),
        ("kind=quorum", ["leader", "second leader"]),
        ("kind=brokers", ["fenced"]),
        ("type=FenceBrokerRecord", ["fenced"]),
        ("topic=none", []),
    ],
)
def test_filters(tmp_path: Path, query: str, names: list[str]) -> None:
    at = deleted_topic(tmp_path)
    at["other"] = at["created"] + 3
    page = read_page(tmp_path, f"{URL}?{query}&order=oldest")
    found = [offset for offset, _ in changes(page)]
    expected = [at[name.partition("+")[0]] + int(name.partition("+")[2] or 0) for name in names]
    assert found == expected
    if found:
        check_picture(section_of(page, "timeline"))


def test_one_partition_of_a_topic_with_the_records_of_the_topic(tmp_path: Path) -> None:
    maker = MetadataLogMaker(tmp_path)
    maker.add(topic_of("t", id_of(1)), *(partition_of(id_of(1), number, state_of(1, 2)) for number in range(3)))
    changed = maker.add(*(change_of(id_of(1), number, isr=[1]) for number in range(3)))
    deleted = maker.add(record("RemoveTopicRecord", topicId=id_of(1)))
    maker.write()
    page = read_page(tmp_path, f"{URL}?topic=t&partition=1&order=oldest")
    assert [offset for offset, _ in changes(page)] == [0, 2, changed + 1, deleted]


def test_a_range_of_offsets_newest_first(tmp_path: Path) -> None:
    at = deleted_topic(tmp_path)
    page = read_page(tmp_path, f"{URL}?start={at['deleted']}&end={at['leads']}&records.size=2")
    assert [offset for offset, _ in changes(page)] == [at["again"] + 1, at["again"]]
    table = section_of(page, "records").table
    assert table is not None
    assert table.paging is not None
    assert (table.paging.total, table.paging.pages) == (3, 2)


@pytest.mark.parametrize("query", ["kind=x", "type=NoRecord", "start=x", "broker=x", "dir=9", "order=x", "axis=x"])
def test_wrong_parameters_are_refused(tmp_path: Path, query: str) -> None:
    deleted_topic(tmp_path)
    with pytest.raises(ConfigError):
        read_page(tmp_path, f"{URL}?{query}")


def test_without_a_metadata_log_there_is_no_page(golden: GoldenFactory) -> None:
    with pytest.raises(NotFoundError, match=r"metadata\.log\.dir"):
        read_page(golden(ZOOKEEPER) / "disk1", URL)


def test_epochs_and_snapshots(tmp_path: Path) -> None:
    at = deleted_topic(tmp_path)
    page = read_page(tmp_path, URL)
    rows = [(row["epoch"], row["leader"], row["first_offset"], row["voters"]) for row in rows_of(page, "epochs")]
    assert rows == [(2, 8, at["second leader"], [7, 8, 9]), (1, 7, at["leader"], [7, 8, 9])]
    (snapshot,) = rows_of(page, "snapshots")
    file = tmp_path / NAME / snapshot["file"]
    assert (snapshot["end_offset"], snapshot["bytes"]) == (at["end"], file.stat().st_size)
    for axis in ("time", "offset"):
        picture = section_of(read_page(tmp_path, f"{URL}?axis={axis}"), "timeline").picture
        assert picture is not None
        marks = [item for item in items_drawn(picture) if "mark" in item]
        assert [(mark["mark"], mark["offset"]) for mark in marks] == [
            ("epoch", at["leader"]),
            ("epoch", at["second leader"]),
            ("snapshot", at["end"]),
        ]


def test_a_run_of_the_picture_has_the_records_of_its_rows(tmp_path: Path) -> None:
    maker = MetadataLogMaker(tmp_path)
    maker.add(topic_of("t", id_of(1)), partition_of(id_of(1), 0, state_of(1, 2)))
    for number in range(3000):
        maker.add(change_of(id_of(1), 0, leader=1 + number % 2), NO_OP)
    maker.add(record("RemoveTopicRecord", topicId=id_of(1)))
    maker.write()
    page = read_page(tmp_path, URL)
    check_picture(section_of(page, "timeline"))
    picture = section_of(page, "timeline").picture
    assert picture is not None
    runs = [item for item in picture.items if "kind" in item]
    assert len(runs) <= 300
    assert sum(int(str(run["records"])) for run in runs if run["kind"] == "partitions") == 3001
    assert sum(int(str(run["removals"])) for run in runs) == 1
    run = runs[len(runs) // 2]
    found = read_page(tmp_path, f"{URL}?start={run['first_offset']}&end={int(str(run['last_offset'])) + 1}")
    assert facts_of(found)["matching"] == run["records"]


def test_an_aborted_transaction_changes_nothing(tmp_path: Path) -> None:
    maker = MetadataLogMaker(tmp_path)
    maker.add(topic_of("t", id_of(1)), partition_of(id_of(1), 0, state_of(1, 2)))
    maker.add(record("BeginTransactionRecord"), change_of(id_of(1), 0, leader=2))
    maker.add(record("AbortTransactionRecord", reason="failover"))
    maker.add(change_of(id_of(1), 0, isr=[1]))
    maker.add(record("BeginTransactionRecord"), change_of(id_of(1), 0, leader=2))
    maker.write()
    assert [change for _, change in changes(read_page(tmp_path, f"{URL}?order=oldest"))][2:] == [
        "a transaction begins",
        "without effect: t-0: leader 1 → 2 (epoch 0 → 1)",
        "without effect: the transaction is aborted (failover): its records have no effect",
        "t-0: ISR [1, 2] → [1]",
        "a transaction begins",
        "not yet in effect: t-0: leader 1 → 2 (epoch 0 → 1)",
    ]


def test_the_state_before_the_log_comes_from_the_snapshot(tmp_path: Path) -> None:
    maker = MetadataLogMaker(tmp_path, base_offset=500, epoch=3)
    before = [topic_of("t", id_of(1)), partition_of(id_of(1), 0, state_of(1, 2))]
    maker.write_snapshot(*before, record("FeatureLevelRecord", name="group.version", featureLevel=1))
    maker.add(change_of(id_of(1), 0, isr=[1]))
    maker.add(record("RemoveTopicRecord", topicId=id_of(1)))
    path = maker.write()
    page = read_page(tmp_path, f"{URL}?order=oldest")
    assert [change for _, change in changes(page)] == [
        "t-0: ISR [1, 2] → [1]",
        f"topic t is deleted, with 1 partition (id {id_of(1)})",
    ]
    assert not page.notes
    snapshot = next(path.parent.glob("*.checkpoint"))
    snapshot.write_bytes(snapshot.read_bytes()[:-10])
    page = read_page(tmp_path, f"{URL}?order=oldest")
    assert [change for _, change in changes(page)] == [
        f"{id_of(1)}-0 changes, but no record before has this partition",
        f"topic {id_of(1)} is deleted (id {id_of(1)})",
    ]
    assert snapshot.name in page.notes[0]


def test_damage_ends_the_timeline_and_is_named(tmp_path: Path) -> None:
    at = deleted_topic(tmp_path)
    path = tmp_path / NAME / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    page = read_page(tmp_path, URL)
    assert changes(page)[0][0] == at["leads"] + 1
    (note,) = page.notes
    assert str(path) in note
    assert "CRC" in note
    path.write_bytes(data[:-50])
    (note,) = read_page(tmp_path, URL).notes
    assert "position" in note


def test_records_that_do_not_decode_have_a_row(tmp_path: Path) -> None:
    maker = MetadataLogMaker(tmp_path)
    maker.add(topic_of("t", id_of(1)))
    maker.add_values([b"\x01\x02\x00\x05", b"", b"\x01\x7f\x00newer", b"\x01\x05\x00" + bytes(40)])
    maker.add(record("RemoveTopicRecord", topicId=id_of(1)))
    maker.write()
    rows = rows_of(read_page(tmp_path, f"{URL}?order=oldest"), "records")
    assert [row["offset"] for row in rows] == list(range(6))
    assert [row["type"] for row in rows[1:4]] == ["unreadable", "unreadable", "NewerRecord"]
    assert "of a later release (type 127, version 0)" in rows[3]["change"]


@pytest.mark.parametrize("settings", [{}, {"metadata.log.max.record.bytes.between.snapshots": "1"}])
def test_no_secret_is_shown(tmp_path: Path, settings: dict[str, str]) -> None:
    left(tmp_path, *EVERYTHING, settings=settings)
    page = read_page(tmp_path, f"{URL}?kind=all&records.size=1000")
    text = json.dumps(page_json(page))
    assert "nobody.knows.this = [hidden]" in text
    assert "user alice: SCRAM-SHA-256 credential is set (8,192 iterations)" in text
    assert not [secret for secret in ("hunter2", "its salt", "its stored key", "its server key") if secret in text]


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\x1b\u202e"
    maker = MetadataLogMaker(tmp_path)
    maker.add(topic_of(hostile, id_of(1)), topic_of("x" * 30_000, id_of(2)))
    maker.add(record("ConfigRecord", resourceType=2, resourceName=hostile, name=hostile, value="y" * 20_000))
    maker.write()
    with serving(tmp_path) as served:
        html = served.ready(URL).text
        found = served.ready(f"{URL}.json").json
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "characters in all)" in html
    assert max(len(row["change"]) for row in found["sections"]["records"]["rows"]) < 500
