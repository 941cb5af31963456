"""Requests about groups for two brokers, and the brokers' responses in a comparable form.

Each generated id is replaced by a number, counted from its first appearance. Timestamps are replaced by a constant.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import UUID

from server.harness import WireClient
from tidelog.api import open_log
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.record.internal_records.group_record import GroupRecord

_MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIMES = {
    "assignmentTimestamp",
    "commitTimestamp",
    "currentStateTimestamp",
    "expireTimestamp",
    "timestamp",
    "version",
}
_IDS = {"metadataHash", "topicId"}
"""Fields that depend on generated topic ids."""
_WAIT = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
_PATIENCE_S = 200
_NOBODYS_ID = UUID(int=7)

BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that contains topic names."""
RANGE = [{"name": "range", "metadata": b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0"}]


class Script:
    """The requests with their responses. ``names`` maps generated ids to their replacements."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.replies: list[Any] = []
        self.names: dict[str, str] = {}

    def call(self, api: ApiKey, version: int | None = None, /, **values: Any) -> Struct:
        answer = self.client.call(api, version, **values)
        self.replies.append((api.name, self.plain(answer)))
        return answer

    def find(self, group: str) -> None:
        """Wait for the coordinator, which Kafka needs a moment to load."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            (found,) = self.client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group]).coordinators
            asked = self.client.call(ApiKey.OFFSET_FETCH, BY_NAME, groups=[{"group_id": group, "topics": None}]).groups[
                0
            ]
            if found.error_code not in _WAIT and asked.error_code not in _WAIT:
                return
            assert time.monotonic() < deadline, (found, asked)
            time.sleep(0.05)

    def until_known(self, api: ApiKey, **values: Any) -> Struct:
        """Return the response once the coordinator is available."""
        deadline = time.monotonic() + _PATIENCE_S
        while (answer := self.client.call(api, **values)).error_code:
            assert answer.error_code in _WAIT, answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)
        return answer

    def plain(self, value: Any) -> Any:
        if isinstance(value, Struct):
            names: tuple[str, ...] = value.__slots__
            return {name: self.plain(getattr(value, name)) for name in names}
        if isinstance(value, Mapping):
            return {name: self.field(name, part) for name, part in value.items()}
        if isinstance(value, tuple | list):
            return sorted((self.plain(part) for part in value), key=_place)
        if isinstance(value, UUID):
            return self.name_of(str(value))
        return _MADE_UP.sub(lambda found: self.name_of(found[0]), value) if isinstance(value, str) else value

    def field(self, name: str, value: Any) -> Any:
        if name in _TIMES:
            return "time"
        return "made up" if name in _IDS else self.plain(value)

    def name_of(self, made_up: str) -> str:
        return self.names.setdefault(made_up, f"#{len(self.names)}")

    def records(self, directory: Path) -> list[Any]:
        """Return the written records of all groups by partition. Consecutive records of one type are sorted by key."""
        written = [
            (
                record.number,
                self.plain(record.key),
                record.version,
                None if record.value is None else self.plain(record.value),
            )
            for path in sorted(directory.glob("__consumer_offsets-*"))
            for record in _records_of(path)
        ]
        return [record for _, run in groupby(written, itemgetter(0)) for record in sorted(run, key=_key_text)]


def _key_text(record: tuple[Any, ...]) -> str:
    return repr(record[1])


def _place(part: Any) -> Any:
    """Return a sort key. Kafka lists partitions and members in its hash maps' sequence."""
    names = ("partition_index", "member_id", "group_id")
    return [str(part.get(name, "")) for name in names] if isinstance(part, dict) else []


def _records_of(path: Path) -> Iterator[GroupRecord]:
    with open_log(path) as log:
        for record in log.records():
            assert record.key is not None
            read = GroupRecord.read(record.key, record.value)
            assert read is not None
            yield read


def classic_life(script: Script) -> tuple[str, int]:
    """Run a classic group: members join, commit, fail and leave. Return the remaining member's id and generation."""
    script.find("c")
    call = script.call
    joining = _joining("c")
    call(ApiKey.HEARTBEAT, group_id="c", member_id="who", generation_id=1)
    call(ApiKey.JOIN_GROUP, **{**joining, "member_id": "who"})
    call(ApiKey.JOIN_GROUP, **{**joining, "session_timeout": 1})
    call(ApiKey.JOIN_GROUP, **{**joining, "group_id": ""})
    one = call(ApiKey.JOIN_GROUP, **joining).member_id
    joined = call(ApiKey.JOIN_GROUP, **joining, member_id=one)
    who = {
        "group_id": "c",
        "member_id": one,
        "generation_id": joined.generation_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    heart = {name: who[name] for name in ("group_id", "member_id", "generation_id")}
    call(ApiKey.OFFSET_COMMIT, BY_NAME, **_commit("c", one, joined.generation_id))
    call(ApiKey.SYNC_GROUP, **{**who, "generation_id": 7})
    call(ApiKey.SYNC_GROUP, **{**who, "protocol_name": "sticky"})
    call(ApiKey.SYNC_GROUP, **heart)
    call(ApiKey.SYNC_GROUP, **who, assignments=[{"member_id": one, "assignment": b"\0\1\0\0\0\0\xff\xff\xff\xff"}])
    call(ApiKey.SYNC_GROUP, **who)
    call(ApiKey.HEARTBEAT, **heart)
    call(ApiKey.HEARTBEAT, **{**heart, "generation_id": 9})
    call(ApiKey.HEARTBEAT, **{**heart, "group_instance_id": "i"})
    call(ApiKey.JOIN_GROUP, **{**joining, "protocol_type": "connect"})
    for member, generation in ((one, joined.generation_id), ("", -1), (one, 9), ("who", 1)):
        call(ApiKey.OFFSET_COMMIT, BY_NAME, **_commit("c", member, generation))
    call(
        ApiKey.OFFSET_FETCH, BY_NAME, groups=[{"group_id": "c", "topics": None}, {"group_id": "nobody", "topics": None}]
    )
    call(
        ApiKey.OFFSET_FETCH,
        BY_NAME,
        groups=[{"group_id": "c", "topics": [{"name": "t", "partition_indexes": [0, 1, 9]}]}],
    )
    call(ApiKey.OFFSET_DELETE, group_id="c", topics=[{"name": "t", "partitions": [{"partition_index": 0}]}])
    call(ApiKey.LIST_GROUPS, states_filter=["stable"])
    call(ApiKey.LIST_GROUPS, states_filter=["Empty"], types_filter=["classic"])
    call(ApiKey.DESCRIBE_GROUPS, groups=["c", "nobody"], include_authorized_operations=True)
    call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["c", "nobody"])
    call(ApiKey.DELETE_GROUPS, groups_names=["c", "nobody"])
    call(ApiKey.LEAVE_GROUP, group_id="c", members=[{"member_id": "who"}, {"member_id": "", "group_instance_id": "i"}])
    static = call(ApiKey.JOIN_GROUP, **{**joining, "group_id": "s"}, group_instance_id="i").member_id
    again = call(ApiKey.JOIN_GROUP, **{**joining, "group_id": "s"}, group_instance_id="i")
    call(ApiKey.HEARTBEAT, group_id="s", member_id=static, generation_id=2, group_instance_id="i")
    call(ApiKey.LEAVE_GROUP, group_id="s", members=[{"member_id": again.member_id, "group_instance_id": "i"}])
    call(ApiKey.DELETE_GROUPS, groups_names=["s"])
    return one, joined.generation_id


def consumer_life(script: Script) -> int:
    """Run a consumer group: members join, fail and leave. Return the last epoch of ``m1``."""
    script.find("k")
    first = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}

    def beat(member: str, epoch: int, **fields: Any) -> Struct:
        return script.call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id="k", member_id=member, member_epoch=epoch, **fields
        )

    beat("m1", 1)
    beat("m1", 0, rebalance_timeout=60_000)
    beat("m1", 0, **first, server_assignor="mine")
    joined = beat("m1", 0, **first, rack_id="r1")
    one = joined.member_epoch
    two = one + 1
    topic_id = joined.assignment.topic_partitions[0].topic_id
    beat("m1", one)
    beat("m1", 5)
    beat("m2", 0, **first, instance_id="i2")
    beat("m3", 0, **first, instance_id="i2")
    beat("m2", two, instance_id="i2")
    told = beat("m1", one, topic_partitions=[{"topic_id": topic_id, "partitions": [0, 1]}])
    kept = list(told.assignment.topic_partitions[0].partitions)
    beat("m1", one, topic_partitions=[{"topic_id": topic_id, "partitions": kept}])
    beat("m2", two, instance_id="i2")
    script.call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["k"], include_authorized_operations=True)
    script.call(ApiKey.DESCRIBE_GROUPS, groups=["k"])
    script.call(ApiKey.LIST_GROUPS, types_filter=["consumer"])
    for member, epoch in (("m1", two), ("m1", one), ("who", 2), ("", -1)):
        script.call(ApiKey.OFFSET_COMMIT, BY_NAME, **_commit("k", member, epoch))
    asked = {"group_id": "k", "topics": None}
    for member, epoch in (("m1", two), ("m1", one), ("who", 1)):
        script.call(ApiKey.OFFSET_FETCH, BY_NAME, groups=[{**asked, "member_id": member, "member_epoch": epoch}])
    script.call(ApiKey.DELETE_GROUPS, groups_names=["k"])
    beat("m2", -2, instance_id="i2")
    beat("m4", 0, **first, instance_id="i2")
    beat("m4", -1, instance_id="i2")
    beat("m1", two, topic_partitions=[{"topic_id": topic_id, "partitions": kept}])
    beat("m5", 0, **{**first, "subscribed_topic_names": None}, subscribed_topic_regex="[")
    return int(beat("m1", two + 1, subscribed_topic_names=["t", "later"]).member_epoch)


