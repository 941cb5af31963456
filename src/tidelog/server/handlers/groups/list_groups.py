"""ListGroups: the groups that this broker coordinates, by state (v4+) and type (v5+)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.groups.reports import listed_groups
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def handle(broker: Broker, _context: RequestContext, request: Struct) -> Answer:
    shards = broker.groups.loaded_shards()
    return {
        "groups": [
            group
            for shard in shards
            for group in listed_groups(shard.groups, request.states_filter, request.types_filter)
        ]
    }
