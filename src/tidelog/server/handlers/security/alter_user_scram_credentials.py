"""AlterUserScramCredentials: it sets and deletes the SCRAM credentials of users (KIP-554).

The client sends a salted password, so the broker never sees the password itself. Source: Kafka's
``ControllerApis.handleAlterUserScramCredentials``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.metadata.requests import Outcome, ScramDeletion, ScramUpsertion
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.ALTER)
    deletions = [ScramDeletion(part.name, part.mechanism) for part in request.deletions]
    upsertions = [
        ScramUpsertion(part.name, part.mechanism, part.iterations, bytes(part.salt), bytes(part.salted_password))
        for part in request.upsertions
    ]
    outcomes = await broker.metadata.alter_scram_users(deletions, upsertions)
    return {"results": [_result(user, outcome) for user, outcome in outcomes.items()]}


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    outcome = Outcome.of(error)
    users = dict.fromkeys(part.name for part in (*request.deletions, *request.upsertions))
    return {"results": [_result(user, outcome) for user in users]}


def _result(user: str, outcome: Outcome) -> Mapping[str, Any]:
    return {"user": user, "error_code": outcome.error, "error_message": outcome.message}
