"""The registry of handlers: the functions of each API.

A group's modules are imported when a client first uses one of its APIs, because a broker would start more slowly with
all of them. A new API needs a line in ``API_GROUPS`` and one in its group's loader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from tidelog.model import TidelogError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.messages import read_request
from tidelog.server.authorization.operation import Operation
from tidelog.server.handlers.api_groups import API_GROUPS, ApiGroup
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import Response

if TYPE_CHECKING:
    from tidelog.server.cluster_node import ClusterNode


Result = TypeVar("Result", bound=Response | Awaitable[Response])


class Refuse(Protocol):
    def __call__(self, context: RequestContext, request: Any, error: TidelogError, /) -> Mapping[str, Any]: ...


class Reader(Protocol):
    def __call__(self, api: ApiKey, version: int, body: memoryview, /) -> Any: ...


class Handler(NamedTuple):
    """The functions of an API."""

    handle: Callable[[Any, RequestContext, Any], Response | Awaitable[Response]]
    """The function that handles a request. Its first argument is the node: a ``Broker``, or any ``ClusterNode``."""
    refuse: Refuse | None = None
    """Return the response after an error in ``handle``, if the error code alone is not enough."""
    read: Reader = read_request
    """The API's own reader, such as that of ``protocol.produce``."""

    @classmethod
    def of_nodes(cls, handle: Callable[[Any, RequestContext, Any], Result], refuse: Refuse | None = None) -> Handler:
        """Return the functions of an API that only nodes may use, and that is exempt from the request quota."""

        def handle_of_node(node: ClusterNode, context: RequestContext, request: Any) -> Result:
            node.authorizer.require(context, Operation.CLUSTER_ACTION)
            context.client.is_exempt = True
            return handle(node, context, request)

        return cls(handle_of_node, refuse)


Handlers = Mapping[ApiKey, Handler]


def _data() -> Handlers:
    from tidelog.server.handlers.data import delete_records, describe_producers, fetch, log_dirs, offset_lookup, produce

    return {
        ApiKey.PRODUCE: Handler(produce.handle, produce.refuse, read=produce.read),
        ApiKey.FETCH: Handler(fetch.handle, fetch.refuse, read=fetch.read),
        ApiKey.LIST_OFFSETS: Handler(offset_lookup.list_offsets, offset_lookup.refuse_list_offsets),
        ApiKey.DELETE_RECORDS: Handler(delete_records.handle, delete_records.refuse),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: Handler(
            offset_lookup.offset_for_leader_epoch, offset_lookup.refuse_offset_for_leader_epoch
        ),
        ApiKey.ALTER_REPLICA_LOG_DIRS: Handler(log_dirs.alter_replica_log_dirs, log_dirs.refuse_alter_replica_log_dirs),
        ApiKey.DESCRIBE_LOG_DIRS: Handler(log_dirs.describe_log_dirs, log_dirs.refuse_describe_log_dirs),
        ApiKey.DESCRIBE_PRODUCERS: Handler(describe_producers.handle),
    }


def _cluster() -> Handlers:
    from tidelog.server.handlers.cluster import api_versions, descriptions, metadata, unregister_broker, update_features

    return {
        ApiKey.API_VERSIONS: Handler(api_versions.handle, read=api_versions.read),
        ApiKey.METADATA: Handler(metadata.handle, metadata.refuse),
        ApiKey.DESCRIBE_QUORUM: Handler(descriptions.describe_quorum),
        ApiKey.UPDATE_FEATURES: Handler(update_features.handle),
        ApiKey.DESCRIBE_CLUSTER: Handler(descriptions.describe_cluster),
        ApiKey.UNREGISTER_BROKER: Handler(unregister_broker.handle),
    }


