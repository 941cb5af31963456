"""The session and rebalance timeouts of consumer group members, and the removal of members.

====================  ==============================  =========================================================
timer                 set by                          effect when it expires
====================  ==============================  =========================================================
session               each heartbeat                  the member is removed
rebalance             a step to UNREVOKED_PARTITIONS  the member is removed, if it still has the same epoch
====================  ==============================  =========================================================

A removal that could not be written is retried. Leaving members are removed here too. If only members of the classic
protocol remain, the group becomes a classic group. Thread rule: the event loop only.
Source: the timeouts of Kafka's ``GroupMetadataManager``, and its ``consumerGroupFenceMembers``; KIP-848.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.consumer.consumer_change import ConsumerChange
from tidelog.server.groups.consumer.migration import Migration
from tidelog.server.groups.consumer.regexes import Regexes
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.consumer_member import ConsumerMember, MemberState
from tidelog.server.groups.state.journal import Done
from tidelog.server.groups.state.shard_context import ShardContext

RETRY_MS: Final = 500
_TIMERS: Final = ("session", "rebalance", "join", "sync")

_log = logging.getLogger(__name__)


class Sessions:
    """The timeouts of members in one shard's consumer groups, and their removal."""

    def __init__(self, context: ShardContext, regexes: Regexes, migration: Migration) -> None:
        self._context = context
        self._timers = context.timers
        self._regexes = regexes
        self._migration = migration

    def expect_heartbeat(self, group_id: str, member: ConsumerMember) -> None:
        """Start a new session after a heartbeat of the member."""
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        else:
            timeout_ms = self._context.timeouts(group_id).session_timeout_ms
        self._set("session", group_id, member.member_id, timeout_ms, "its session timed out")

    def update_revocation_timer(self, group_id: str, before: ConsumerMember, after: ConsumerMember) -> None:
        """Start or cancel the rebalance timer after a reconciliation step. Members of the classic protocol lack it."""
        key = ("rebalance", group_id, after.member_id)
        if after == before or after.classic is not None:
            return
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            self._expect_revocation(group_id, after)
        else:
            self._timers.cancel(key)

    def expect(self, name: str, group_id: str, member: ConsumerMember, reason: str) -> None:
        """Start a classic member's rebalance timeout for the action ``name``. A running timer is not restarted."""
        if not self._timers.is_set((name, group_id, member.member_id)):
            self._set(name, group_id, member.member_id, member.rebalance_timeout_ms, reason)

    def cancel_expected(self, name: str, group_id: str, member_id: str) -> None:
        self._timers.cancel((name, group_id, member_id))

    def start_timers(self, group: ConsumerGroup) -> None:
        """Start the timers of a group that was read from the log. Its members have one session to send a heartbeat."""
        for member in group.members.values():
            self.expect_heartbeat(group.group_id, member)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._expect_revocation(group.group_id, member)

    def remove(self, group: ConsumerGroup, members: Sequence[ConsumerMember], done: Done) -> None:
        """Remove members that left or timed out. Call ``done`` when the removal is written."""
        if not members:
            self._context.journal.write([], done)
            return
        for member in members:
            self.cancel_timers(group.group_id, member.member_id)
        change = ConsumerChange(self._context, self._regexes, group)
        if self._migration.downgrades_after_leaving(group, members):
            self._migration.to_classic(change.draft, members, done)
        else:
            change.remove(members)
            change.write(done)

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        """Cancel all timers of a removed member."""
        for name in _TIMERS:
            self._timers.cancel((name, group_id, member_id))

    # --- expired timers ---

    def _expect_revocation(self, group_id: str, member: ConsumerMember) -> None:
        epoch = member.member_epoch
        self._set(
            "rebalance",
            group_id,
            member.member_id,
            member.rebalance_timeout_ms,
            f"it did not give up its partitions in epoch {epoch}",
            is_due=lambda now: now.member_epoch == epoch,
        )

    def _set(
        self,
        name: str,
        group_id: str,
        member_id: str,
        timeout_ms: int,
        reason: str,
        *,
        is_due: Callable[[ConsumerMember], bool] = lambda _member: True,
    ) -> None:
        def over() -> None:
            group = self._context.groups.get(group_id)
            member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
            if not isinstance(group, ConsumerGroup) or not isinstance(member, ConsumerMember) or not is_due(member):
                return
            _log.info("group %s: member %s is removed: %s", group_id, member_id, reason)
            self.remove(group, [member], done)

        def done(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._timers.set((name, group_id, member_id), RETRY_MS, over)

        self._timers.set((name, group_id, member_id), timeout_ms, over)
