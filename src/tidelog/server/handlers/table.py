"""Which module answers which API. A row is added with its handler: ApiVersions advertises exactly these.

A module is imported when its API is first asked for. It has ``handle(broker, context, request)``, which returns an
``Answer`` or something that can be awaited for one, and may have ``refuse(context, request, error)``, the mapping to
answer where ``handle`` ended with an error that it means for the client.
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
}
"""Modules below this package."""

_OLDEST_ADVERTISED = {ApiKey.PRODUCE: 0}
"""librdkafka takes a broker that does not know Produce 0 to 2 for one without compression (KAFKA-18659)."""


def advertised_versions() -> dict[ApiKey, VersionRange]:
    """What ApiVersions says: the versions there are of each API with a handler, by key."""
    return {
        api: VERSIONS[api]._replace(oldest=_OLDEST_ADVERTISED.get(api, VERSIONS[api].oldest))
        for api in sorted(HANDLERS)
    }
