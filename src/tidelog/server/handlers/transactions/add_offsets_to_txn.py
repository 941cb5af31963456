"""AddOffsetsToTxn: it adds a group's offsets partition to a transaction (KIP-98).

Clients of transaction version 2 do not send it, because TxnOffsetCommit adds the partition (KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, transactional_id
from tidelog.server.broker import Broker
from tidelog.server.handlers.transactions.client_errors import code_for
from tidelog.server.request_context import RequestContext
from tidelog.server.topic_name import GROUP_METADATA_TOPIC
from tidelog.server.transactions.rules.transaction import ProducerIdAndEpoch

_FENCED_SINCE = 2


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    broker.authorizer.require(context, Operation.WRITE, transactional_id(request.transactional_id))
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    await broker.transactions.add_partitions(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        [TopicPartition(GROUP_METADATA_TOPIC, broker.groups.partition_of(request.group_id))],
        client_version=0,
    )
    return {}


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    return {"error_code": code_for(error, context.version, fenced_since=_FENCED_SINCE)}
