"""A partition of ``__consumer_offsets`` on its coordinator: groups, offsets and their operations.

Requests of the classic protocol can go to groups of both types. A consumer group may have members of the classic
protocol, and becomes a classic group if a classic member joins while it is empty. A response waits until the journal
has written its change.

``replay`` fills a shard (see ``owned_shard``), then ``resume`` starts its timers. When another broker takes over,
``resign`` fails pending requests with NOT_COORDINATOR. Thread rule: the event loop only, except for loading.
Source: Kafka's ``GroupCoordinatorShard``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.committed_offset import OFFSET, offset_tombstone
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.server.groups.classic.joining import Joining, JoinRequest, refused
from tidelog.server.groups.classic.member_requests import Leaver, MemberClaim, MemberRequests, SyncRequest
from tidelog.server.groups.classic.rebalancing import Rebalancing
from tidelog.server.groups.consumer.classic_members import ClassicMembers
from tidelog.server.groups.consumer.heartbeats import Heartbeats
from tidelog.server.groups.consumer.migration import Migration
from tidelog.server.groups.consumer.regexes import Regexes
from tidelog.server.groups.consumer.sessions import Sessions
from tidelog.server.groups.offsets.commits import Commits
from tidelog.server.groups.offsets.expiry import expired_records, removal_records
from tidelog.server.groups.records.replay import Replay
from tidelog.server.groups.state.classic_group import NO_MEMBER, ClassicGroup
from tidelog.server.groups.state.classic_member import Reply
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.group_map import ServedGroup
from tidelog.server.groups.state.shard_context import ShardContext
from tidelog.server.groups.state.unserved_group import UnservedGroup

_log = logging.getLogger(__name__)

_RECORDS_A_BATCH = 1000
_UNKNOWN_GROUP = "Group {} not found."


class Shard:
    """``groups`` and ``offsets`` are the state in the log. Handlers call ``commits`` and ``consumer`` directly."""

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.groups = context.groups
        self.offsets = context.offsets
        self.replay = Replay(context.groups, context.offsets)
        self._rebalancing = Rebalancing(context)
        self._joining = Joining(context, self._rebalancing)
        self._member_requests = MemberRequests(self._rebalancing)
        regexes, migration = Regexes(context), Migration(context, self._rebalancing)
        self._sessions = Sessions(context, regexes, migration)
        self._classic_members = ClassicMembers(context, regexes, self._sessions, migration)
        self.consumer = Heartbeats(context, regexes, self._sessions, migration)
        self.commits = Commits(context, self._rebalancing)

    # --- the classic protocol ---

    def join(self, request: JoinRequest, reply: Reply) -> None:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            self._classic_members.join(group, request, reply)
            return
        if isinstance(group, UnservedGroup) and not group.can_be_deleted:
            reply({**refused(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL), "member_id": NO_MEMBER})
            return
        if isinstance(group, ConsumerGroup | UnservedGroup):
            self.context.journal.write(removal_records(group), lambda _error: None)
        self._joining.join(request, reply)

    def sync(self, request: SyncRequest, reply: Reply) -> None:
        group = self._group_of(request.claim)
        if isinstance(group, ConsumerGroup):
            self._classic_members.sync(group, request, reply)
        else:
            self._member_requests.sync(group, request, reply)

    def heartbeat(self, claim: MemberClaim) -> ErrorCode:
        """Return the response's error code. Raise ApiError(UNKNOWN_MEMBER_ID) if the group has no members."""
        group = self._group_of(claim)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.heartbeat(group, claim)
        return self._member_requests.heartbeat(group, claim)

    def leave(self, group_id: str, leavers: Sequence[Leaver], reply: Callable[[list[ErrorCode]], None]) -> None:
        """Remove the members and pass ``reply`` an error code for each of them."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            self._classic_members.leave(group, leavers, reply)
        elif group is None or isinstance(group, UnservedGroup):
            reply([ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers))
        else:
            reply(self._member_requests.leave(group, leavers))

    def _group_of(self, claim: MemberClaim) -> ServedGroup:
        group = self.groups.get(claim.group_id)
        if group is None or group.is_empty or isinstance(group, UnservedGroup):
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, _UNKNOWN_GROUP.format(claim.group_id))
        return group

    # --- deletion of groups and offsets ---

    def delete_groups(self, group_ids: Sequence[str], reply: Callable[[Mapping[str, ErrorCode]], None]) -> None:
        """Delete groups without members, and their offsets. Each group has its own result."""
        results: dict[str, ErrorCode] = {}
        records: list[GroupRecord] = []
        for group_id in group_ids:
            group = self.groups.get(group_id)
            if group is None:
                results[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
            elif not group.is_empty:
                results[group_id] = ErrorCode.NON_EMPTY_GROUP
            elif isinstance(group, UnservedGroup) and not group.can_be_deleted:
                results[group_id] = ErrorCode.GROUP_DELETION_FAILED
            else:
                results[group_id] = ErrorCode.NONE
                gone = self.offsets.known_partitions(group_id)
                records += [offset_tombstone(group_id, partition) for partition in gone]
                records += removal_records(group)
        deleted = [group_id for group_id, error in results.items() if error is ErrorCode.NONE]

        def done(error: ErrorCode) -> None:
            reply(results if error is ErrorCode.NONE else {**results, **dict.fromkeys(deleted, error)})

        self.context.journal.write(records, done)

    def expire(self) -> None:
        """Write the tombstones of expired offsets and of groups that are no longer needed."""
        now_ms, retention_ms = self.context.timers.now_ms(), self.context.settings.offsets_retention_ms
        records = [
            record
            for group in self.groups.values()
            for record in expired_records(group, self.offsets, now_ms=now_ms, retention_ms=retention_ms)
        ]
        self.context.counts.expirations.mark(sum(record.number == OFFSET for record in records))
        if records:
            _log.info("Deleting %d expired offsets and groups", len(records))
            self._write_in_batches(records)

    def delete_offsets_of_topics(self, topics: Mapping[str, uuid.UUID]) -> None:
        """Delete the offsets that were committed for these deleted topics."""
        gone = list(self.offsets.of_topics(topics))
        self._write_in_batches([offset_tombstone(group_id, partition) for group_id, partition in gone])

    def mark_topics_changed(self, names: frozenset[str]) -> None:
        """Mark the groups that read a changed topic, so that their next heartbeat checks the topics again."""
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup) and group.knows_topics and names & group.subscribed_topics:
                group.knows_topics = False

    # --- loading and unloading ---

    def resume(self) -> None:
        """Start the session timers of all members and the expiry timer, after the log has been read."""
        for group in list(self.groups.values()):
            if isinstance(group, ConsumerGroup):
                self._sessions.start_timers(group)
            elif isinstance(group, ClassicGroup):
                self._rebalancing.resume(group)
        self._expire_later()

    def resign(self) -> None:
        """Drop the groups and timers because another broker has the partition now. Idempotent."""
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                self._rebalancing.resign(group)
        self.groups.clear()
        self.context.timers.cancel_all()

    def _write_in_batches(self, records: Sequence[GroupRecord]) -> None:
        """Write records as several batches, as one could be too large. The next ``expire`` retries its failures."""
        for start in range(0, len(records), _RECORDS_A_BATCH):
            self.context.journal.write(records[start : start + _RECORDS_A_BATCH], lambda _error: None)

    def _expire_later(self) -> None:
        def run() -> None:
            self._expire_later()
            self.expire()

        self.context.timers.set(("expiry",), self.context.settings.retention_check_interval_ms, run)
