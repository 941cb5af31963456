"""EndTxn: commit or abort. From version 5 on, the response has the next transaction's epoch (KIP-890)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.model import TidelogError
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import transactional_id
from tidelog.server.broker import Broker
from tidelog.server.handlers.transactions.client_errors import code_for
from tidelog.server.request_context import RequestContext
from tidelog.server.transactions.rules.ending import Ending
from tidelog.server.transactions.rules.transaction import EPOCH_BUMP_VERSION, NO_PRODUCER, ProducerIdAndEpoch

_BUMPS_SINCE = 5
_FENCED_SINCE = 2


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    broker.authorizer.require(context, Operation.WRITE, transactional_id(request.transactional_id))
    wish = Ending(
        producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        committed=request.committed,
        client_version=EPOCH_BUMP_VERSION if context.version >= _BUMPS_SINCE else 0,
    )
    return _answer(await broker.transactions.end(request.transactional_id, wish))


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    return _answer(NO_PRODUCER) | {"error_code": code_for(error, context.version, fenced_since=_FENCED_SINCE)}


def _answer(producer: ProducerIdAndEpoch) -> dict[str, Any]:
    return {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
