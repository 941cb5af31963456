"""The cluster metadata: the rows of each kind against ``tidelog metadata``, the newest copy, filters and secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.runner import rows as command_rows
from cli.test_metadata import EVERYTHING
from cluster_maker import state_of
from conftest import GoldenFactory
from golden_sets import CLUSTER, FLIGHTS, SCENARIOS, UNCLEAN_ELECTION, ZOOKEEPER
from golden_sets import EVERYTHING as EVERYTHING_SETS
from metadata_log_maker import MetadataLogMaker, id_of, partition_of, record, topic_of
from server.metadata.left_directory import left
from tidelog.model import ConfigError
from tidelog.web.page_json import page_json
from web.harness import facts_of, read_page, rows_of, section_of, serving

URL = "/metadata"
NAME = "__cluster_metadata-0"


def expected_rows(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of ``tidelog metadata`` by kind, in the form of the page's rows."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in command_rows("metadata", path):
        found.setdefault(row["kind"], []).append({"name": row["name"], **row["fields"]})
    return found


@pytest.mark.parametrize("set_name", [FLIGHTS, SCENARIOS, EVERYTHING_SETS["4.4"]])
def test_the_rows_are_those_of_the_command(golden: GoldenFactory, set_name: str) -> None:
    path = golden(set_name, "unclean")
    for kind, expected in expected_rows(path).items():
        page = read_page(path, f"{URL}?kind={kind}&{kind}.size=1000")
        assert rows_of(page, kind) == expected
    page = read_page(path, URL)
    assert {section.name for section in page.sections} == {*expected_rows(path), "copies"}
    assert len(rows_of(page, "config")) <= 10


def test_the_newest_copy_counts(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    paths = [brokers / f"broker{number}" for number in (1, 2, 3)]
    page = read_page(paths, URL)
    facts = facts_of(page)
    assert (facts["directory"], facts["end_offset"], facts["epoch"]) == (str(paths[2]), 109, 1)
    partitions = {row["name"]: row for row in rows_of(page, "partition")}
    assert (partitions["lossy-0"]["leader"], partitions["lossy-0"]["leader_epoch"]) == (3, 2)
    copies = rows_of(page, "copies")
    assert [(row["node_id"], row["end_offset"], row["behind"], row["is_shown"]) for row in copies] == [
        (1, 108, 1, False),
        (2, 89, 20, False),
        (3, 109, 0, True),
    ]
    older = read_page(paths, f"{URL}?dir=1&kind=partition")
    assert {row["name"]: row["leader"] for row in rows_of(older, "partition")}["lossy-0"] == 2


def test_a_damaged_newest_copy_is_named_and_the_next_one_is_shown(golden_copy: GoldenFactory) -> None:
    brokers = golden_copy(CLUSTER, UNCLEAN_ELECTION)
    paths = [brokers / f"broker{number}" for number in (1, 2, 3)]
    (paths[2] / NAME / "quorum-state").write_text("{")
    page = read_page(paths, URL)
    assert facts_of(page)["directory"] == str(paths[0])
    assert "quorum-state" in rows_of(page, "copies")[2]["error"]


def test_a_log_that_contradicts_itself(tmp_path: Path) -> None:
    maker = MetadataLogMaker(tmp_path)
    maker.add(record("RemoveTopicRecord", topicId=id_of(1)))
    maker.write()
    page = read_page(tmp_path, URL)
    assert "cannot be read: a record of topic" in page.notes[0]
    assert [section.name for section in page.sections] == ["copies"]


def test_directories_of_zookeepers_time_show_their_meta_properties(golden: GoldenFactory) -> None:
    disks = golden(ZOOKEEPER)
    page = read_page([disks / "disk1", disks / "disk2"], URL)
    assert "its metadata was in ZooKeeper" in page.notes[0]
    rows = rows_of(page, "copies")
    assert [row["error"] for row in rows] == ["no metadata log"] * 2
    assert all(row["cluster_id"] and row["node_id"] is not None for row in rows)


def test_the_first_records_of_a_new_cluster(golden_copy: GoldenFactory) -> None:
    path = golden_copy(EVERYTHING_SETS["4.4"])
    for file in (path / NAME).iterdir():
        if file.suffix != ".checkpoint":
            file.unlink()
    page = read_page(path, URL)
    assert "first records of the new cluster" in page.notes[0]
    assert rows_of(page, "feature")[0]["name"] == "metadata.version"


def test_a_name_selects_rows_and_links_lead_to_logs_that_exist(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    page = read_page([brokers / "broker1", brokers / "broker3"], f"{URL}?name=PLAIN")
    assert [row["name"] for row in rows_of(page, "topic")] == ["plain"]
    assert [row["name"] for row in rows_of(page, "partition")] == ["plain-0", "plain-1"]
    one = read_page(brokers / "broker1", f"{URL}?kind=partition")
    table = section_of(one, "partition").table
    assert table is not None
    link = table.columns[0].link
    assert link is not None
    urls = {row["name"]: link(row) for row in table.rows}
    assert urls["plain-0"] == "/logs/0/plain-0"
    assert urls["lossy-0"] is None, "broker 1 has no replica of it"
    both = section_of(page, "partition").table
    assert both is not None
    assert both.columns[0].link is not None
    assert both.columns[0].link(both.rows[0]) == "/compare/plain-0"


def test_unknown_kinds_and_sort_columns_are_refused(golden: GoldenFactory) -> None:
    for query in ("kind=x", "dir=7", "topic.sort=nothing", "topic.page=x"):
        with pytest.raises(ConfigError):
            read_page(golden(FLIGHTS), f"{URL}?{query}")


def test_sorted_and_paged(golden: GoldenFactory) -> None:
    page = read_page(golden(FLIGHTS), f"{URL}?kind=topic&topic.sort=-name&topic.size=2&topic.page=2")
    names = sorted((row["name"] for row in expected_rows(golden(FLIGHTS))["topic"]), reverse=True)
    assert [row["name"] for row in rows_of(page, "topic")] == names[2:4]


@pytest.mark.parametrize("settings", [{}, {"metadata.log.max.record.bytes.between.snapshots": "1"}])
def test_no_secret_is_shown(tmp_path: Path, settings: dict[str, str]) -> None:
    left(tmp_path, *EVERYTHING, settings=settings)
    text = json.dumps(page_json(read_page(tmp_path, URL)))
    assert "[hidden]" in text
    assert not [secret for secret in ("hunter2", "its salt", "its stored key", "its server key") if secret in text]


def test_hostile_values(tmp_path: Path) -> None:
    maker = MetadataLogMaker(tmp_path)
    maker.add(record("FeatureLevelRecord", name="metadata.version", featureLevel=33))
    hostile = '"><img src=x onerror=alert(1)>'
    maker.add(topic_of(hostile, id_of(1)), partition_of(id_of(1), 0, state_of(1)))
    maker.add(record("ConfigRecord", resourceType=2, resourceName=hostile, name=hostile, value="y" * 20_000))
    maker.add(record("ClientQuotaRecord", entity=[{"entityType": "user", "entityName": hostile}], key="a", value=1.0))
    maker.write()
    with serving(tmp_path) as served:
        html = served.ready(URL)
        found = served.ready(f"{URL}.json").json
    assert html.status == 200
    assert "<img src=x" not in html.text
    (config,) = found["sections"]["config"]["rows"]
    assert config["value"].endswith("(20,000 characters in all)")


def test_directories_of_several_clusters(golden: GoldenFactory, tmp_path: Path) -> None:
    maker = MetadataLogMaker(tmp_path)
    maker.add(topic_of("t", id_of(1)))
    maker.write()
    page = read_page([tmp_path, golden(FLIGHTS)], URL)
    assert "2 clusters" in page.notes[0]
