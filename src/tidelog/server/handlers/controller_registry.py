"""The registry of a controller's listener: its own APIs, and those of administrators (KIP-919)."""

from __future__ import annotations

from functools import partial
from typing import Final

from tidelog.protocol.api_key import ApiKey
from tidelog.server.handlers.api_groups import CONTROLLER_API_GROUPS, ApiGroup
from tidelog.server.handlers.registry import LOADERS, Handler, Handlers, Registry


def _controller() -> Handlers:
    from tidelog.server.handlers import envelope
    from tidelog.server.handlers.cluster import api_versions
    from tidelog.server.handlers.controller import descriptions, metadata_fetch, partition_changes, registrations

    return {
        ApiKey.FETCH: Handler.of_nodes(metadata_fetch.fetch, metadata_fetch.refuse_fetch),
        ApiKey.API_VERSIONS: Handler(
            partial(api_versions.respond, tuple(CONTROLLER_API_GROUPS)), read=api_versions.read
        ),
        ApiKey.DESCRIBE_QUORUM: Handler(descriptions.describe_quorum),
        ApiKey.ALTER_PARTITION: Handler.of_nodes(partition_changes.alter_partition),
        ApiKey.ENVELOPE: Handler.of_nodes(envelope.handle),
        ApiKey.FETCH_SNAPSHOT: Handler.of_nodes(metadata_fetch.fetch_snapshot),
        ApiKey.DESCRIBE_CLUSTER: Handler(descriptions.describe_cluster),
        ApiKey.BROKER_REGISTRATION: Handler(registrations.register_broker),
        ApiKey.BROKER_HEARTBEAT: Handler(registrations.heartbeat),
        ApiKey.ALLOCATE_PRODUCER_IDS: Handler(partition_changes.allocate_producer_ids),
        ApiKey.CONTROLLER_REGISTRATION: Handler(registrations.register_controller),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: Handler(partition_changes.assign_replicas_to_dirs),
    }


CONTROLLER_APIS: Final = Registry(CONTROLLER_API_GROUPS, {**LOADERS, ApiGroup.CONTROLLER: _controller})
"""The APIs of a controller's listeners."""