def ids_life(script: Script) -> None:
    """Commit and fetch offsets by topic id in a group without members. One topic is created again."""
    script.find("o")
    topics = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in ("ids", "again")]
    made = {topic.name: topic.topic_id for topic in script.client.call(ApiKey.CREATE_TOPICS, topics=topics).topics}
    _commit_by_id(script, made["again"], made["ids"], _NOBODYS_ID, UUID(int=0))
    _fetch_by_id(script, made["again"], made["ids"], _NOBODYS_ID, UUID(int=0))
    script.client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "again"}], timeout=60_000)
    again = script.client.call(ApiKey.CREATE_TOPICS, topics=topics[1:]).topics[0].topic_id
    wait_until_known(script, again)
    _fetch_by_id(script, made["again"], made["ids"], again)
    script.call(ApiKey.OFFSET_FETCH, BY_NAME, groups=[{"group_id": "o", "topics": None}])
    parts = [{"name": "again", "partition_indexes": [0]}]
    script.call(ApiKey.OFFSET_FETCH, BY_NAME, groups=[{"group_id": "o", "topics": parts}])
    _commit_by_id(script, again)
    _fetch_by_id(script, made["again"], again)


def _commit_by_id(script: Script, *topic_ids: UUID) -> None:
    """Send the commit as soon as the broker knows the first topic."""
    fields = _commit("o", "", -1)
    parts = fields["topics"][0]["partitions"]
    fields["topics"] = [{"topic_id": one, "partitions": parts} for one in topic_ids]
    wait_until_known(script, topic_ids[0])
    script.call(ApiKey.OFFSET_COMMIT, **fields)


