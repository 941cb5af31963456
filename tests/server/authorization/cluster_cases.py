"""Requests about settings, quotas, the cluster, and the ACLs themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from server.authorization.case import (
    ANYWHERE,
    CLUSTER_DENIED,
    TOPIC_DENIED,
    Case,
    Values,
    asked,
    on_cluster,
    on_group,
    on_topic,
)
from server.authorization.world import GROUP, HIDDEN, TOPIC
from tidelog.protocol.api_key import ApiKey
from tidelog.server.authorization.acl import Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType

# --- settings and quotas ---

_KINDS = {2: TOPIC, 4: "1", 8: "1", 16: "m", 32: GROUP}
"""Resources with settings, by resource type."""


def settings() -> Iterator[Case]:
    keys = {2: ["retention.ms"], 4: ["log.roll.hours"], 8: ["kafka.none"], 16: ["metrics"], 32: ["consumer.x"]}
    described = asked(
        ApiKey.DESCRIBE_CONFIGS,
        {
            "resources": [
                {"resource_type": kind, "resource_name": name, "configuration_keys": keys[kind]}
                for kind, name in [*_KINDS.items(), (2, HIDDEN), (2, "none-such")]
            ]
        },
    )
    yield described.by("denied", denial=TOPIC_DENIED)
    yield described.by("allowed a topic", on_topic(Operation.ALTER_CONFIGS), denial=TOPIC_DENIED)
    yield described.by("allowed a group", on_group(Operation.DESCRIBE_CONFIGS), denial=TOPIC_DENIED)
    yield described.by("allowed the cluster", on_cluster(Operation.DESCRIBE_CONFIGS), denial=TOPIC_DENIED)
    changes = {
        2: ("retention.ms", "70000000"),
        4: ("log.cleaner.threads", "1"),
        8: ("root", "WARN"),
        16: ("interval.ms", "1000"),
        32: ("consumer.session.timeout.ms", "45000"),
    }
    incremental = asked(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        {
            "validate_only": True,
            "resources": [
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [{"name": changes[kind][0], "config_operation": 0, "value": changes[kind][1]}],
                }
                for kind, name in [*_KINDS.items(), (2, HIDDEN), (2, "none-such")]
            ],
        },
    )
    replacing = asked(
        ApiKey.ALTER_CONFIGS,
        {
            "validate_only": True,
            "resources": [
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [{"name": changes[kind][0], "value": changes[kind][1]}],
                }
                for kind, name in [(2, TOPIC), (4, "1"), (2, HIDDEN), (2, "none-such")]
            ],
        },
    )
    for altering in (incremental, replacing):
        yield altering.by("denied", denial=TOPIC_DENIED)
        yield altering.by("allowed a topic", on_topic(Operation.ALTER_CONFIGS), denial=TOPIC_DENIED)
        yield altering.by("allowed the cluster", on_cluster(Operation.ALTER_CONFIGS), denial=TOPIC_DENIED)
    yield incremental.by("allowed a group", on_group(Operation.ALTER_CONFIGS), denial=TOPIC_DENIED)
    listed = asked(ApiKey.LIST_CONFIG_RESOURCES, {"resource_types": [2]})
    yield listed.by("denied", denial=CLUSTER_DENIED)
    yield listed.by("allowed", on_cluster(Operation.DESCRIBE_CONFIGS))


def quotas_and_users() -> Iterator[Case]:
    quotas = asked(ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False})
    yield quotas.by("denied", denial=CLUSTER_DENIED)
    yield quotas.by("allowed", on_cluster(Operation.DESCRIBE_CONFIGS))
    entity = [{"entity_type": "user", "entity_name": "ann"}]
    limits = [{"key": "producer_byte_rate", "value": 1e9, "remove": False}]
    limited = asked(ApiKey.ALTER_CLIENT_QUOTAS, {"entries": [{"entity": entity, "ops": limits}], "validate_only": True})
    yield limited.by("denied", denial=CLUSTER_DENIED)
    yield limited.by("allowed", on_cluster(Operation.ALTER_CONFIGS))
    users = asked(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": [{"name": "ann"}]})
    yield users.by("denied", denial=CLUSTER_DENIED)
    yield users.by("allowed", on_cluster(Operation.DESCRIBE))
    deletion = {"deletions": [{"name": "ann", "mechanism": 1}], "upsertions": []}
    removed = asked(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletion)
    yield removed.by("denied", denial=CLUSTER_DENIED)
    yield removed.by("allowed", on_cluster(Operation.ALTER))


# --- the cluster ---


def cluster() -> Iterator[Case]:
    yield asked(ApiKey.API_VERSIONS, {"client_software_name": "c", "client_software_version": "1"}).by("anybody")
    described = asked(ApiKey.DESCRIBE_CLUSTER, {"include_cluster_authorized_operations": True})
    yield described.by("denied")
    yield described.by("allowed", on_cluster(Operation.DESCRIBE), on_cluster(Operation.CREATE))
    quorum = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    yield asked(ApiKey.DESCRIBE_QUORUM, quorum).by("denied", denial=CLUSTER_DENIED)
    yield asked(ApiKey.DESCRIBE_QUORUM, quorum).by("allowed", on_cluster(Operation.DESCRIBE))
    features = {
        "feature_updates": [{"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}],
        "validate_only": True,
    }
    yield asked(ApiKey.UPDATE_FEATURES, features).by("denied", denial=CLUSTER_DENIED)
    yield asked(ApiKey.UPDATE_FEATURES, features).by("allowed", on_cluster(Operation.ALTER))
    unknown = {"broker_id": 99}
    yield asked(ApiKey.UNREGISTER_BROKER, unknown).by("denied", denial=CLUSTER_DENIED)
    yield asked(ApiKey.UNREGISTER_BROKER, unknown).by("allowed", on_cluster(Operation.ALTER))
    yield asked(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}).by("denied", denial=CLUSTER_DENIED)
    yield asked(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, version=1, name="version 1").by("denied")
    some = {"topics": [{"topic": TOPIC, "partitions": [0]}]}
    yield asked(ApiKey.DESCRIBE_LOG_DIRS, some, name="of a topic").by("allowed", on_cluster(Operation.DESCRIBE))
    moved = {"dirs": [{"path": "/none/such", "topics": [{"name": TOPIC, "partitions": [0]}]}]}
    yield asked(ApiKey.ALTER_REPLICA_LOG_DIRS, moved).by("denied", denial=CLUSTER_DENIED)
    yield asked(ApiKey.ALTER_REPLICA_LOG_DIRS, moved).by("allowed", on_cluster(Operation.ALTER))
    elected = {"election_type": 0, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout": 10_000}
    yield asked(ApiKey.ELECT_LEADERS, elected).by("denied", denial=CLUSTER_DENIED)
    yield asked(ApiKey.ELECT_LEADERS, elected).by("allowed", on_cluster(Operation.ALTER))
    replicas = [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": [1]}]}]
    reassigned = {"topics": replicas, "timeout": 10_000}
    yield asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassigned).by("denied", denial=CLUSTER_DENIED)
    yield asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassigned).by("allowed", on_cluster(Operation.ALTER))
    under_way = {"topics": None, "timeout": 10_000}
    yield asked(ApiKey.LIST_PARTITION_REASSIGNMENTS, under_way).by("denied", denial=CLUSTER_DENIED)
    yield asked(ApiKey.LIST_PARTITION_REASSIGNMENTS, under_way).by("allowed", on_cluster(Operation.DESCRIBE))


# --- ACLs ---


def _creation(**more: Any) -> Values:
    return {
        "resource_type": AclResourceType.TOPIC,
        "resource_name": "listed",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:listed",
        "host": ANYWHERE,
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
        **more,
    }


def _filter(**more: Any) -> Values:
    return {
        "resource_type_filter": AclResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": "User:listed",
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
        **more,
    }


def access() -> Iterator[Case]:
    created = asked(
        ApiKey.CREATE_ACLS,
        {
            "creations": [
                _creation(),
                _creation(),
                _creation(resource_name="lis", resource_pattern_type=PatternType.PREFIXED),
                _creation(resource_type=AclResourceType.CLUSTER),
                _creation(resource_name=""),
                _creation(principal="listed"),
                _creation(resource_type=99),
                _creation(operation=99),
                _creation(permission_type=99),
            ]
        },
    )
    yield created.by("denied", on_cluster(Operation.DESCRIBE), denial=CLUSTER_DENIED)
    yield created.by("allowed", on_cluster(Operation.ALTER))
    for name, wanted in {
        "of a user": _filter(),
        "of a name": _filter(resource_name_filter="listed", resource_type_filter=AclResourceType.TOPIC),
        "that match": _filter(resource_name_filter="listed", pattern_type_filter=PatternType.MATCH),
        "of nobody": _filter(principal_filter="User:zoe"),
        "of an unknown type": _filter(resource_type_filter=99),
        "of an unknown operation": _filter(operation=99),
    }.items():
        yield asked(ApiKey.DESCRIBE_ACLS, wanted, name=name).by("allowed", on_cluster(Operation.DESCRIBE))
    yield asked(ApiKey.DESCRIBE_ACLS, _filter()).by("denied", on_cluster(Operation.CREATE), denial=CLUSTER_DENIED)
    removed = asked(
        ApiKey.DELETE_ACLS,
        {
            "filters": [
                _filter(resource_name_filter="listed"),
                _filter(),
                _filter(principal_filter="User:zoe"),
                _filter(operation=99),
            ]
        },
    )
    yield removed.by("denied", on_cluster(Operation.DESCRIBE), denial=CLUSTER_DENIED)
    yield removed.by("allowed", on_cluster(Operation.ALL))
