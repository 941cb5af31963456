"""InitProducerId (KIP-98, KIP-360): the id and epoch of an idempotent or transactional producer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.authorizer import Authorizer, failure
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, AclResourceType, transactional_id
from tidelog.server.broker import Broker
from tidelog.server.handlers.transactions.client_errors import code_for
from tidelog.server.request_context import RequestContext
from tidelog.server.transactions.rules.initialization import Initialization
from tidelog.server.transactions.rules.transaction import NO_EPOCH, NO_PRODUCER, NO_PRODUCER_ID, ProducerIdAndEpoch

_FENCED_SINCE = 4


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    _authorize(broker.authorizer, context, request.transactional_id)
    named = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    if (named.producer_id == NO_PRODUCER_ID) != (named.producer_epoch == NO_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and an epoch must be given together")
    if request.transactional_id is None:
        return _answer(ProducerIdAndEpoch(await broker.transactions.new_producer_id(), 0))
    wish = Initialization(timeout_ms=request.transaction_timeout, named=None if named == NO_PRODUCER else named)
    return _answer(await broker.transactions.initialize(request.transactional_id, wish))


def _authorize(authorizer: Authorizer, context: RequestContext, name: str | None) -> None:
    """Raise ApiError if the client may not get a producer id. Without a transactional id it needs IDEMPOTENT_WRITE on
    the cluster, or WRITE on any topic (KIP-679)."""
    if name is not None:
        authorizer.require(context, Operation.WRITE, transactional_id(name))
    elif not (
        authorizer.allows(context, Operation.IDEMPOTENT_WRITE, CLUSTER, log_denial=False)
        or authorizer.allows_some(context, Operation.WRITE, AclResourceType.TOPIC)
    ):
        raise failure(AclResourceType.CLUSTER)


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    return _answer(NO_PRODUCER) | {"error_code": code_for(error, context.version, fenced_since=_FENCED_SINCE)}


def _answer(producer: ProducerIdAndEpoch) -> dict[str, Any]:
    return {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
