"""DescribeTransactions and ListTransactions: the transactional ids of this coordinator (KIP-664, KIP-994, KIP-1152).

A description has an error of its own, and a repeated id is described once. Responses include only the ids and topics
that the client may describe.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.model.topic_partition import partitions_by_topic
from tidelog.protocol.errors import ApiError
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import topic, transactional_id
from tidelog.server.broker import Broker
from tidelog.server.network.request_context import RequestContext
from tidelog.server.transactions.listing import TransactionFilter

if TYPE_CHECKING:
    from tidelog.protocol.message_types import transactions as wire


def describe_transactions(
    broker: Broker, context: RequestContext, request: wire.DescribeTransactionsRequest
) -> wire.DescribeTransactionsResponse:
    names = dict.fromkeys(request.transactional_ids)
    return {"transaction_states": [_state(broker, context, name) for name in names]}


def _state(broker: Broker, context: RequestContext, name: str) -> wire.DescribeTransactionsResponseTransactionState:
    try:
        broker.authorizer.require(context, Operation.DESCRIBE, transactional_id(name))
        record = broker.transactions.describe(name).record
    except ApiError as error:
        return {"transactional_id": name, "error_code": error.code}
    by_topic = partitions_by_topic(record.partitions)
    visible = broker.authorizer.allowed(context, Operation.DESCRIBE, topic, by_topic)
    return {
        "transactional_id": name,
        "transaction_state": record.state.label,
        "transaction_timeout": record.timeout_ms,
        "transaction_start_time": record.start_ms,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "topics": [{"topic": one, "partitions": numbers} for one, numbers in by_topic.items() if one in visible],
    }


def list_transactions(
    broker: Broker, context: RequestContext, request: wire.ListTransactionsRequest
) -> wire.ListTransactionsResponse:
    wanted = TransactionFilter.of(
        states=request.state_filters,
        producer_ids=request.producer_id_filters,
        duration_ms=request.duration_filter,
        pattern=request.transactional_id_pattern,
    )
    visible = partial(broker.authorizer.allowed, context, Operation.DESCRIBE, transactional_id)
    return {
        "unknown_state_filters": wanted.unknown_states,
        "transaction_states": [
            {
                "transactional_id": listed.transactional_id,
                "producer_id": listed.record.producer_id,
                "transaction_state": listed.record.state.label,
            }
            for listed in broker.transactions.select(wanted, visible)
        ],
    }
