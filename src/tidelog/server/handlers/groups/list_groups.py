"""ListGroups: this broker's groups that the client may describe, by state (v4+) and type (v5+)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, group
from tidelog.server.groups.reports import listed_groups
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    authorizer = broker.authorizer
    sees_all = authorizer.allows(context, Operation.DESCRIBE, CLUSTER, log_denial=False)
    listed = [
        one
        for shard in broker.groups.loaded_shards()
        for one in listed_groups(shard.groups, request.states_filter, request.types_filter)
    ]
    if not sees_all:
        names = (one["group_id"] for one in listed)
        shown = authorizer.allowed(context, Operation.DESCRIBE, group, names, log_denial=False)
        listed = [one for one in listed if one["group_id"] in shown]
    return {"groups": listed}
