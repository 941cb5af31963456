"""The page of a topic: partitions by the metadata and in each log directory, sizes, and settings with their sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.runner import rows
from cluster_maker import ClusterMaker, MadeReplica, records, state_of, topic_id, write_metadata
from conftest import GoldenFactory
from golden_sets import CLUSTER, EVERYTHING, SCENARIOS, UNCLEAN_ELECTION, ZOOKEEPER
from log_maker import mark_clean, plain, write_segment
from tidelog.inspect.replica_facts import ReplicaFacts, describe_replica
from tidelog.storage.checkpoint import uuid_to_text
from tidelog.storage.log.view.log_view import LogView
from tidelog.web.page import Page
from tidelog.web.sources import NotFoundError
from web.harness import check_picture, facts_of, read_page, rows_of, section_of, serving
from web.made_directories import broker_setting, setting

SAME = ("role", "lag", "log_start", "high_watermark", "log_end", "segments", "bytes")


def replicas(page: Page) -> dict[tuple[str, int], dict[str, object]]:
    return {(row["log_dir"], row["partition"]): row for row in rows_of(page, "partitions")}


@pytest.mark.parametrize("topic", ["plain", "lossy", "compacted"])
def test_replicas_are_those_of_the_info_command(golden: GoldenFactory, topic: str) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    paths = [brokers / f"broker{number}" for number in (1, 2, 3)]
    expected = {
        (str(paths.index(Path(row["directory"]))), row["partition"]): row
        for row in rows("info", *paths)
        if row["topic"] == topic
    }
    page = read_page(paths, f"/topics/{topic}")
    found = replicas(page)
    assert found.keys() == expected.keys()
    for key, row in found.items():
        assert [row[name] for name in SAME] == [expected[key][name] for name in SAME]
        assert row["newest"] == expected[key]["last_timestamp"]
        assert row["topic_id"] == expected[key]["topic_id"]
    facts = facts_of(page)
    assert facts["bytes"] == sum(row["bytes"] for row in expected.values())
    assert facts["topic_id"] == next(iter(expected.values()))["topic_id"]


@pytest.mark.parametrize("set_name", [SCENARIOS, EVERYTHING["4.4"]])
def test_one_broker(golden: GoldenFactory, set_name: str) -> None:
    path = golden(set_name)
    expected = {row["partition"]: row for row in rows("info", path, "plain")}
    page = read_page(path, "/topics/plain")
    for (_, number), row in replicas(page).items():
        for name in ("log_start", "log_end", "segments", "bytes"):
            assert row[name] == expected[number][name]
        assert row["role"] in ("leader", "eligible"), "the leader of a cleanly stopped cluster is eligible"
    check_picture(section_of(page, "sizes"))


def test_two_disks_of_one_broker(golden: GoldenFactory) -> None:
    """The page shows the logs in the directories if there is no metadata log, as with ZooKeeper."""
    disks = sorted(path for path in golden(ZOOKEEPER).iterdir() if path.is_dir())
    topic = str(rows("info", *disks)[0]["topic"])
    page = read_page(disks, f"/topics/{topic}")
    assert "There is no cluster metadata here" in section_of(page, "partitions").text
    assert "Kafka's default" in section_of(page, "settings").text
    assert all(row["role"] is None and row["log_end"] is not None for row in rows_of(page, "partitions"))


def test_replicas_that_are_not_here(tmp_path: Path) -> None:
    made = ClusterMaker(tmp_path)
    path = made.add(1, t_0=MadeReplica(segments={0: [records(0)]}))
    write_metadata(path, {"t": {0: state_of(1, 2), 1: state_of(2, 3, leader=-1, isr=[])}})
    page = read_page(path, "/topics/t")
    here, elsewhere = rows_of(page, "partitions")
    assert (here["log_dir"], here["role"], here["replicas"], here["isr"]) == ("0", "leader", [1, 2], [1, 2])
    assert (elsewhere["log_dir"], elsewhere["leader"], elsewhere["problem"]) == (
        None,
        None,
        "no given log directory has a replica",
    )
    facts = facts_of(page)
    assert (facts["partitions"], facts["logs"], facts["without_leader"], facts["under_replicated"]) == (2, 1, 1, 1)


def test_a_replica_of_an_earlier_topic(tmp_path: Path) -> None:
    path = ClusterMaker(tmp_path).add(1, t_0=MadeReplica(segments={0: [records(0)]}))
    write_metadata(path, {"t": {0: state_of(1)}})
    (path / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_to_text(topic_id('other'))}")
    [row] = rows_of(read_page(path, "/topics/t"), "partitions")
    assert "it belongs to an earlier topic of this name" in row["problem"]


def test_a_replica_past_the_leader(tmp_path: Path) -> None:
    made = ClusterMaker(tmp_path)
    paths = [
        made.add(1, t_0=MadeReplica(segments={0: [records(0)]})),
        made.add(2, t_0=MadeReplica(segments={0: [records(0), records(10)]})),
    ]
    write_metadata(paths[0], {"t": {0: state_of(1, 2)}})
    found = rows_of(read_page(paths, "/topics/t"), "partitions")
    assert [row["lag"] for row in found] == [0, -10]
    assert "10 offsets after the leader's log end" in found[1]["problem"]


def test_settings_and_their_sources(tmp_path: Path) -> None:
    made = ClusterMaker(tmp_path)
    paths = [made.add(number, t_0=MadeReplica(segments={0: [records(0)]})) for number in (1, 2)]
    changes = [
        setting("t", "retention.ms", "86400000"),
        setting("t", "cleanup.policy", "nonsense"),
        setting("t", "secret.of.a.plugin", "hunter2"),
        broker_setting("", "log.segment.bytes", "1048576"),
        broker_setting("2", "log.retention.bytes", "77"),
    ]
    for path in paths:
        write_metadata(path, {"t": {0: state_of(1, 2)}}, changes=changes)
    page = read_page(paths, "/topics/t")
    found = {row["key"]: row for row in rows_of(page, "settings")}
    assert (found["retention.ms"]["value"], found["retention.ms"]["source"]) == ("86400000", "topic")
    assert (found["retention.ms"]["in_words"], found["retention.ms"]["default"]) == ("1 day", "604800000")
    assert (found["segment.bytes"]["value"], found["segment.bytes"]["source"]) == ("1048576", "all brokers")
    assert found["retention.bytes"]["elsewhere"] == "node 2: 77 (broker 2)"
    assert found["cleanup.policy"]["in_words"].startswith("invalid: ")
    assert found["secret.of.a.plugin"]["value"] == "(redacted)"
    rest = {row["key"] for row in rows_of(page, "defaults")}
    assert "flush.ms" in rest
    assert not rest & found.keys()


def test_settings_are_those_of_the_golden_set(golden: GoldenFactory) -> None:
    page = read_page(golden(SCENARIOS), "/topics/compacted")
    [policy] = [row for row in rows_of(page, "settings") if row["key"] == "cleanup.policy"]
    assert (policy["value"], policy["source"]) == ("compact", "topic")


def test_internal_topics_are_explained(golden: GoldenFactory) -> None:
    path = golden(EVERYTHING["4.4"])
    for topic in ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"):
        page = read_page(path, f"/topics/{topic}")
        assert facts_of(page)["purpose"]
        assert rows_of(page, "partitions")
    assert "No setting applies" in section_of(read_page(path, "/topics/__cluster_metadata"), "settings").text


def test_only_the_shown_partitions_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(60):
        write_segment(tmp_path / f"t-{number}", 0, [plain(0, size=20 + number)])
    mark_clean(tmp_path)
    opened: list[str] = []

    def describe(view: LogView) -> ReplicaFacts:
        opened.append(view.directory.name)
        return describe_replica(view)

    monkeypatch.setattr("tidelog.web.reports.topic_replicas.describe_replica", describe)
    page = read_page(tmp_path, "/topics/t?partitions.size=10&partitions.page=2&partitions.sort=-bytes")
    assert [row["partition"] for row in rows_of(page, "partitions")] == list(range(49, 39, -1))
    assert len(opened) == 10
    section = section_of(page, "sizes")
    check_picture(section)
    assert section.picture is not None
    assert len(section.picture.items) == 60


def test_directories_that_come_or_go(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0.0123456789abcdef0123456789abcdef-stray", 0, [plain(0)])
    write_segment(tmp_path / "u-0", 0, [plain(0)])
    [row] = rows_of(read_page(tmp_path, "/topics/t"), "passing")
    assert row["purpose"] == "stray"


def test_damage_is_a_problem_of_its_row(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    (tmp_path / "t-1" / f"{0:020d}.log").mkdir(parents=True)
    write_segment(tmp_path / "t-2", 0, [plain(0)])
    (tmp_path / "t-2" / "partition.metadata").write_text("<b>")
    found = rows_of(read_page(tmp_path, "/topics/t"), "partitions")
    assert [bool(row["problem"]) for row in found] == [False, True, True]
    assert found[2]["log_end"] == 10


def test_unknown_topics(golden: GoldenFactory) -> None:
    with pytest.raises(NotFoundError):
        read_page(golden(SCENARIOS), "/topics/unknown")
    with serving(golden(SCENARIOS)) as served:
        response = served.ready("/topics/%3Cscript%3E")
        assert response.status == 404
        assert "<script>" not in response.text
        assert served.ready("/topics/plain?partitions.sort=x").status == 400
        assert '<a href="/logs/0/plain-0">' in served.ready("/topics/plain").text
