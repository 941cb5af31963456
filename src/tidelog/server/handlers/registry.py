"""The registry of handlers: the module of each API. ApiVersions advertises exactly these APIs.

A module is imported at its API's first request. It has ``handle(broker, context, request)``, which returns an
``Response`` or an awaitable of one. It may have ``refuse(context, request, error)``, which returns the response after
an error in ``handle``. It may also have ``read``, which replaces ``read_request``.
"""

from __future__ import annotations

from tidelog.protocol.api_key import VERSIONS, ApiKey, VersionRange

HANDLERS: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "data.produce",
    ApiKey.FETCH: "data.fetch",
    ApiKey.LIST_OFFSETS: "data.list_offsets",
    ApiKey.API_VERSIONS: "cluster.api_versions",
    ApiKey.DELETE_RECORDS: "data.delete_records",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "data.offset_for_leader_epoch",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "data.alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "data.describe_log_dirs",
    ApiKey.DESCRIBE_PRODUCERS: "data.describe_producers",
    ApiKey.METADATA: "cluster.metadata",
    ApiKey.CREATE_TOPICS: "topics.create_topics",
    ApiKey.DELETE_TOPICS: "topics.delete_topics",
    ApiKey.CREATE_PARTITIONS: "topics.create_partitions",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "topics.describe_topic_partitions",
    ApiKey.ELECT_LEADERS: "topics.elect_leaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "topics.alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "topics.list_partition_reassignments",
    ApiKey.DESCRIBE_CONFIGS: "configs.describe_configs",
    ApiKey.ALTER_CONFIGS: "configs.alter_configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "configs.incremental_alter_configs",
    ApiKey.LIST_CONFIG_RESOURCES: "configs.list_config_resources",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "configs.describe_client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "configs.alter_client_quotas",
    ApiKey.SASL_HANDSHAKE: "security.sasl_handshake",
    ApiKey.SASL_AUTHENTICATE: "security.sasl_authenticate",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "security.describe_user_scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "security.alter_user_scram_credentials",
    ApiKey.DESCRIBE_ACLS: "acls.describe_acls",
    ApiKey.CREATE_ACLS: "acls.create_acls",
    ApiKey.DELETE_ACLS: "acls.delete_acls",
    ApiKey.DESCRIBE_QUORUM: "cluster.describe_quorum",
    ApiKey.UPDATE_FEATURES: "cluster.update_features",
    ApiKey.DESCRIBE_CLUSTER: "cluster.describe_cluster",
    ApiKey.INIT_PRODUCER_ID: "transactions.init_producer_id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "transactions.add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactions.add_offsets_to_txn",
    ApiKey.END_TXN: "transactions.end_txn",
    ApiKey.WRITE_TXN_MARKERS: "transactions.write_txn_markers",
    ApiKey.DESCRIBE_TRANSACTIONS: "transactions.describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "transactions.list_transactions",
    ApiKey.OFFSET_COMMIT: "groups.offset_commit",
    ApiKey.OFFSET_FETCH: "groups.offset_fetch",
    ApiKey.FIND_COORDINATOR: "groups.find_coordinator",
    ApiKey.JOIN_GROUP: "groups.join_group",
    ApiKey.HEARTBEAT: "groups.heartbeat",
    ApiKey.LEAVE_GROUP: "groups.leave_group",
    ApiKey.SYNC_GROUP: "groups.sync_group",
    ApiKey.DESCRIBE_GROUPS: "groups.describe_groups",
    ApiKey.LIST_GROUPS: "groups.list_groups",
    ApiKey.DELETE_GROUPS: "groups.delete_groups",
    ApiKey.TXN_OFFSET_COMMIT: "groups.txn_offset_commit",
    ApiKey.OFFSET_DELETE: "groups.offset_delete",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "groups.consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "groups.consumer_group_describe",
}
"""The handlers' modules, relative to this package."""

_OLDEST_ADVERTISED = {ApiKey.PRODUCE: 0}
"""librdkafka disables compression if the broker does not advertise Produce 0 to 2 (KAFKA-18659)."""


def advertised_versions() -> dict[ApiKey, VersionRange]:
    """Return the versions that ApiVersions advertises, sorted by API key."""
    return {
        api: VERSIONS[api]._replace(oldest=_OLDEST_ADVERTISED.get(api, VERSIONS[api].oldest))
        for api in sorted(HANDLERS)
    }
