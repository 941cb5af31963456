"""Kafka's APIs: their keys, and the versions of each that a Kafka 4.4 broker or controller supports.

Versions that Kafka calls unstable are omitted, and so are APIs without a stable version. APIs 4 to 7 were removed with
ZooKeeper. The newest versions of some APIs are omitted too, because kio has no schema for them yet; docs/server.md
lists them. Source: ``ApiKeys``, and ``validVersions`` and ``flexibleVersions`` in Kafka's message definitions.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92

    @property
    def title(self) -> str:
        """Kafka's spelling: ``ApiVersions``."""
        return self.name.title().replace("_", "")


class VersionRange(NamedTuple):
    oldest: int
    latest: int
    first_flexible: int | None
    """The first version with varint lengths and tagged fields (KIP-482), or None if there is none yet."""

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.oldest <= version <= self.latest

    def is_flexible(self, version: int) -> bool:
        return self.first_flexible is not None and version >= self.first_flexible


VERSIONS: dict[ApiKey, VersionRange] = {
    ApiKey.PRODUCE: VersionRange(3, 13, 9),
    ApiKey.FETCH: VersionRange(4, 18, 12),
    ApiKey.LIST_OFFSETS: VersionRange(1, 11, 6),
    ApiKey.METADATA: VersionRange(0, 13, 9),
    ApiKey.OFFSET_COMMIT: VersionRange(2, 10, 8),
    ApiKey.OFFSET_FETCH: VersionRange(1, 10, 6),
    ApiKey.FIND_COORDINATOR: VersionRange(0, 6, 3),
    ApiKey.JOIN_GROUP: VersionRange(0, 9, 6),
    ApiKey.HEARTBEAT: VersionRange(0, 4, 4),
    ApiKey.LEAVE_GROUP: VersionRange(0, 5, 4),
    ApiKey.SYNC_GROUP: VersionRange(0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: VersionRange(0, 6, 5),
    ApiKey.LIST_GROUPS: VersionRange(0, 5, 3),
    ApiKey.SASL_HANDSHAKE: VersionRange(0, 1, None),
    ApiKey.API_VERSIONS: VersionRange(0, 4, 3),
    ApiKey.CREATE_TOPICS: VersionRange(2, 7, 5),
    ApiKey.DELETE_TOPICS: VersionRange(1, 6, 4),
    ApiKey.DELETE_RECORDS: VersionRange(0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: VersionRange(0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: VersionRange(0, 4, 3),
    ApiKey.END_TXN: VersionRange(0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: VersionRange(1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: VersionRange(0, 5, 3),
    ApiKey.DESCRIBE_ACLS: VersionRange(1, 3, 2),
    ApiKey.CREATE_ACLS: VersionRange(1, 3, 2),
    ApiKey.DELETE_ACLS: VersionRange(1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4, 4),
    ApiKey.ALTER_CONFIGS: VersionRange(0, 2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: VersionRange(1, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: VersionRange(1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: VersionRange(0, 2, 2),
    ApiKey.CREATE_PARTITIONS: VersionRange(0, 3, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: VersionRange(1, 3, 2),
    ApiKey.RENEW_DELEGATION_TOKEN: VersionRange(1, 2, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: VersionRange(1, 2, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: VersionRange(1, 3, 2),
    ApiKey.DELETE_GROUPS: VersionRange(0, 2, 2),
    ApiKey.ELECT_LEADERS: VersionRange(0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: VersionRange(0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: VersionRange(0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: VersionRange(0, 0, 0),
    ApiKey.OFFSET_DELETE: VersionRange(0, 0, None),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: VersionRange(0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: VersionRange(0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: VersionRange(0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: VersionRange(0, 0, 0),
    ApiKey.VOTE: VersionRange(0, 2, 0),
    ApiKey.BEGIN_QUORUM_EPOCH: VersionRange(0, 1, 1),
    ApiKey.END_QUORUM_EPOCH: VersionRange(0, 1, 1),
    ApiKey.DESCRIBE_QUORUM: VersionRange(0, 2, 0),
    ApiKey.ALTER_PARTITION: VersionRange(2, 3, 2),
    ApiKey.UPDATE_FEATURES: VersionRange(0, 2, 0),
    ApiKey.ENVELOPE: VersionRange(0, 0, 0),
    ApiKey.FETCH_SNAPSHOT: VersionRange(0, 1, 0),
    ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: VersionRange(0, 0, 0),
    ApiKey.BROKER_REGISTRATION: VersionRange(0, 4, 0),
    ApiKey.BROKER_HEARTBEAT: VersionRange(0, 2, 0),
    ApiKey.UNREGISTER_BROKER: VersionRange(0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: VersionRange(0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: VersionRange(0, 2, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: VersionRange(0, 0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: VersionRange(0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: VersionRange(0, 1, 0),
    ApiKey.CONTROLLER_REGISTRATION: VersionRange(0, 0, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: VersionRange(0, 0, 0),
    ApiKey.PUSH_TELEMETRY: VersionRange(0, 0, 0),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: VersionRange(0, 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: VersionRange(0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: VersionRange(0, 0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: VersionRange(1, 1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: VersionRange(1, 1, 1),
    ApiKey.SHARE_FETCH: VersionRange(1, 2, 1),
    ApiKey.SHARE_ACKNOWLEDGE: VersionRange(1, 2, 1),
    ApiKey.ADD_RAFT_VOTER: VersionRange(0, 1, 0),
    ApiKey.REMOVE_RAFT_VOTER: VersionRange(0, 0, 0),
    ApiKey.UPDATE_RAFT_VOTER: VersionRange(0, 0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: VersionRange(0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: VersionRange(0, 0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: VersionRange(0, 1, 0),
    ApiKey.DELETE_SHARE_GROUP_STATE: VersionRange(0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: VersionRange(0, 1, 0),
    ApiKey.STREAMS_GROUP_HEARTBEAT: VersionRange(0, 0, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: VersionRange(0, 0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: VersionRange(0, 1, 0),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: VersionRange(0, 0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: VersionRange(0, 0, 0),
}
"""The known versions. A broker advertises the APIs for which it has a handler."""
