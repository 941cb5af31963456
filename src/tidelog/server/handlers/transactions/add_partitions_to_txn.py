"""AddPartitionsToTxn: it adds partitions to a transaction or verifies them.

Up to version 3, a producer sends it for one transaction. From version 4 on, a broker sends it for many, and verifies
those with ``verify_only`` instead of adding to them (KIP-890). A partition that does not exist, or that the producer
may not write to, fails its transaction: the transaction's other partitions get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.topic_partition import partitions_by_topic
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import topic, transactional_id
from tidelog.server.broker import Broker
from tidelog.server.handlers.transactions.producer_requests import client_code
from tidelog.server.request_context import RequestContext
from tidelog.server.transactions.rules.transaction import EPOCH_BUMP_VERSION

if TYPE_CHECKING:
    from tidelog.protocol.message_types import transactions as wire

_FROM_BROKERS_SINCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _TransactionRequest:
    """The request for one transaction."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicPartition, ...]
    verify_only: bool
    client_version: int


async def handle(
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


def refuse(
    context: RequestContext, request: wire.AddPartitionsToTxnRequest, error: TidelogError
) -> wire.AddPartitionsToTxnResponse:
    code = client_code(error, context.version)
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
        return dict.fromkeys(part.partitions, client_code(error, context.version))
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