def _topics() -> Handlers:
    from tidelog.server.handlers.topics import (
        create_partitions,
        create_topics,
        delete_topics,
        describe_topic_partitions,
        elect_leaders,
        partition_reassignments,
    )

    return {
        ApiKey.CREATE_TOPICS: Handler(create_topics.handle, create_topics.refuse),
        ApiKey.DELETE_TOPICS: Handler(delete_topics.handle, delete_topics.refuse),
        ApiKey.CREATE_PARTITIONS: Handler(create_partitions.handle, create_partitions.refuse),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: Handler(describe_topic_partitions.handle, describe_topic_partitions.refuse),
        ApiKey.ELECT_LEADERS: Handler(elect_leaders.handle, elect_leaders.refuse),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: Handler(
            partition_reassignments.alter_reassignments, partition_reassignments.refuse_alter_reassignments
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: Handler(partition_reassignments.list_reassignments),
    }


def _configs() -> Handlers:
    from tidelog.server.handlers.configs import alterations, client_quotas, describe_configs

    return {
        ApiKey.DESCRIBE_CONFIGS: Handler(describe_configs.describe_configs, describe_configs.refuse_describe_configs),
        ApiKey.ALTER_CONFIGS: Handler(alterations.alter_configs, alterations.refuse_alter_configs),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: Handler(
            alterations.incremental_alter_configs, alterations.refuse_incremental_alter_configs
        ),
        ApiKey.LIST_CONFIG_RESOURCES: Handler(describe_configs.list_config_resources),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: Handler(
            client_quotas.describe_client_quotas, client_quotas.refuse_describe_client_quotas
        ),
        ApiKey.ALTER_CLIENT_QUOTAS: Handler(
            client_quotas.alter_client_quotas, client_quotas.refuse_alter_client_quotas
        ),
    }


def _security() -> Handlers:
    from tidelog.server.handlers import security

    return {
        ApiKey.SASL_HANDSHAKE: Handler(security.sasl_handshake),
        ApiKey.SASL_AUTHENTICATE: Handler(security.sasl_authenticate),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Handler(
            security.describe_scram_users, security.refuse_describe_scram_users
        ),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Handler(security.alter_scram_users, security.refuse_alter_scram_users),
    }


def _acls() -> Handlers:
    from tidelog.server.handlers import acls

    return {
        ApiKey.DESCRIBE_ACLS: Handler(acls.describe_acls, read=acls.read_describe_acls),
        ApiKey.CREATE_ACLS: Handler(acls.create_acls, acls.refuse_create_acls, read=acls.read_create_acls),
        ApiKey.DELETE_ACLS: Handler(acls.delete_acls, acls.refuse_delete_acls, read=acls.read_delete_acls),
    }


def _transactions() -> Handlers:
    from tidelog.server.handlers.transactions import producer_requests, transaction_reports, write_txn_markers

    return {
        ApiKey.INIT_PRODUCER_ID: Handler(producer_requests.init_producer_id, producer_requests.refuse_init_producer_id),
        ApiKey.ADD_PARTITIONS_TO_TXN: Handler(
            producer_requests.add_partitions_to_txn, producer_requests.refuse_add_partitions_to_txn
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: Handler(
            producer_requests.add_offsets_to_txn, producer_requests.refuse_add_offsets_to_txn
        ),
        ApiKey.END_TXN: Handler(producer_requests.end_txn, producer_requests.refuse_end_txn),
        ApiKey.WRITE_TXN_MARKERS: Handler(write_txn_markers.handle, write_txn_markers.refuse),
        ApiKey.DESCRIBE_TRANSACTIONS: Handler(transaction_reports.describe_transactions),
        ApiKey.LIST_TRANSACTIONS: Handler(transaction_reports.list_transactions),
    }


def _groups() -> Handlers:
    from tidelog.server.handlers.groups import (
        classic_membership,
        consumer_groups,
        find_coordinator,
        group_administration,
        offset_commits,
        offset_fetch,
    )

    return {
        ApiKey.OFFSET_COMMIT: Handler(offset_commits.offset_commit, offset_commits.refuse_offset_commit),
        ApiKey.OFFSET_FETCH: Handler(offset_fetch.handle, offset_fetch.refuse),
        ApiKey.FIND_COORDINATOR: Handler(find_coordinator.handle, find_coordinator.refuse),
        ApiKey.JOIN_GROUP: Handler(classic_membership.join_group, classic_membership.refuse_join_group),
        ApiKey.HEARTBEAT: Handler(classic_membership.heartbeat),
        ApiKey.LEAVE_GROUP: Handler(classic_membership.leave_group),
        ApiKey.SYNC_GROUP: Handler(classic_membership.sync_group),
        ApiKey.DESCRIBE_GROUPS: Handler(group_administration.describe_groups),
        ApiKey.LIST_GROUPS: Handler(group_administration.list_groups),
        ApiKey.DELETE_GROUPS: Handler(group_administration.delete_groups),
        ApiKey.TXN_OFFSET_COMMIT: Handler(offset_commits.txn_offset_commit, offset_commits.refuse_txn_offset_commit),
        ApiKey.OFFSET_DELETE: Handler(offset_commits.offset_delete),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: Handler(consumer_groups.heartbeat),
        ApiKey.CONSUMER_GROUP_DESCRIBE: Handler(consumer_groups.describe),
    }


LOADERS: dict[ApiGroup, Callable[[], Handlers]] = {
    ApiGroup.DATA: _data,
    ApiGroup.CLUSTER: _cluster,
    ApiGroup.TOPICS: _topics,
    ApiGroup.CONFIGS: _configs,
    ApiGroup.SECURITY: _security,
    ApiGroup.ACLS: _acls,
    ApiGroup.TRANSACTIONS: _transactions,
    ApiGroup.GROUPS: _groups,
}


class Registry(NamedTuple):
    """The APIs of a listener, by group."""

    groups: Mapping[ApiKey, ApiGroup]
    loaders: Mapping[ApiGroup, Callable[[], Handlers]]

    def handler_of(self, api: ApiKey) -> Handler:
        """Return the handler of a served API. Import its group's modules if this is the first use."""
        return self.loaders[self.groups[api]]()[api]


BROKER_APIS: Final = Registry(API_GROUPS, LOADERS)
"""The APIs of a broker's listeners."""