def _fetch_by_id(script: Script, *topic_ids: UUID) -> None:
    some = [{"topic_id": one, "partition_indexes": [0, 1, 9]} for one in topic_ids]
    for topics in (some, None):
        script.call(ApiKey.OFFSET_FETCH, groups=[{"group_id": "o", "topics": topics}])


def wait_until_known(script: Script, topic_id: UUID) -> None:
    """Wait for the broker: Kafka's broker knows a topic a moment after its controller."""
    deadline = time.monotonic() + _PATIENCE_S
    asked = [{"name": None, "topic_id": topic_id}]
    while script.client.call(ApiKey.METADATA, topics=asked).topics[0].error_code:
        assert time.monotonic() < deadline
        time.sleep(0.05)


SHARE, EMPTY_SHARE, STREAMS, EMPTY_STREAMS = UNSERVED = ("share", "empty-share", "streams", "empty-streams")


def make_unserved_groups(script: Script) -> None:
    """Create share groups and streams groups in Kafka's broker: one of each with a member, and one without."""
    topology = {
        "epoch": 0,
        "subtopologies": [
            {"subtopology_id": "0", "source_topics": ["t"]}
            | dict.fromkeys(("source_topic_regex", "state_changelog_topics", "copartition_groups"), ())
            | dict.fromkeys(("repartition_sink_topics", "repartition_source_topics"), ())
        ],
    }
    tasks: dict[str, list[object]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    beats: dict[ApiKey, dict[str, Any]] = {
        ApiKey.SHARE_GROUP_HEARTBEAT: {"member_id": "A" * 22, "subscribed_topic_names": ["t"]},
        ApiKey.STREAMS_GROUP_HEARTBEAT: {
            "member_id": "m",
            "endpoint_information_epoch": 0,
            "rebalance_timeout": 60_000,
            "topology": topology,
            "process_id": "p",
            "client_tags": [],
            **tasks,
        },
    }
    for api, names in zip(beats, (UNSERVED[:2], UNSERVED[2:]), strict=True):
        for name in names:
            script.find(name)
            script.until_known(api, group_id=name, member_epoch=0, **beats[api])
        leaving = {"group_id": names[1], "member_id": beats[api]["member_id"], "member_epoch": -1}
        more = {"endpoint_information_epoch": 0} if api is ApiKey.STREAMS_GROUP_HEARTBEAT else {}
        assert script.client.call(api, **leaving, **more).error_code == 0


def unserved_life(script: Script) -> None:
    """Send other APIs' requests about those groups. The empty streams group becomes a classic group and is deleted."""
    call = script.call
    for group in UNSERVED:
        script.find(group)
        joining = _joining(group)
        for list_filter in ({}, {"types_filter": ["share"]}, {"types_filter": ["streams"], "states_filter": ["empty"]}):
            call(ApiKey.LIST_GROUPS, **list_filter)
        call(ApiKey.DESCRIBE_GROUPS, groups=[group])
        call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=[group])
        who = {"group_id": group, "member_id": "m", "generation_id": 1}
        call(ApiKey.SYNC_GROUP, **who, protocol_type="consumer", protocol_name="range")
        call(ApiKey.HEARTBEAT, **who)
        call(ApiKey.LEAVE_GROUP, group_id=group, members=[{"member_id": "m"}])
        for member, epoch in (("", -1), ("who", 1)):
            for version in (BY_NAME - 1, BY_NAME):
                call(ApiKey.OFFSET_COMMIT, version, **_commit(group, member, epoch))
            asked = {"group_id": group, "member_id": member or None, "member_epoch": epoch, "topics": None}
            call(ApiKey.OFFSET_FETCH, BY_NAME, groups=[asked])
        for epoch in (1, 0, -1):
            fields = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
            first = fields if epoch == 0 else {}
            call(ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id=group, member_id="m", member_epoch=epoch, **first)
        call(ApiKey.OFFSET_DELETE, group_id=group, topics=[{"name": "t", "partitions": [{"partition_index": 0}]}])
        call(ApiKey.JOIN_GROUP, **joining)
        call(ApiKey.JOIN_GROUP, **joining, member_id="m")
        if group != EMPTY_SHARE:
            call(ApiKey.DELETE_GROUPS, groups_names=[group])
    call(ApiKey.LIST_GROUPS)


