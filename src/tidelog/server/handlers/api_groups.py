"""The APIs that the broker serves, and the group of each. ApiVersions advertises exactly these APIs.

A group has a loader in ``handlers.registry`` and a file of types in ``protocol.message_types``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from tidelog.protocol.api_key import VERSIONS, ApiKey, VersionRange


class ApiGroup(StrEnum):
    DATA = "data"
    CLUSTER = "cluster"
    TOPICS = "topics"
    CONFIGS = "configs"
    SECURITY = "security"
    ACLS = "acls"
    TRANSACTIONS = "transactions"
    GROUPS = "groups"
    CONTROLLER = "controller"
    """The APIs of a controller's listener that a broker's listener does not have, or has otherwise."""


API_GROUPS: dict[ApiKey, ApiGroup] = {
    ApiKey.PRODUCE: ApiGroup.DATA,
    ApiKey.FETCH: ApiGroup.DATA,
    ApiKey.LIST_OFFSETS: ApiGroup.DATA,
    ApiKey.API_VERSIONS: ApiGroup.CLUSTER,
    ApiKey.DELETE_RECORDS: ApiGroup.DATA,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ApiGroup.DATA,
    ApiKey.ALTER_REPLICA_LOG_DIRS: ApiGroup.DATA,
    ApiKey.DESCRIBE_LOG_DIRS: ApiGroup.DATA,
    ApiKey.DESCRIBE_PRODUCERS: ApiGroup.DATA,
    ApiKey.METADATA: ApiGroup.CLUSTER,
    ApiKey.CREATE_TOPICS: ApiGroup.TOPICS,
    ApiKey.DELETE_TOPICS: ApiGroup.TOPICS,
    ApiKey.CREATE_PARTITIONS: ApiGroup.TOPICS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ApiGroup.TOPICS,
    ApiKey.ELECT_LEADERS: ApiGroup.TOPICS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ApiGroup.TOPICS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ApiGroup.TOPICS,
    ApiKey.DESCRIBE_CONFIGS: ApiGroup.CONFIGS,
    ApiKey.ALTER_CONFIGS: ApiGroup.CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ApiGroup.CONFIGS,
    ApiKey.LIST_CONFIG_RESOURCES: ApiGroup.CONFIGS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ApiGroup.CONFIGS,
    ApiKey.ALTER_CLIENT_QUOTAS: ApiGroup.CONFIGS,
    ApiKey.SASL_HANDSHAKE: ApiGroup.SECURITY,
    ApiKey.SASL_AUTHENTICATE: ApiGroup.SECURITY,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ApiGroup.SECURITY,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ApiGroup.SECURITY,
    ApiKey.DESCRIBE_ACLS: ApiGroup.ACLS,
    ApiKey.CREATE_ACLS: ApiGroup.ACLS,
    ApiKey.DELETE_ACLS: ApiGroup.ACLS,
    ApiKey.DESCRIBE_QUORUM: ApiGroup.CLUSTER,
    ApiKey.UPDATE_FEATURES: ApiGroup.CLUSTER,
    ApiKey.DESCRIBE_CLUSTER: ApiGroup.CLUSTER,
    ApiKey.UNREGISTER_BROKER: ApiGroup.CLUSTER,
    ApiKey.INIT_PRODUCER_ID: ApiGroup.TRANSACTIONS,
    ApiKey.ADD_PARTITIONS_TO_TXN: ApiGroup.TRANSACTIONS,
    ApiKey.ADD_OFFSETS_TO_TXN: ApiGroup.TRANSACTIONS,
    ApiKey.END_TXN: ApiGroup.TRANSACTIONS,
    ApiKey.WRITE_TXN_MARKERS: ApiGroup.TRANSACTIONS,
    ApiKey.DESCRIBE_TRANSACTIONS: ApiGroup.TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS: ApiGroup.TRANSACTIONS,
    ApiKey.OFFSET_COMMIT: ApiGroup.GROUPS,
    ApiKey.OFFSET_FETCH: ApiGroup.GROUPS,
    ApiKey.FIND_COORDINATOR: ApiGroup.GROUPS,
    ApiKey.JOIN_GROUP: ApiGroup.GROUPS,
    ApiKey.HEARTBEAT: ApiGroup.GROUPS,
    ApiKey.LEAVE_GROUP: ApiGroup.GROUPS,
    ApiKey.SYNC_GROUP: ApiGroup.GROUPS,
    ApiKey.DESCRIBE_GROUPS: ApiGroup.GROUPS,
    ApiKey.LIST_GROUPS: ApiGroup.GROUPS,
    ApiKey.DELETE_GROUPS: ApiGroup.GROUPS,
    ApiKey.TXN_OFFSET_COMMIT: ApiGroup.GROUPS,
    ApiKey.OFFSET_DELETE: ApiGroup.GROUPS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ApiGroup.GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE: ApiGroup.GROUPS,
}

CONTROLLER_API_GROUPS: dict[ApiKey, ApiGroup] = {
    ApiKey.FETCH: ApiGroup.CONTROLLER,
    ApiKey.SASL_HANDSHAKE: ApiGroup.SECURITY,
    ApiKey.API_VERSIONS: ApiGroup.CONTROLLER,
    ApiKey.CREATE_TOPICS: ApiGroup.TOPICS,
    ApiKey.DELETE_TOPICS: ApiGroup.TOPICS,
    ApiKey.DESCRIBE_ACLS: ApiGroup.ACLS,
    ApiKey.CREATE_ACLS: ApiGroup.ACLS,
    ApiKey.DELETE_ACLS: ApiGroup.ACLS,
    ApiKey.DESCRIBE_CONFIGS: ApiGroup.CONFIGS,
    ApiKey.ALTER_CONFIGS: ApiGroup.CONFIGS,
    ApiKey.SASL_AUTHENTICATE: ApiGroup.SECURITY,
    ApiKey.CREATE_PARTITIONS: ApiGroup.TOPICS,
    ApiKey.ELECT_LEADERS: ApiGroup.TOPICS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ApiGroup.CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ApiGroup.TOPICS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ApiGroup.TOPICS,
    ApiKey.ALTER_CLIENT_QUOTAS: ApiGroup.CONFIGS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ApiGroup.SECURITY,
    ApiKey.DESCRIBE_QUORUM: ApiGroup.CONTROLLER,
    ApiKey.ALTER_PARTITION: ApiGroup.CONTROLLER,
    ApiKey.UPDATE_FEATURES: ApiGroup.CLUSTER,
    ApiKey.ENVELOPE: ApiGroup.CONTROLLER,
    ApiKey.FETCH_SNAPSHOT: ApiGroup.CONTROLLER,
    ApiKey.DESCRIBE_CLUSTER: ApiGroup.CONTROLLER,
    ApiKey.BROKER_REGISTRATION: ApiGroup.CONTROLLER,
    ApiKey.BROKER_HEARTBEAT: ApiGroup.CONTROLLER,
    ApiKey.UNREGISTER_BROKER: ApiGroup.CLUSTER,
    ApiKey.ALLOCATE_PRODUCER_IDS: ApiGroup.CONTROLLER,
    ApiKey.CONTROLLER_REGISTRATION: ApiGroup.CONTROLLER,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ApiGroup.CONTROLLER,
}
"""The APIs of a controller's listener. Its ApiVersions advertises exactly these. Source: Kafka's ``ControllerApis``."""

_OLDEST_ADVERTISED = {ApiKey.PRODUCE: 0}
"""librdkafka disables compression if the broker does not advertise Produce 0 to 2 (KAFKA-18659)."""


def advertised_versions(apis: Iterable[ApiKey] = API_GROUPS) -> dict[ApiKey, VersionRange]:
    """Return the versions that ApiVersions advertises, sorted by API key."""
    return {
        api: VERSIONS[api]._replace(oldest=_OLDEST_ADVERTISED.get(api, VERSIONS[api].oldest)) for api in sorted(apis)
    }
