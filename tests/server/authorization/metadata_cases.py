"""Requests that describe, create, extend and delete topics."""

from __future__ import annotations

from collections.abc import Iterator

from server.authorization.case import (
    GROUP_DENIED,
    TOPIC_DENIED,
    UNKNOWN_ID,
    Case,
    Values,
    asked,
    names,
    on_cluster,
    on_group,
    on_topic,
)
from server.authorization.world import GROUP, HIDDEN, TOPIC
from tidelog.protocol.api_key import ApiKey
from tidelog.server.authorization.acl import Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import PatternType

# --- metadata ---


def metadata() -> Iterator[Case]:
    named = asked(
        ApiKey.METADATA,
        {
            "topics": names(TOPIC, HIDDEN, "none-such", "not a name"),
            "include_topic_authorized_operations": True,
            "allow_auto_topic_creation": False,
        },
        name="by name",
    )
    yield named.by("denied", denial=TOPIC_DENIED)
    yield named.by("allowed", on_topic(Operation.WRITE), on_topic(Operation.DESCRIBE, "none-such"), denial=TOPIC_DENIED)
    yield named.by(
        "allowed by a prefix", on_topic(Operation.ALL, "n", pattern=PatternType.PREFIXED), denial=TOPIC_DENIED
    )
    yield named.by(
        "denied one of all",
        on_topic(Operation.ALL, "*"),
        on_topic(Operation.DESCRIBE, HIDDEN, permission=Permission.DENY),
        denial=TOPIC_DENIED,
    )
    identified = asked(
        ApiKey.METADATA,
        lambda world: {"topics": [*names(None, topic_id=world.ids[TOPIC]), *names(None, topic_id=UNKNOWN_ID)]},
        name="by id",
    )
    yield identified.by("denied", denial=TOPIC_DENIED)
    yield identified.by("allowed", on_topic(Operation.DESCRIBE))
    for version in (0, 4, 13):
        everything = asked(
            ApiKey.METADATA,
            {"topics": [] if version == 0 else None},
            version=version,
            name=f"of all, version {version}",
        )
        yield everything.by("denied")
        yield everything.by("allowed", on_topic(Operation.DESCRIBE))
    made = asked(
        ApiKey.METADATA,
        {"topics": names("made-by-asking"), "allow_auto_topic_creation": True},
        name="that would make a topic",
    )
    yield made.by("denied", denial=TOPIC_DENIED)
    yield made.by("allowed to see", on_topic(Operation.DESCRIBE, "made-by-asking"), denial=TOPIC_DENIED)
    creating = [on_topic(Operation.DESCRIBE, "made-by-asking"), on_topic(Operation.CREATE, "made-by-asking")]
    yield made.by("allowed", *creating)
    operations = asked(
        ApiKey.METADATA,
        {"topics": [], "include_cluster_authorized_operations": True},
        version=10,
        name="of the cluster's operations",
    )
    yield operations.by("denied")
    yield operations.by("allowed", on_cluster(Operation.ALTER))
    yield operations.by("allowed what is no sight", on_cluster(Operation.ALTER_CONFIGS))
    paged = asked(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        {"topics": [{"name": name} for name in (TOPIC, HIDDEN, "none-such")], "response_partition_limit": 10},
    )
    yield paged.by("denied", denial=TOPIC_DENIED)
    yield paged.by("allowed", on_topic(Operation.READ), on_topic(Operation.READ, "none-such"), denial=TOPIC_DENIED)
    pages = asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, {"topics": [], "response_partition_limit": 10}, name="of all")
    yield pages.by("denied")
    yield pages.by("allowed", on_topic(Operation.READ))


# --- topics ---


def _new(name: str) -> Values:
    return {"name": name, "num_partitions": 1, "replication_factor": 1}


def topics() -> Iterator[Case]:
    created = asked(
        ApiKey.CREATE_TOPICS,
        {
            "topics": [_new(name) for name in (TOPIC, HIDDEN, "made", "twice", "twice", "__cluster_metadata")],
            "timeout": 10_000,
            "validate_only": True,
        },
    )
    yield created.by("denied", denial=TOPIC_DENIED)
    yield created.by("allowed a topic", on_topic(Operation.CREATE, "made"), denial=TOPIC_DENIED)
    seeing = (on_topic(Operation.CREATE, "ma", pattern=PatternType.PREFIXED), on_topic(Operation.DESCRIBE_CONFIGS, "*"))
    yield created.by("allowed to see the settings", *seeing, denial=TOPIC_DENIED)
    yield created.by("allowed by the cluster", on_cluster(Operation.CREATE), denial=TOPIC_DENIED)
    grown = asked(
        ApiKey.CREATE_PARTITIONS,
        {
            "topics": [{"name": name, "count": 3, "assignments": None} for name in (TOPIC, HIDDEN, "none-such")],
            "timeout": 10_000,
            "validate_only": True,
        },
    )
    yield grown.by("denied", denial=TOPIC_DENIED)
    yield grown.by("allowed", on_topic(Operation.ALTER), denial=TOPIC_DENIED)


# --- deletions ---


def deletions() -> Iterator[Case]:
    records = asked(
        ApiKey.DELETE_RECORDS,
        {
            "topics": [
                {"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}
                for name in (TOPIC, HIDDEN, "none-such")
            ],
            "timeout": 10_000,
        },
    )
    yield records.by("denied", denial=TOPIC_DENIED)
    yield records.by("allowed", on_topic(Operation.DELETE), denial=TOPIC_DENIED)
    groups = asked(ApiKey.DELETE_GROUPS, {"groups_names": [GROUP, HIDDEN, "none-such"]})
    yield groups.by("denied", denial=GROUP_DENIED)
    yield groups.by("allowed to see", on_group(Operation.READ, "*"), denial=GROUP_DENIED)
    yield groups.by("allowed", on_group(Operation.DELETE), denial=GROUP_DENIED)
    by_name = asked(
        ApiKey.DELETE_TOPICS,
        {"topics": names(HIDDEN, TOPIC, "none-such", "not a name"), "timeout": 10_000},
        name="by name",
    )
    yield by_name.by("denied", denial=TOPIC_DENIED)
    yield by_name.by("allowed to see", on_topic(Operation.DESCRIBE, "*"), denial=TOPIC_DENIED)
    by_id = asked(
        ApiKey.DELETE_TOPICS,
        lambda world: {
            "topics": [*names(None, topic_id=world.ids[TOPIC]), *names(None, topic_id=UNKNOWN_ID)],
            "timeout": 10_000,
        },
        name="by id",
    )
    yield by_id.by("denied", denial=TOPIC_DENIED)
    yield by_id.by("allowed to see", on_topic(Operation.DESCRIBE), denial=TOPIC_DENIED)
    yield by_name.by("allowed one", on_topic(Operation.DELETE), denial=TOPIC_DENIED)
    hidden = asked(
        ApiKey.DELETE_TOPICS,
        lambda world: {"topics": names(None, topic_id=world.ids[HIDDEN]), "timeout": 10_000},
        name="of another by id",
    )
    yield hidden.by("allowed by the cluster", on_cluster(Operation.DELETE))