def regex_life(script: Script) -> None:
    """Run a group with a regular expression, which Kafka resolves in the background."""
    script.find("r")
    fields = {"group_id": "r", "member_id": "m1"}
    joining = {"rebalance_timeout": 60_000, "subscribed_topic_regex": "t|u", "topic_partitions": []}
    first = script.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, **fields, member_epoch=0, **joining).member_epoch
    deadline = time.monotonic() + _PATIENCE_S
    while script.client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, **fields, member_epoch=first).member_epoch == first:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    script.call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["r"])
    script.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, **fields, member_epoch=-1)


def moving_life(script: Script) -> None:
    """Run a classic group that becomes a consumer group, and a classic group again."""
    script.find("m")
    call = script.call
    joining = _joining("m")
    one = call(ApiKey.JOIN_GROUP, **joining).member_id
    joined = call(ApiKey.JOIN_GROUP, **joining, member_id=one)
    everything = b"\0\1\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
    who = {"group_id": "m", "member_id": one, "generation_id": joined.generation_id}
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    call(ApiKey.SYNC_GROUP, **who, **protocol, assignments=[{"member_id": one, "assignment": everything}])
    new = {"group_id": "m", "member_id": "new"}
    first = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    call(ApiKey.CONSUMER_GROUP_HEARTBEAT, **new, member_epoch=0, **first)
    call(ApiKey.HEARTBEAT, **who)
    call(ApiKey.HEARTBEAT, **{**who, "member_id": "new"})
    call(ApiKey.SYNC_GROUP, **who, **protocol)
    owned = [{"name": "range", "metadata": _subscription(0, 1)}]
    call(ApiKey.JOIN_GROUP, **{**joining, "protocols": owned}, member_id=one)
    kept = call(ApiKey.SYNC_GROUP, **who, **protocol).assignment[-5]
    call(ApiKey.HEARTBEAT, **who)
    owned = [{"name": "range", "metadata": _subscription(kept)}]
    call(ApiKey.JOIN_GROUP, **{**joining, "protocols": owned}, member_id=one)
    call(ApiKey.SYNC_GROUP, **{**who, "generation_id": 2}, **protocol)
    call(ApiKey.HEARTBEAT, **{**who, "generation_id": 2})
    call(ApiKey.CONSUMER_GROUP_HEARTBEAT, **new, member_epoch=2)
    call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["m"])
    call(ApiKey.CONSUMER_GROUP_HEARTBEAT, **new, member_epoch=-1)
    call(ApiKey.HEARTBEAT, **{**who, "generation_id": 2})
    call(ApiKey.JOIN_GROUP, **joining, member_id=one)
    call(ApiKey.LEAVE_GROUP, group_id="m", members=[{"member_id": one}])


def _joining(group: str) -> dict[str, Any]:
    """Return a JoinGroup request with a session that does not expire during a test."""
    return {
        "group_id": group,
        "session_timeout": 1_000_000,
        "rebalance_timeout": 60_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
    }


def _subscription(*owned: int) -> bytes:
    """Return the subscription of a consumer that reads ``t`` and owns these partitions."""
    parts = b"".join(number.to_bytes(4, "big") for number in owned)
    head = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\1\0\1t"
    return head + len(owned).to_bytes(4, "big") + parts


def _commit(group: str, member: str, epoch: int) -> dict[str, Any]:
    parts = [{"partition_index": number, "committed_offset": 5, "committed_metadata": "m"} for number in (0, 9)]
    return {
        "group_id": group,
        "member_id": member,
        "generation_id_or_member_epoch": epoch,
        "topics": [{"name": "t", "partitions": parts}, {"name": "gone", "partitions": parts}],
    }
