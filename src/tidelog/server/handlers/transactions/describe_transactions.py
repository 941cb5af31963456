"""DescribeTransactions (KIP-664): the state of transactional ids, each with an error of its own.

A repeated id is described once. The response includes only the topics that the client may describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.protocol.errors import ApiError
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import topic, transactional_id
from tidelog.server.broker import Broker
from tidelog.server.request_context import RequestContext
from tidelog.server.transactions.rules.topics import partitions_by_topic


def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    names = dict.fromkeys(request.transactional_ids)
    return {"transaction_states": [_state(broker, context, name) for name in names]}


def _state(broker: Broker, context: RequestContext, name: str) -> Mapping[str, Any]:
    try:
        broker.authorizer.require(context, Operation.DESCRIBE, transactional_id(name))
        record = broker.transactions.describe(name).record
    except ApiError as error:
        return {"transactional_id": name, "error_code": error.code}
    by_topic = partitions_by_topic(record.partitions)
    shown = broker.authorizer.allowed(context, Operation.DESCRIBE, topic, by_topic)
    return {
        "transactional_id": name,
        "transaction_state": record.state.label,
        "transaction_timeout": record.timeout_ms,
        "transaction_start_time": record.start_ms,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "topics": [{"topic": one, "partitions": numbers} for one, numbers in by_topic.items() if one in shown],
    }
