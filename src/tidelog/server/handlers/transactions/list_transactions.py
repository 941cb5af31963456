"""ListTransactions (KIP-664, KIP-994, KIP-1152): the transactional ids here that pass the filters.

The response includes only the ids that the client may describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import transactional_id
from tidelog.server.broker import Broker
from tidelog.server.request_context import RequestContext
from tidelog.server.transactions.listing import TransactionFilter


def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
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
