"""Requests of a transactional producer: InitProducerId, AddOffsetsToTxn and EndTxn (KIP-98, KIP-360).

Clients of transaction version 2 do not send AddOffsetsToTxn, because TxnOffsetCommit adds the partition. Their EndTxn
(version 5) returns the next transaction's epoch (KIP-890). AddPartitionsToTxn has a module of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.record.internal_records.transaction_record import NO_EPOCH, NO_PRODUCER, NO_PRODUCER_ID, ProducerIdAndEpoch
from tidelog.server.authorization.authorizer import Authorizer, failure
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, AclResourceType, group, transactional_id
from tidelog.server.broker import Broker
from tidelog.server.request_context import RequestContext
from tidelog.server.transactions.rules.ending import Ending
from tidelog.server.transactions.rules.initialization import Initialization
from tidelog.server.transactions.rules.transaction import EPOCH_BUMP_VERSION

if TYPE_CHECKING:
    from tidelog.protocol.message_types import transactions as wire

_INIT_PRODUCER_ID_KNOWS_FENCED = 4
_KNOWS_FENCED = 2
_END_TXN_BUMPS_EPOCH = 5


def client_code(error: TidelogError, version: int, *, knows_fenced: int = _KNOWS_FENCED) -> ErrorCode:
    """Return the error code for a client. ``knows_fenced`` is the first version with PRODUCER_FENCED (KIP-588)."""
    code = error_code_of(error)
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and version < knows_fenced else code


# --- InitProducerId ---


async def init_producer_id(
    broker: Broker, context: RequestContext, request: wire.InitProducerIdRequest
) -> wire.InitProducerIdResponse:
    _authorize(broker.authorizer, context, request.transactional_id)
    named = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    if (named.producer_id == NO_PRODUCER_ID) != (named.producer_epoch == NO_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and an epoch must be given together")
    if request.transactional_id is None:
        return {"producer_id": await broker.transactions.new_producer_id(), "producer_epoch": 0}
    initialization = Initialization(
        timeout_ms=request.transaction_timeout, named=None if named == NO_PRODUCER else named
    )
    producer = await broker.transactions.initialize(request.transactional_id, initialization)
    return {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}


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


def refuse_init_producer_id(
    context: RequestContext, _request: wire.InitProducerIdRequest, error: TidelogError
) -> wire.InitProducerIdResponse:
    code = client_code(error, context.version, knows_fenced=_INIT_PRODUCER_ID_KNOWS_FENCED)
    return {"error_code": code, "producer_id": NO_PRODUCER_ID, "producer_epoch": NO_EPOCH}


# --- AddOffsetsToTxn ---


async def add_offsets_to_txn(
    broker: Broker, context: RequestContext, request: wire.AddOffsetsToTxnRequest
) -> wire.AddOffsetsToTxnResponse:
    broker.authorizer.require(context, Operation.WRITE, transactional_id(request.transactional_id))
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    await broker.transactions.add_partitions(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        [TopicPartition(GROUP_METADATA_TOPIC, broker.groups.partition_of(request.group_id))],
        client_version=0,
    )
    return {}


def refuse_add_offsets_to_txn(
    context: RequestContext, _request: wire.AddOffsetsToTxnRequest, error: TidelogError
) -> wire.AddOffsetsToTxnResponse:
    return {"error_code": client_code(error, context.version)}


# --- EndTxn ---


async def end_txn(broker: Broker, context: RequestContext, request: wire.EndTxnRequest) -> wire.EndTxnResponse:
    broker.authorizer.require(context, Operation.WRITE, transactional_id(request.transactional_id))
    ending = Ending(
        producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        committed=request.committed,
        client_version=EPOCH_BUMP_VERSION if context.version >= _END_TXN_BUMPS_EPOCH else 0,
    )
    producer = await broker.transactions.end(request.transactional_id, ending)
    return {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}


def refuse_end_txn(context: RequestContext, _request: wire.EndTxnRequest, error: TidelogError) -> wire.EndTxnResponse:
    code = client_code(error, context.version)
    return {"error_code": code, "producer_id": NO_PRODUCER_ID, "producer_epoch": NO_EPOCH}
