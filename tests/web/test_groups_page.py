"""The pages of groups: lags, members and expiry, compared with the commands' reports and with kafka-dump-log."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from cli.runner import rows as command_rows
from cluster_maker import ClusterMaker, MadeReplica, records, state_of, topic_id, write_metadata
from conftest import GoldenFactory
from golden_sets import CLUSTER, EVERYTHING, FLIGHTS, SCENARIOS, UNCLEAN_ELECTION
from group_maker import MEMBER_ID, classic_group, commit, record_batch, subscription, write_groups
from log_maker import BASE_TIME, TRANSACTIONAL, batch, marker, plain, write_checkpoint, write_segment
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.record.rows import iter_records
from tidelog.server.groups.state.consumer_protocol import write_assignment
from tidelog.storage.checkpoint import uuid_to_text
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCheckpoint
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView
from tidelog.web.sources import NotFoundError
from tidelog.web.urls import group_url
from web.asgi_client import asgi_client
from web.harness import check_picture, facts_of, read_page, rows_of, section_of, serving

NEWEST = EVERYTHING["4.4"]
WEEK_MS = 7 * 86_400_000
SAME = ["topic", "partition", "offset", "lag", "stable_lag", "log_start", "last_stable", "log_end"]
SAME += ["leader_epoch", "commit_timestamp", "metadata"]


def groups_of(path: Path, query: str = "") -> dict[str, dict[str, Any]]:
    return {row["group"]: row for row in rows_of(read_page(path, f"/groups{query}"), "groups")}


# --- Kafka's own directories ---


@pytest.mark.parametrize(("set_name", "kind"), [(NEWEST, "clean"), (NEWEST, "unclean"), (FLIGHTS, "clean")])
def test_the_offsets_are_those_of_the_command(golden: GoldenFactory, set_name: str, kind: str) -> None:
    path = golden(set_name, kind)
    expected = command_rows("offsets", path, "--groups")
    assert expected
    for group in {row["group"] for row in expected}:
        page = read_page(path, f"{group_url(group)}?offsets.size=1000")
        found = rows_of(page, "offsets")
        wanted = sorted(
            (row for row in expected if row["group"] == group), key=lambda row: (row["topic"], row["partition"])
        )
        assert [{name: row[name] for name in SAME} for row in found] == [
            {name: row[name] for name in SAME} for row in wanted
        ]
        assert [(row["offsets_log"], row["record_offset"]) for row in found] == [
            (f"__consumer_offsets-{row['offsets_partition']}", row["offsets_offset"]) for row in wanted
        ]
        assert groups_of(path)[group]["lag"] == facts_of(page)["lag"] == sum(row["lag"] for row in wanted)
        check_picture(section_of(page, "offsets"))


def test_the_three_types_of_groups(golden: GoldenFactory) -> None:
    found = groups_of(golden(NEWEST))
    assert {name: (row["type"], row["state"], row["epoch"], row["members"]) for name, row in found.items()} == {
        "classic-readers": ("classic", "Empty", 2, 0),
        "consumer-readers": ("consumer", "Empty", 3, 0),
        "share-readers": ("share", "Empty", 4, 0),
    }
    page = read_page(golden(NEWEST), "/groups?type=share")
    assert [row["group"] for row in rows_of(page, "groups")] == ["share-readers"]
    assert facts_of(page)["groups"] == 3
    check_picture(section_of(page, "groups"))


def test_lags_in_records_are_those_that_kafka_dumps(golden: GoldenFactory) -> None:
    page = read_page(golden(NEWEST), "/groups/consumer-readers?count=1")
    dump = (golden(NEWEST, "dump-clean") / "txn-0.txt").read_text()
    data = [int(line[1]) for line in re.finditer(r"^\| offset: (\d+) (?!.*endTxnMarker)", dump, re.MULTILINE)]
    counted = {(row["topic"], row["partition"]): row["records"] for row in rows_of(page, "offsets")}
    assert counted == {("plain", 2): 245, ("txn", 0): sum(offset >= 30 for offset in data)}
    assert rows_of(read_page(golden(NEWEST), "/groups/consumer-readers"), "offsets")[0]["records"] is None


def test_a_share_group_has_the_state_that_kafka_dumps(golden: GoldenFactory) -> None:
    dump = (golden(NEWEST, "dump-clean") / "__share_group_state-1.txt").read_text()
    last = json.loads(re.findall(r"payload: (\{.*\})$", dump, re.MULTILINE)[-1])["data"]
    (row,) = rows_of(read_page(golden(NEWEST), "/groups/share-readers"), "share")
    assert (row["topic"], row["partition"], row["start_offset"]) == ("shared", 0, last["startOffset"])
    assert row["lag"] == 40 - last["startOffset"] - last["deliveryCompleteCount"] == 25
    assert (row["deliveries"], row["state_log"]) == ("1 acknowledged", "__share_group_state-1")
    assert groups_of(golden(NEWEST))["share-readers"]["lag"] == 25


def test_a_partition_on_several_brokers_is_read_once(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    page = read_page([brokers / f"broker{number}" for number in (1, 2, 3)], "/groups")
    logs = [row["log"] for row in rows_of(page, "logs")]
    assert len(logs) == len(set(logs))
    names = {path.name for number in (1, 2, 3) for path in (brokers / f"broker{number}").glob("__consumer_offsets-*")}
    assert set(logs) == names


def test_a_directory_without_groups(golden: GoldenFactory) -> None:
    page = read_page(golden(SCENARIOS), "/groups")
    assert rows_of(page, "groups") == []
    assert section_of(page, "groups").table.empty == "There are no groups here."  # type: ignore[union-attr]


# --- made groups ---


def test_members_of_a_classic_group(tmp_path: Path) -> None:
    assignment = write_assignment({"t": [0, 1, 2, 5]}, 1)
    members = [
        {"memberId": "a", "groupInstanceId": "one", "assignment": assignment, "subscription": subscription("t", "u")},
        {"memberId": "b", "clientId": "other", "assignment": b"\0\1\xff"},
    ]
    write_groups(tmp_path, [commit("g", 1), classic_group("g", members=members, generation=7)])
    page = read_page(tmp_path, "/groups/g")
    first, second = rows_of(page, "members")
    assert (first["instance_id"], first["assigned"], first["subscription"]) == ("one", "t: 0-2, 5", "t, u")
    assert (first["role"], second["role"], first["epoch"], first["record_offset"]) == ("leader", None, 7, 1)
    assert second["assigned"].startswith("3 bytes that are no assignment: ")
    assert (facts_of(page)["state"], facts_of(page)["leader"]) == ("Stable", "a")
    connect = classic_group("connect", members=[{"assignment": b"12345"}], protocol_type="connect")
    write_groups(tmp_path, [connect])
    assert rows_of(read_page(tmp_path, "/groups/connect"), "members")[0]["assigned"] == "5 bytes"


def test_members_of_the_other_types(tmp_path: Path) -> None:
    write_metadata(tmp_path, {"t": {0: state_of(1)}})
    place = {"topicId": uuid_to_text(topic_id("t")), "partitions": [0, 1]}
    who: dict[str, Any] = {"rackId": None, "clientId": "c", "clientHost": "/h"}
    consumer: dict[str, Any] = {"instanceId": "i", **who, "subscribedTopicNames": ["t"], "subscribedTopicRegex": "x.*"}
    consumer |= {"rebalanceTimeoutMs": 1, "serverAssignor": "uniform"}
    streams = {"instanceId": None, **who, "rebalanceTimeoutMs": 1, "topologyEpoch": 0, "processId": "p"}
    tasks: dict[str, Any] = {name: [] for name in ("standbyTasks", "warmupTasks", "activeTasksPendingRevocation")}
    tasks |= {"standbyTasksPendingRevocation": [], "warmupTasksPendingRevocation": []}
    current: dict[str, Any] = {"memberEpoch": 4, "previousMemberEpoch": 3, "state": 0}

    def of(group: str, number: int, value: dict[str, Any], *, member: bool = True) -> GroupRecord:
        return GroupRecord(number, {"groupId": group} | ({"memberId": MEMBER_ID} if member else {}), value)

    write_groups(
        tmp_path,
        [
            of("c", 3, {"epoch": 4, "metadataHash": 0}, member=False),
            of("c", 5, consumer),
            of("c", 7, {"topicPartitions": [place]}),
            of(
                "c",
                8,
                {**current, "assignedPartitions": [{**place, "partitions": [1]}], "partitionsPendingRevocation": []},
            ),
            of("s", 11, {"epoch": 4, "metadataHash": 0}, member=False),
            of("s", 10, {**who, "subscribedTopicNames": ["t"]}),
            of("s", 14, {**current, "assignedPartitions": [place]}),
            of("k", 17, {"epoch": 4, "metadataHash": 0}, member=False),
            of("k", 19, {**streams, "userEndpoint": None, "clientTags": []}),
            of("k", 22, {**current, **tasks, "activeTasks": [{"subtopologyId": "0", "partitions": [3]}]}),
        ],
    )
    (member,) = rows_of(read_page(tmp_path, "/groups/c"), "members")
    assert (member["assigned"], member["target"], member["subscription"]) == ("t: 1", "t: 0-1", "t, /x.*/")
    assert (member["epoch"], member["state"], member["record_offset"]) == (4, "stable", 1)
    (member,) = rows_of(read_page(tmp_path, "/groups/s"), "members")
    assert (member["assigned"], member["epoch"], member["client_id"]) == ("t: 0-1", 4, "c")
    (member,) = rows_of(read_page(tmp_path, "/groups/k"), "members")
    assert member["assigned"] == "active tasks 0: 3"
    assert {name: row["type"] for name, row in groups_of(tmp_path).items()} == {
        "c": "consumer",
        "s": "share",
        "k": "streams",
    }


def test_expiry_follows_the_rules_of_a_coordinator(tmp_path: Path) -> None:
    write_groups(
        tmp_path,
        [
            commit("offsets-only", 1),
            classic_group("empty"),
            commit("empty", 1, commit_ms=BASE_TIME + 5),
            classic_group("reads", members=[{}]),
            commit("reads", 1),
            commit("reads", 1, topic="unread"),
        ],
    )
    found = groups_of(tmp_path)
    assert {name: (row["expired"], row["expires"]) for name, row in found.items()} == {
        "offsets-only": (1, BASE_TIME + WEEK_MS),
        "empty": (1, BASE_TIME + WEEK_MS),  # counted from the time at which the group became empty
        "reads": (1, None),
    }
    assert {row["expired"] for row in groups_of(tmp_path, "?retention=2147483647").values()} == {0}
    topics = {row["topic"]: row for row in rows_of(read_page(tmp_path, "/groups/reads"), "offsets")}
    assert (topics["t"]["expires"], topics["t"]["is_expired"]) == (None, False)
    assert topics["unread"]["is_expired"]
    assert "expired" in topics["unread"]["remark"]


def test_remarks_on_offsets_outside_of_the_log(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0, 10)])
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {"t-0": 4})
    write_groups(
        tmp_path, [commit("low", 2), commit("high", 50), commit("away", 1, topic="elsewhere"), commit("in", 6)]
    )
    (low,) = rows_of(read_page(tmp_path, "/groups/low"), "offsets")
    assert (low["lag"], low["log_start"]) == (6, 4)
    assert "below the log start" in low["remark"]
    (high,) = rows_of(read_page(tmp_path, "/groups/high?count=1"), "offsets")
    assert (high["lag"], high["records"]) == (0, None)
    assert "beyond the log end" in high["remark"]
    (away,) = rows_of(read_page(tmp_path, "/groups/away?count=1"), "offsets")
    assert (away["lag"], away["remark"].split("; ")[-1]) == (None, "its log is not here")
    (inside,) = rows_of(read_page(tmp_path, "/groups/in"), "offsets")
    assert inside["lag"] == 4
    for group in ("low", "high", "in"):
        check_picture(section_of(read_page(tmp_path, f"/groups/{group}"), "offsets"))
    assert groups_of(tmp_path)["away"]["without_log"] == 1


def test_commits_of_an_open_transaction_do_not_count(tmp_path: Path) -> None:
    batches = [
        record_batch(0, commit("g", 1)),
        record_batch(1, commit("g", 2), attributes=TRANSACTIONAL, producer_id=7),
        marker(2, committed=True, producer_id=7),
        record_batch(3, commit("g", 3), attributes=TRANSACTIONAL, producer_id=8),
        marker(4, committed=False, producer_id=8),
        record_batch(5, commit("g", 4), attributes=TRANSACTIONAL, producer_id=9),
    ]
    write_segment(tmp_path / "__consumer_offsets-0", 0, batches)
    (row,) = rows_of(read_page(tmp_path, "/groups/g"), "offsets")
    assert (row["offset"], row["record_offset"]) == (2, 1)
    assert "an open transaction has a newer commit" in row["remark"]


def test_an_offset_of_a_deleted_topic_of_the_same_name(tmp_path: Path) -> None:
    write_metadata(tmp_path, {"t": {0: state_of(1)}})
    write_groups(tmp_path, [commit("g", 1, topic_id=uuid.UUID(int=99))])
    (row,) = rows_of(read_page(tmp_path, "/groups/g"), "offsets")
    assert "committed for a deleted topic of the same name" in row["remark"]


def test_the_replica_with_the_newest_epoch_is_read(tmp_path: Path) -> None:
    """The log of node 2 is shorter, and of a newer epoch. It counts if no metadata names a leader."""
    maker = ClusterMaker(tmp_path)
    older = [record_batch(0, commit("g", 1)), record_batch(1, commit("g", 2))]
    for node, epoch, batches in ((1, 0, older), (2, 1, [record_batch(0, commit("g", 7), epoch=1)])):
        log = maker.add(node, t_0=MadeReplica(segments={0: [records(0)]})) / "__consumer_offsets-0"
        write_segment(log, 0, batches)
        (log / LEADER_EPOCH_CHECKPOINT).write_bytes(LeaderEpochCheckpoint.format([EpochEntry(epoch, 0)]))
    page = read_page(maker.paths.values(), "/groups/g")
    (row,) = rows_of(page, "offsets")
    assert (row["offset"], row["lag"], row["offsets_log_dir"]) == (7, 3, "1")
    assert "each was read once" in " ".join(page.notes)
    assert [row["log_dir"] for row in rows_of(read_page(maker.paths.values(), "/groups"), "logs")] == ["1"]


def test_a_group_of_two_clusters_has_two_rows(tmp_path: Path) -> None:
    for number, offset in ((1, 5), (2, 6)):
        path = tmp_path / f"cluster{number}"
        write_groups(path, [commit("g", offset)])
        (path / "meta.properties").write_text(f"version=1\ncluster.id=cluster{number}\nnode.id=1\n")
        write_segment(path / "t-0", 0, [plain(0, 10 * number)])
    paths = [tmp_path / "cluster1", tmp_path / "cluster2"]
    found = rows_of(read_page(paths, "/groups"), "groups")
    assert [(row["url"], row["lag"]) for row in found] == [("/groups/g?from=0", 5), ("/groups/g?from=1", 14)]
    assert rows_of(read_page(paths, "/groups/g?from=1"), "offsets")[0]["offset"] == 6


# --- hostile data ---

HOSTILE = [
    "",
    ".",
    "..",
    "a/b",
    "~",
    "%2F",
    "a b?c#d&e=f",
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "\u202egnp.exe",
    "line\nbreak\ttab\x1b[31m\x00",
    "g" * 249,
    "ü" * 300,
]


def test_hostile_names_have_pages(tmp_path: Path) -> None:
    write_groups(tmp_path, [commit(name, number, metadata=name[:50]) for number, name in enumerate(HOSTILE)])
    with serving(tmp_path) as served:
        listed = served.ready("/groups.json").json["sections"]["groups"]["rows"]
        assert len(listed) == len(HOSTILE)
        html = served.ready("/groups").text
        assert "<script>alert" not in html
        assert "<img src=x" not in html
        assert "\u202e" not in html
        for row in listed:
            page = served.ready(row["url"])
            assert page.status == 200, row["group"]
            assert "<script>alert" not in page.text
            assert "<img src=x" not in page.text
        for number, name in enumerate(HOSTILE):
            found = served.ready(group_url(name) + "?count=0", accept="application/json").json
            assert found["sections"]["offsets"]["rows"][0]["offset"] == number


def test_very_long_names_are_shortened_and_have_no_link(tmp_path: Path) -> None:
    name = "x" * 30_000
    write_groups(tmp_path, [commit(name, 1, metadata="m" * 5000)])
    (row,) = rows_of(read_page(tmp_path, "/groups"), "groups")
    assert row["group"].endswith("… (30,000 characters)")
    assert (len(row["group"]) < 700, row["url"]) == (True, None)
    (offset,) = rows_of(read_page(tmp_path, group_url(name)), "offsets")
    assert offset["metadata"].endswith("… (5,000 characters)")


def test_records_that_cannot_be_decoded_are_counted(tmp_path: Path) -> None:
    twice = classic_group("g", members=[{"memberId": "a", "groupInstanceId": "i"}, {"groupInstanceId": "i"}])
    batches = [
        record_batch(0, commit("good", 1)),
        batch(1, [b"\0\0"], key=b"\0\x63"),
        batch(2, [b"\0\1\0"], key=commit("bad", 1).key_bytes()),
        record_batch(3, twice),
        batch(4, [b"value"], key=None),
    ]
    write_segment(tmp_path / "__consumer_offsets-0", 0, batches)
    page = read_page(tmp_path, "/groups")
    (log,) = rows_of(page, "logs")
    assert (log["undecoded"], log["first_undecoded"]) == (3, 1)
    assert "3 records of __consumer_offsets could not be decoded." in page.notes
    assert not section_of(page, "logs").is_folded
    assert "good" in groups_of(tmp_path)


def test_a_damaged_partition_does_not_hide_the_others(golden_copy: GoldenFactory) -> None:
    path = golden_copy(NEWEST)
    log = next(one for one in path.glob("__consumer_offsets-1/*.log"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    page = read_page(path, "/groups")
    assert {"classic-readers", "consumer-readers", "share-readers"} <= {row["group"] for row in rows_of(page, "groups")}
    assert str(log) in " ".join(page.notes)
    assert [row["error"] is None for row in rows_of(page, "logs")] == [True, False]
    with pytest.raises(NotFoundError, match="not all of them can be read"):
        read_page(path, "/groups/nobody")


def test_an_unknown_group_is_not_found(tmp_path: Path) -> None:
    write_groups(tmp_path, [commit("g", 1)])
    with pytest.raises(NotFoundError, match="names the group other"):
        read_page(tmp_path, "/groups/other")


def flipped(data: bytes, seed: int) -> bytes:
    at = seed * 7919 % len(data)
    return data[:at] + bytes([data[at] ^ (1 << seed % 8)]) + data[at + 1 :]


def test_flipped_bytes_in_records_are_never_an_error(golden: GoldenFactory, tmp_path: Path) -> None:
    """The checksums of these records are right, so each decoder sees the damage."""
    number = 0
    for topic, partition in (("__consumer_offsets", 0), ("__consumer_offsets", 1), ("__share_group_state", 1)):
        view = LogView(LOCAL, golden(NEWEST) / f"{topic}-{partition}")
        found = [
            (record.key, record.value)
            for chunk in view.columns(view.range())
            for record in iter_records(chunk.columns)
            if record.key is not None and record.value is not None
        ]
        batches = []
        for seed in range(40):
            for key, value in found:
                hurt = (flipped(key, seed), value) if seed % 3 else (key, flipped(value, seed))
                batches.append(batch(number, [hurt[1]], key=hurt[0]))
                number += 1
        write_segment(tmp_path / f"{topic}-{partition}", 0, batches)
    with asgi_client(tmp_path, wait_seconds=60) as client:
        listed = client.ready("/groups.json?groups.size=1000").json["sections"]["groups"]["rows"]
        assert len(listed) > 30
        for row in listed:
            assert client.ready(row["url"]).status == 200, row["url"]
