"""AlterClientQuotas: it sets and removes quotas of users, client ids and addresses (KIP-546).

Source: Kafka's ``ControllerApis.handleAlterClientQuotas``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.metadata.requests import Outcome, QuotaChange
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.ALTER_CONFIGS)
    changes = [_change(entry) for entry in request.entries]
    outcomes = await broker.metadata.alter_client_quotas(changes, validate_only=request.validate_only)
    return {"entries": [_answer(entry, outcome) for entry, outcome in zip(request.entries, outcomes, strict=True)]}


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    outcome = Outcome.of(error)
    return {"entries": [_answer(entry, outcome) for entry in request.entries]}


def _change(entry: Struct) -> QuotaChange:
    """Return the change of one entity. If a type occurs twice in it, the last name counts, as in Kafka."""
    return QuotaChange(
        tuple(sorted({part.entity_type: part.entity_name for part in entry.entity}.items())),
        [(operation.key, None if operation.remove else operation.value) for operation in entry.ops],
    )


def _answer(entry: Struct, outcome: Outcome) -> Mapping[str, Any]:
    return {
        "error_code": outcome.error,
        "error_message": outcome.message,
        "entity": [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity],
    }
