"""OffsetCommit, TxnOffsetCommit and OffsetDelete: checks, writes, and a reply after replication.

A commit without a generation creates a missing group, which has no members. Each partition has its own error
(OFFSET_METADATA_TOO_LARGE, GROUP_SUBSCRIBED_TO_TOPIC). An error of the complete request is raised as ApiError.
OffsetCommit also counts as a heartbeat of a classic group's member. The handlers check topics and versions.
Thread rule: the event loop only. Source: Kafka's ``OffsetMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.committed_offset import OffsetAndMetadata, offset_commit, offset_tombstone
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.server.groups.classic.rebalancing import Rebalancing
from tidelog.server.groups.offsets.commit_rules import CommitClaim, check_commit, check_delete, check_older
from tidelog.server.groups.state.classic_group import ClassicGroup, ClassicState
from tidelog.server.groups.state.consumer_member import ConsumerMember
from tidelog.server.groups.state.group_map import Group
from tidelog.server.groups.state.journal import Done, TransactionalProducer
from tidelog.server.groups.state.shard_context import ShardContext

Results = Mapping[TopicPartition, ErrorCode]
ResultsReply = Callable[[Results], None]

_FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND = 9
"""The first version whose clients understand GROUP_ID_NOT_FOUND."""


class OffsetToCommit(NamedTuple):
    """``metadata`` is any text of the client, or None."""

    partition: TopicPartition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class Commits:
    """The operations on the committed offsets of one shard."""

    def __init__(self, context: ShardContext, rebalancing: Rebalancing) -> None:
        self._context = context
        self._rebalancing = rebalancing

    def commit(
        self,
        claim: CommitClaim,
        offsets: Sequence[OffsetToCommit],
        reply: ResultsReply,
        *,
        retention_ms: int | None = None,
    ) -> None:
        """Commit offsets. Clients before v5 of the API can set ``retention_ms``, the time for which they are kept."""
        group = self._group(claim)
        older = check_commit(group, claim)
        if isinstance(group, ClassicGroup) and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            self._rebalancing.expect_heartbeat(group, group.members[claim.member.member_id])
        expire_ms = None if retention_ms is None else self._context.timers.now_ms() + retention_ms
        records, results = self._records(claim, older, offsets, expire_ms)
        self._context.counts.commits.mark(len(records))
        self._context.journal.write(records, _replied(reply, results))

    def commit_transactional(
        self,
        claim: CommitClaim,
        producer: TransactionalProducer,
        offsets: Sequence[OffsetToCommit],
        reply: ResultsReply,
    ) -> None:
        """Write offsets that stay pending until the marker of the producer's transaction."""
        older = check_commit(self._group(claim), claim)
        records, results = self._records(claim, older, offsets, None)
        self._context.counts.commits.mark(len(records))
        self._context.journal.write_transactional(records, producer, _replied(reply, results))

    def delete(self, group_id: str, partitions: Sequence[TopicPartition], reply: ResultsReply) -> None:
        """Delete offsets, except those of topics that the group may be reading."""
        group = self._context.groups.find(group_id)
        check_delete(group)
        results = {
            partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(partition.topic) else ErrorCode.NONE
            for partition in partitions
        }
        known = set(self._context.offsets.known_partitions(group_id))
        gone = [partition for partition, error in results.items() if error is ErrorCode.NONE and partition in known]
        self._context.counts.deletions.mark(len(gone))
        self._context.journal.write([offset_tombstone(group_id, one) for one in gone], _replied(reply, results))

    def _group(self, claim: CommitClaim) -> Group:
        group_id = claim.member.group_id
        if group_id in self._context.groups:
            return self._context.groups.find(group_id)
        if claim.member.generation_id < 0:
            return self._context.groups.find_or_create_classic(group_id, self._context.timers.now_ms())
        if claim.version >= _FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND and not claim.is_transactional:
            return self._context.groups.find(group_id)
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)

    def _records(
        self,
        claim: CommitClaim,
        older: ConsumerMember | None,
        offsets: Sequence[OffsetToCommit],
        expire_ms: int | None,
    ) -> tuple[list[GroupRecord], Results]:
        records, results = [], {}
        now_ms, limit = self._context.timers.now_ms(), self._context.settings.offset_metadata_max_bytes
        for one in offsets:
            topic = self._context.topics.by_name(one.partition.topic)
            if older is not None:
                check_older(older, claim, None if topic is None else (topic.id, one.partition.partition))
            metadata = one.metadata or ""
            is_too_large = len(metadata) > limit
            results[one.partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_large else ErrorCode.NONE
            if is_too_large:
                continue
            committed = OffsetAndMetadata(
                offset=one.offset,
                leader_epoch=one.leader_epoch,
                metadata=metadata,
                commit_ms=now_ms,
                expire_ms=expire_ms,
                topic_id=None if topic is None else topic.id,
            )
            records.append(offset_commit(claim.member.group_id, one.partition, committed))
        return records, results


def _replied(reply: ResultsReply, results: Results) -> Done:
    def done(error: ErrorCode) -> None:
        reply(results if error is ErrorCode.NONE else dict.fromkeys(results, error))

    return done
