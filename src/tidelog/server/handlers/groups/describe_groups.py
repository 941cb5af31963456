"""DescribeGroups: classic groups with their members, each once and with its own error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.authorized_operations import NOT_ASKED, ON_GROUP
from tidelog.server.groups.reports import described_group
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: Struct) -> Answer:
    operations = ON_GROUP if request.include_authorized_operations else NOT_ASKED
    return {
        "groups": [
            {**described, "authorized_operations": NOT_ASKED if described.get("error_code") else operations}
            for described in (
                _described(broker, group_id, context.version) for group_id in dict.fromkeys(request.groups)
            )
        ]
    }


def _described(broker: Broker, group_id: str, version: int) -> Mapping[str, Any]:
    try:
        return described_group(broker.groups.shard_of(group_id).groups, group_id, version)
    except ApiError as error:
        return {"group_id": group_id, "error_code": ErrorCode(error.code)}
