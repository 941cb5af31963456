"""ConsumerGroupDescribe: consumer groups with members, epochs and assignments, each with its own error (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.protocol.errors import ApiError
from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.authorized_operations import NOT_ASKED, ON_GROUP
from tidelog.server.groups.reports import described_consumer_group
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def handle(broker: Broker, _context: RequestContext, request: Struct) -> Answer:
    operations = ON_GROUP if request.include_authorized_operations else NOT_ASKED
    return {
        "groups": [
            {**described, "authorized_operations": NOT_ASKED if described.get("error_code") else operations}
            for described in (_described(broker, group_id) for group_id in dict.fromkeys(request.group_ids))
        ]
    }


def _described(broker: Broker, group_id: str) -> Mapping[str, Any]:
    groups = broker.groups
    try:
        groups.require_consumer_protocol()
        return described_consumer_group(groups.shard_of(group_id).groups, group_id, groups.assignors[0], groups.topics)
    except ApiError as error:
        return {"group_id": group_id, "error_code": error.code, "error_message": error.message}
