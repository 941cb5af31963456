"""TxnOffsetCommit: it commits offsets in a transaction. They are pending until it ends (KIP-98).

Before the append, the transaction coordinator verifies that the partition of ``__consumer_offsets`` is part of the
transaction, or adds it (v5+, KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic, transactional_id
from tidelog.server.coordinator_log import coordinator_code
from tidelog.server.groups.journal import TransactionalProducer
from tidelog.server.groups.offsets.commit_rules import CommitClaim
from tidelog.server.groups.offsets.commits import OffsetToCommit
from tidelog.server.groups.routing import check_group_id
from tidelog.server.handlers.groups.member_claim import claim_of
from tidelog.server.handlers.groups.topic_parts import (
    Results,
    answered_topics,
    denied_partitions,
    offsets_to_commit,
    partitions_of,
    unknown_partitions,
)
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response
from tidelog.server.topic_name import GROUP_METADATA_TOPIC
from tidelog.server.transactions.rules.transaction import ProducerIdAndEpoch
from tidelog.server.transactions.verification import Membership
from tidelog.server.transactions.verification import Operation as VerifiedOperation

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_NO_SEQUENCE = -1
_KNOWS_LOADING = 2
"""The first version whose clients know COORDINATOR_LOAD_IN_PROGRESS."""


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    authorizer = broker.authorizer
    authorizer.require(context, Operation.WRITE, transactional_id(request.transactional_id))
    authorizer.require(context, Operation.READ, group(request.group_id))
    allowed = authorizer.allowed(context, Operation.READ, topic, (asked.name for asked in request.topics))
    refused = unknown_partitions(request.topics, broker.groups.topics) | denied_partitions(request.topics, allowed)
    offsets = offsets_to_commit(request.topics, refused)
    committed = await _committed(broker, context, request, offsets) if offsets else {}
    return {"topics": answered_topics(request.topics, {**refused, **committed})}


def refuse(_context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    """Return the error for every partition."""
    results = dict.fromkeys(partitions_of(request.topics), error_code_of(error))
    return {"topics": answered_topics(request.topics, results)}


async def _committed(
    broker: Broker, context: RequestContext, request: Struct, offsets: list[OffsetToCommit]
) -> Results:
    claim = _claim(context, request)
    try:
        check_group_id(request.group_id)
        broker.groups.shard_of(request.group_id)
        producer = await _verified(broker, context, request)
        results: Results = await broker.groups.call_shard(
            request.group_id,
            lambda shard, reply: shard.commits.commit_transactional(claim, producer, offsets, reply),
        )
    except ApiError as error:
        return dict.fromkeys((offset.partition for offset in offsets), _code(context, error.code))
    return results


def _code(context: RequestContext, code: ErrorCode) -> ErrorCode:
    is_unknown = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.version < _KNOWS_LOADING
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_unknown else code


async def _verified(broker: Broker, context: RequestContext, request: Struct) -> TransactionalProducer:
    partition = TopicPartition(GROUP_METADATA_TOPIC, broker.groups.partition_of(request.group_id))
    membership = Membership(
        transactional_id=request.transactional_id,
        producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        sequences={partition: _NO_SEQUENCE},
        operation=VerifiedOperation.of_offset_commit(context.version),
    )
    verified = (await broker.transactions.verification.verify(membership))[partition]
    if verified.error is not ErrorCode.NONE:
        raise ApiError(coordinator_code(verified.error))
    return TransactionalProducer(
        producer_id=request.producer_id, producer_epoch=request.producer_epoch, guard=verified.guard
    )


def _claim(context: RequestContext, request: Struct) -> CommitClaim:
    return CommitClaim(member=claim_of(request, request.generation_id), version=context.version, is_transactional=True)
