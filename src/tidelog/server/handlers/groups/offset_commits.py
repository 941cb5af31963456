"""OffsetCommit, TxnOffsetCommit and OffsetDelete: changes of a group's committed offsets.

A commit covers existing partitions, and its response waits until it is replicated. TxnOffsetCommit's offsets are
pending until the transaction ends (KIP-98). Before its append, the transaction coordinator verifies that the partition
of ``__consumer_offsets`` is part of the transaction, or adds it (v5+, KIP-890). OffsetDelete deletes offsets of topics
that the group does not read (KIP-496). OffsetCommit names topics by id from version 10 on (KIP-848).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic, transactional_id
from tidelog.server.broker import Broker
from tidelog.server.groups.offsets.commit_rules import CommitClaim
from tidelog.server.groups.offsets.commits import OffsetToCommit
from tidelog.server.groups.state.group_topics import Topics
from tidelog.server.groups.state.journal import TransactionalProducer
from tidelog.server.handlers.groups.classic_membership import check_group_id, claim_of
from tidelog.server.network.request_context import RequestContext
from tidelog.server.topics.coordinator_log import coordinator_code
from tidelog.server.transactions.verification import Membership
from tidelog.server.transactions.verification import Operation as VerifiedOperation

if TYPE_CHECKING:
    from tidelog.protocol.message_types import groups as wire


class NamedPartition(Protocol):
    """A partition in any of the requests."""

    @property
    def partition_index(self) -> int: ...


PartitionT = TypeVar("PartitionT", bound=NamedPartition)
Codes = Mapping[TopicPartition, ErrorCode]

_DEFAULT_RETENTION = -1
_TOPIC_IDS = 10
"""The first version of OffsetCommit with topic ids instead of names."""
_NO_SEQUENCE = -1
_TXN_KNOWS_LOADING = 2
"""The first version of TxnOffsetCommit whose clients know COORDINATOR_LOAD_IN_PROGRESS."""


class Part(NamedTuple, Generic[PartitionT]):
    """The partitions of one topic in a request."""

    name: str
    """The name, or empty if no topic has the id."""
    partitions: Sequence[PartitionT]
    has_id: bool = False
    """True if the request names the topic by its id."""
    topic_id: uuid.UUID | None = None

    @property
    def has_unknown_id(self) -> bool:
        return self.has_id and not self.name

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, one.partition_index) for one in self.partitions]


# --- OffsetCommit ---


async def offset_commit(
    broker: Broker, context: RequestContext, request: wire.OffsetCommitRequest
) -> wire.OffsetCommitResponse:
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    parts = _parts_of_commit(context, request, broker.groups.topics)
    refused = _refused(broker, context, parts)
    offsets = _offsets(parts, refused)
    committed = await _committed(broker, context, request, offsets) if offsets or not parts else {}
    return {"topics": _topics(parts, {**refused, **committed})}


def refuse_offset_commit(
    context: RequestContext, request: wire.OffsetCommitRequest, error: TidelogError
) -> wire.OffsetCommitResponse:
    """Return the error for every partition."""
    parts = _parts_of_commit(context, request, None)
    return {"topics": _topics(parts, _all_failed(parts, error))}


def _parts_of_commit(
    context: RequestContext, request: wire.OffsetCommitRequest, topics: Topics | None
) -> list[Part[wire.OffsetCommitRequestPartition]]:
    """Return the parts with their topics' names. If ``topics`` is None, the names of topic ids stay empty."""
    if context.version < _TOPIC_IDS:
        return [Part(one.name, one.partitions) for one in request.topics]
    parts = []
    for one in request.topics:
        found = None if topics is None or one.topic_id is None else topics.by_id(one.topic_id)
        parts.append(Part("" if found is None else found.name, one.partitions, True, one.topic_id))
    return parts


async def _committed(
    broker: Broker, context: RequestContext, request: wire.OffsetCommitRequest, offsets: list[OffsetToCommit]
) -> Codes:
    claim = CommitClaim(member=claim_of(request, request.generation_id_or_member_epoch), version=context.version)
    retention_ms = None if request.retention_time == _DEFAULT_RETENTION else request.retention_time
    try:
        codes: Codes = await broker.groups.call_shard(
            request.group_id,
            lambda shard, reply: shard.commits.commit(claim, offsets, reply, retention_ms=retention_ms),
        )
    except ApiError as error:
        return dict.fromkeys((offset.partition for offset in offsets), error.code)
    return codes


# --- TxnOffsetCommit ---


