"""Requests about groups and their committed offsets."""

from __future__ import annotations

from collections.abc import Iterator

from server.authorization.case import (
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    UNKNOWN_ID,
    Case,
    Values,
    asked,
    committed,
    on_cluster,
    on_group,
    on_topic,
    on_transaction,
)
from server.authorization.world import CONSUMERS, GROUP, HIDDEN, HIDDEN_CONSUMERS, MEMBER, TOPIC, TRANSACTION, World
from tidelog.protocol.api_key import ApiKey
from tidelog.server.authorization.acl import Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import PatternType


def groups() -> Iterator[Case]:
    found = asked(ApiKey.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": [GROUP, HIDDEN]}, name="of groups")
    yield found.by("denied", denial=GROUP_DENIED)
    yield found.by("allowed", on_group(Operation.DESCRIBE), denial=GROUP_DENIED)
    old = asked(ApiKey.FIND_COORDINATOR, {"key_type": 0, "key": GROUP}, version=3, name="of a group, version 3")
    yield old.by("denied", denial=GROUP_DENIED)
    yield old.by("allowed", on_group(Operation.READ))
    transactions = asked(
        ApiKey.FIND_COORDINATOR, {"key_type": 1, "coordinator_keys": [TRANSACTION]}, name="of transactions"
    )
    yield transactions.by("denied", denial=TRANSACTION_DENIED)
    yield transactions.by("allowed", on_transaction(Operation.WRITE))
    joining = {
        "group_id": "j",
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    yield asked(ApiKey.JOIN_GROUP, joining).by("denied", denial=GROUP_DENIED)
    yield asked(ApiKey.JOIN_GROUP, joining).by("allowed", on_group(Operation.READ, "j"))
    member = {"group_id": GROUP, "generation_id": 1, "member_id": MEMBER}
    for api, more in (
        (ApiKey.HEARTBEAT, {}),
        (ApiKey.SYNC_GROUP, {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}),
    ):
        yield asked(api, member | more).by("denied", denial=GROUP_DENIED)
        yield asked(api, member | more).by("allowed", on_group(Operation.READ))
    leaving = {"group_id": GROUP, "members": [{"member_id": MEMBER}]}
    yield asked(ApiKey.LEAVE_GROUP, leaving).by("denied", denial=GROUP_DENIED)
    yield asked(ApiKey.LEAVE_GROUP, leaving).by("allowed", on_group(Operation.READ))
    described = asked(ApiKey.DESCRIBE_GROUPS, {"groups": [GROUP, HIDDEN], "include_authorized_operations": True})
    yield described.by("denied", denial=GROUP_DENIED)
    yield described.by("allowed", on_group(Operation.READ), on_group(Operation.ALTER_CONFIGS), denial=GROUP_DENIED)
    starred = asked(ApiKey.DESCRIBE_GROUPS, {"groups": ["*", "*s", "s"]}, name="whose names begin with a star")
    yield starred.by("allowed by the wildcard", on_group(Operation.DESCRIBE, "*"), denial=GROUP_DENIED)
    prefixed = on_group(Operation.DESCRIBE, "*", pattern=PatternType.PREFIXED)
    yield starred.by("allowed by a prefix", prefixed, denial=GROUP_DENIED)
    denied = (on_group(Operation.DESCRIBE, "*", permission=Permission.DENY), prefixed)
    yield starred.by("denied by the wildcard", *denied, denial=GROUP_DENIED)
    yield asked(ApiKey.LIST_GROUPS, {}).by("denied")
    yield asked(ApiKey.LIST_GROUPS, {}).by("allowed", on_group(Operation.DESCRIBE))
    yield asked(ApiKey.LIST_GROUPS, {}).by("allowed all", on_cluster(Operation.DESCRIBE))
    yield from _consumer_groups()


def _consumer_groups() -> Iterator[Case]:
    beat = {
        "group_id": "c",
        "member_id": MEMBER,
        "member_epoch": 0,
        "rebalance_timeout": 300_000,
        "subscribed_topic_names": [TOPIC, "none-such"],
        "topic_partitions": [],
    }
    beating = asked(ApiKey.CONSUMER_GROUP_HEARTBEAT, beat)
    yield beating.by("denied", denial=GROUP_DENIED)
    yield beating.by("denied the topics", on_group(Operation.READ, "c"), denial=TOPIC_DENIED)
    yield beating.by("denied a topic", on_group(Operation.READ, "c"), on_topic(Operation.DESCRIBE), denial=TOPIC_DENIED)
    yield beating.by(
        "allowed",
        on_group(Operation.READ, "c"),
        on_topic(Operation.DESCRIBE),
        on_topic(Operation.DESCRIBE, "none-such"),
    )
    described = asked(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        {"group_ids": [CONSUMERS, HIDDEN_CONSUMERS], "include_authorized_operations": True},
    )
    yield described.by("denied", denial=GROUP_DENIED)
    yield described.by("allowed", on_group(Operation.ALL, "*"), on_topic(Operation.READ), denial=TOPIC_DENIED)
    yield described.by("denied the topics", on_group(Operation.ALL, "*"), denial=TOPIC_DENIED)


_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that contains topic names."""


def _committed_by_id(world: World) -> Values:
    partitions = committed("")["partitions"]
    ids = (world.ids[TOPIC], world.ids[HIDDEN], UNKNOWN_ID)
    return {"group_id": GROUP, "topics": [{"topic_id": one, "partitions": partitions} for one in ids]}


def _fetched_by_id(world: World) -> Values:
    ids = (world.ids[TOPIC], world.ids[HIDDEN], UNKNOWN_ID)
    return {
        "groups": [{"group_id": GROUP, "topics": [{"topic_id": one, "partition_indexes": [0]} for one in ids]}],
    }


def offsets() -> Iterator[Case]:
    names = [committed(name) for name in (TOPIC, HIDDEN, "none-such")]
    by_name = asked(ApiKey.OFFSET_COMMIT, {"group_id": GROUP, "topics": names}, version=_BY_NAME)
    by_id = asked(ApiKey.OFFSET_COMMIT, _committed_by_id, name="by id")
    for committing in (by_name, by_id):
        yield committing.by("denied", denial=GROUP_DENIED)
        yield committing.by("denied the topics", on_group(Operation.READ), denial=TOPIC_DENIED)
        yield committing.by("allowed", on_group(Operation.READ), on_topic(Operation.READ), denial=TOPIC_DENIED)
    by_id = asked(ApiKey.OFFSET_FETCH, _fetched_by_id, name="by id")
    yield by_id.by("denied", denial=GROUP_DENIED)
    yield by_id.by("denied the topics", on_group(Operation.DESCRIBE), denial=TOPIC_DENIED)
    yield by_id.by("allowed", on_group(Operation.DESCRIBE), on_topic(Operation.DESCRIBE), denial=TOPIC_DENIED)
    some = {"group_id": GROUP, "topics": [{"name": name, "partition_indexes": [0]} for name in (TOPIC, HIDDEN)]}
    for name, groups in (("", [some]), ("of all topics", [{"group_id": GROUP, "topics": None}])):
        fetching = asked(ApiKey.OFFSET_FETCH, {"groups": groups}, version=_BY_NAME, name=name)
        yield fetching.by("denied", denial=GROUP_DENIED)
        yield fetching.by("denied the topics", on_group(Operation.DESCRIBE), denial=None if name else TOPIC_DENIED)
        rules = (on_group(Operation.DESCRIBE), on_topic(Operation.DESCRIBE))
        yield fetching.by("allowed", *rules, denial=None if name else TOPIC_DENIED)
    for version in (1, 2):
        yield asked(ApiKey.OFFSET_FETCH, some, version=version, name=f"version {version}").by(
            "denied", denial=GROUP_DENIED
        )
    deleting = asked(
        ApiKey.OFFSET_DELETE,
        {
            "group_id": GROUP,
            "topics": [{"name": name, "partitions": [{"partition_index": 0}]} for name in (TOPIC, HIDDEN)],
        },
    )
    yield deleting.by("denied", denial=GROUP_DENIED)
    yield deleting.by("denied the topics", on_group(Operation.DELETE), denial=TOPIC_DENIED)
    yield deleting.by("allowed", on_group(Operation.DELETE), on_topic(Operation.READ), denial=TOPIC_DENIED)
