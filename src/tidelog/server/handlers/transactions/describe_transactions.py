"""DescribeTransactions (KIP-664): what the coordinator knows of transactional ids, each once
and with an error of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.protocol.errors import ApiError
from tidelog.protocol.schemas import Struct
from tidelog.server.broker import Broker
from tidelog.server.request_context import RequestContext
from tidelog.server.transactions.rules.topics import partitions_by_topic


def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    return {"transaction_states": [_state(broker, name) for name in dict.fromkeys(request.transactional_ids)]}


def _state(broker: Broker, transactional_id: str) -> Mapping[str, Any]:
    try:
        record = broker.transactions.describe(transactional_id).record
    except ApiError as error:
        return {"transactional_id": transactional_id, "error_code": error.code}
    return {
        "transactional_id": transactional_id,
        "transaction_state": record.state.label,
        "transaction_timeout": record.timeout_ms,
        "transaction_start_time": record.start_ms,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": numbers} for topic, numbers in partitions_by_topic(record.partitions).items()
        ],
    }