async def txn_offset_commit(
    broker: Broker, context: RequestContext, request: wire.TxnOffsetCommitRequest
) -> wire.TxnOffsetCommitResponse:
    broker.authorizer.require(context, Operation.WRITE, transactional_id(request.transactional_id))
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    parts = [Part(one.name, one.partitions) for one in request.topics]
    refused = _refused(broker, context, parts)
    offsets = _offsets(parts, refused)
    committed = await _txn_committed(broker, context, request, offsets) if offsets else {}
    return {"topics": _topics(parts, {**refused, **committed})}


def refuse_txn_offset_commit(
    _context: RequestContext, request: wire.TxnOffsetCommitRequest, error: TidelogError
) -> wire.TxnOffsetCommitResponse:
    """Return the error for every partition."""
    parts = [Part(one.name, one.partitions) for one in request.topics]
    return {"topics": _topics(parts, _all_failed(parts, error))}


async def _txn_committed(
    broker: Broker, context: RequestContext, request: wire.TxnOffsetCommitRequest, offsets: list[OffsetToCommit]
) -> Codes:
    member = claim_of(request, request.generation_id)
    claim = CommitClaim(member=member, version=context.version, is_transactional=True)
    try:
        check_group_id(request.group_id)
        broker.groups.shard_of(request.group_id)
        producer = await _verified(broker, context, request)
        codes: Codes = await broker.groups.call_shard(
            request.group_id,
            lambda shard, reply: shard.commits.commit_transactional(claim, producer, offsets, reply),
        )
    except ApiError as error:
        return dict.fromkeys((offset.partition for offset in offsets), _client_code(context, error.code))
    return codes


def _client_code(context: RequestContext, code: ErrorCode) -> ErrorCode:
    is_unknown = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.version < _TXN_KNOWS_LOADING
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_unknown else code


async def _verified(
    broker: Broker, context: RequestContext, request: wire.TxnOffsetCommitRequest
) -> TransactionalProducer:
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


# --- OffsetDelete ---


async def offset_delete(
    broker: Broker, context: RequestContext, request: wire.OffsetDeleteRequest
) -> wire.OffsetDeleteResponse:
    broker.authorizer.require(context, Operation.DELETE, group(request.group_id))
    check_group_id(request.group_id)
    parts = [Part(one.name, one.partitions) for one in request.topics]
    refused = _refused(broker, context, parts)
    accepted = [partition for part in parts for partition in part.topic_partitions if partition not in refused]
    deleted: Codes = await broker.groups.call_shard(
        request.group_id, lambda shard, reply: shard.commits.delete(request.group_id, accepted, reply)
    )
    return {"topics": _topics(parts, {**refused, **deleted})}


# --- parts of requests and responses ---


def _refused(
    broker: Broker, context: RequestContext, parts: Sequence[Part[PartitionT]]
) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of unknown partitions, of unknown topic ids, and of topics that the client may not read."""
    topics = broker.groups.topics
    allowed = broker.authorizer.allowed(context, Operation.READ, topic, (part.name for part in parts))
    refused: dict[TopicPartition, ErrorCode] = {}
    for part in parts:
        found = topics.by_name(part.name)
        count = 0 if found is None else found.partitions
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if part.has_unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_denied = part.name not in allowed and not part.has_unknown_id
        for partition in part.topic_partitions:
            if is_denied:
                refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not 0 <= partition.partition < count:
                refused[partition] = unknown
    return refused


def _offsets(
    parts: Iterable[Part[wire.OffsetCommitRequestPartition] | Part[wire.TxnOffsetCommitRequestPartition]],
    refused: Codes,
) -> list[OffsetToCommit]:
    """Return the offsets to commit, without those of ``refused`` partitions."""
    return [
        OffsetToCommit(partition, one.committed_offset, one.committed_leader_epoch, one.committed_metadata)
        for part in parts
        for one in part.partitions
        if (partition := TopicPartition(part.name, one.partition_index)) not in refused
    ]


def _all_failed(parts: Iterable[Part[PartitionT]], error: TidelogError) -> Codes:
    return dict.fromkeys((name for part in parts for name in part.topic_partitions), error_code_of(error))


def _topics(parts: Iterable[Part[PartitionT]], codes: Codes) -> list[wire.OffsetCommitResponseTopic]:
    """Return the response's topics in request order. The three responses have the same form."""
    topics: list[wire.OffsetCommitResponseTopic] = []
    for part in parts:
        partitions: list[wire.OffsetCommitResponsePartition] = [
            {"partition_index": name.partition, "error_code": codes[name]} for name in part.topic_partitions
        ]
        if part.has_id:
            topics.append({"topic_id": part.topic_id, "partitions": partitions})
        else:
            topics.append({"name": part.name, "partitions": partitions})
    return topics
