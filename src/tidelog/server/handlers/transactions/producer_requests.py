"""Requests of a transactional producer: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn (KIP-98, KIP-360).

Clients of transaction version 2 do not send AddOffsetsToTxn, because TxnOffsetCommit adds the partition. Their EndTxn
(version 5) returns the next transaction's epoch (KIP-890).

Up to version 3, a producer sends AddPartitionsToTxn for one transaction. From version 4 on, a broker sends it for many,
and verifies those with ``verify_only`` instead of adding to them (KIP-890). A partition that does not exist, or that
the producer may not write to, fails its transaction: its other partitions get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, INTERNAL_TOPICS
from tidelog.model.topic_partition import partitions_by_topic
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.record.internal_records.transaction_record import NO_EPOCH, NO_PRODUCER, NO_PRODUCER_ID, ProducerIdAndEpoch
from tidelog.server.authorization.authorizer import Authorizer, failure
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, AclResourceType, group, topic, transactional_id
from tidelog.server.broker import Broker
from tidelog.server.network.request_context import RequestContext
from tidelog.server.transactions.rules.ending import Ending
from tidelog.server.transactions.rules.initialization import Initialization
from tidelog.server.transactions.rules.transaction import EPOCH_BUMP_VERSION

if TYPE_CHECKING:
    from tidelog.protocol.message_types import transactions as wire

_INIT_PRODUCER_ID_KNOWS_FENCED = 4
_KNOWS_FENCED = 2
_END_TXN_BUMPS_EPOCH = 5
_FROM_BROKERS_SINCE = 4


def _client_code(error: TidelogError, version: int, *, knows_fenced: int = _KNOWS_FENCED) -> ErrorCode:
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
    code = _client_code(error, context.version, knows_fenced=_INIT_PRODUCER_ID_KNOWS_FENCED)
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
    return {"error_code": _client_code(error, context.version)}


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
    code = _client_code(error, context.version)
    return {"error_code": code, "producer_id": NO_PRODUCER_ID, "producer_epoch": NO_EPOCH}


# --- AddPartitionsToTxn ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _TransactionRequest:
    """The request for one transaction."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicPartition, ...]
    verify_only: bool
    client_version: int


async def add_partitions_to_txn(
    broker: Broker, context: RequestContext, request: wire.AddPartitionsToTxnRequest
) -> wire.AddPartitionsToTxnResponse:
    if context.version < _FROM_BROKERS_SINCE:
        part = _producers_transaction(request)
        broker.authorizer.require(context, Operation.WRITE, transactional_id(part.transactional_id))
        return {"results_by_topic_v3_and_below": _by_topic(await _results(broker, context, part))}
    broker.authorizer.require(context, Operation.CLUSTER_ACTION)
    parts = [_brokers_transaction(transaction) for transaction in request.transactions]
    results = await asyncio.gather(*(_results(broker, context, part) for part in parts))
    return {
        "results_by_transaction": [
            {"transactional_id": part.transactional_id, "topic_results": _by_topic(errors)}
            for part, errors in zip(parts, results, strict=True)
        ]
    }


def refuse_add_partitions_to_txn(
    context: RequestContext, request: wire.AddPartitionsToTxnRequest, error: TidelogError
) -> wire.AddPartitionsToTxnResponse:
    code = _client_code(error, context.version)
    if context.version >= _FROM_BROKERS_SINCE:
        return {"error_code": code}
    return {"results_by_topic_v3_and_below": _by_topic(dict.fromkeys(_producers_transaction(request).partitions, code))}


async def _results(
    broker: Broker, context: RequestContext, part: _TransactionRequest
) -> Mapping[TopicPartition, ErrorCode]:
    """Return an error code for each partition; NONE means success."""
    refused = _refused(broker, context, part.partitions)
    if refused:
        return {name: refused.get(name, ErrorCode.OPERATION_NOT_ATTEMPTED) for name in part.partitions}
    transactions, name, producer = broker.transactions, part.transactional_id, part.producer
    try:
        if part.verify_only:
            return transactions.verify_partitions(name, producer, part.partitions)
        await transactions.add_partitions(name, producer, part.partitions, client_version=part.client_version)
    except ApiError as error:
        return dict.fromkeys(part.partitions, _client_code(error, context.version))
    return dict.fromkeys(part.partitions, ErrorCode.NONE)


def _refused(
    broker: Broker, context: RequestContext, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Return the errors of partitions that do not exist or that the client may not write to. Up to version 3 the client
    is a producer: it needs WRITE on the topics, and internal topics are always refused."""
    image, denied = broker.metadata.image, set[str]()
    if context.version < _FROM_BROKERS_SINCE:
        names = {name.topic for name in partitions}
        own = [name.topic for name in partitions if name.topic not in INTERNAL_TOPICS]
        denied = names - broker.authorizer.allowed(context, Operation.WRITE, topic, own)
    unknown = {name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for name in partitions if image.partition(name) is None}
    return unknown | {name: ErrorCode.TOPIC_AUTHORIZATION_FAILED for name in partitions if name.topic in denied}


def _producers_transaction(request: wire.AddPartitionsToTxnRequest) -> _TransactionRequest:
    return _TransactionRequest(
        transactional_id=request.v3_and_below_transactional_id,
        producer=ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        partitions=_partitions(request.v3_and_below_topics),
        verify_only=False,
        client_version=0,
    )


def _brokers_transaction(transaction: wire.AddPartitionsToTxnTransaction) -> _TransactionRequest:
    return _TransactionRequest(
        transactional_id=transaction.transactional_id,
        producer=ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch),
        partitions=_partitions(transaction.topics),
        verify_only=transaction.verify_only,
        client_version=EPOCH_BUMP_VERSION,
    )


def _partitions(topics: Iterable[wire.AddPartitionsToTxnTopic]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(one.name, number) for one in topics for number in one.partitions)


def _by_topic(errors: Mapping[TopicPartition, ErrorCode]) -> list[wire.AddPartitionsToTxnTopicResult]:
    return [
        {
            "name": name,
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": errors[TopicPartition(name, number)]}
                for number in numbers
            ],
        }
        for name, numbers in partitions_by_topic(errors).items()
    ]
