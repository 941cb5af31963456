"""The rebalance of a classic group, phase by phase, with its timers.

=======================  ====================================  ====================================================
timer                    set when                              effect when it expires
=======================  ====================================  ====================================================
join (first rebalance)   an empty group prepares               it is set again if a new member came and the
                                                               rebalance timeout allows; else the join phase ends
join                     a group with members prepares         dynamic members that did not join are removed; if no
                                                               member joined it is set again
sync                     the join phase ends                   members that did not sync are removed, and the group
                                                               rebalances
heartbeat of a member    a join, heartbeat or response         it is removed, unless it waits for a response
=======================  ====================================  ====================================================

A group that loses its last member is written to the log as empty. Thread rule: the event loop only.
Source: Kafka's ``GroupMetadataManager``, the part about classic groups.
"""

from __future__ import annotations

import logging

from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.records.classic_records import group_metadata
from tidelog.server.groups.state.classic_group import NO_MEMBER, ClassicGroup, ClassicState
from tidelog.server.groups.state.classic_member import ClassicMember, ResponseFields
from tidelog.server.groups.state.journal import Done
from tidelog.server.groups.state.shard_context import ShardContext

_log = logging.getLogger(__name__)


class Rebalancing:
    """The rebalances of all classic groups of one shard."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._timers = context.timers

    # --- phases ---

    def rebalance_or_complete(self, group: ClassicGroup, reason: str) -> None:
        """Start a rebalance after a change of the members, or end the current join phase if all members joined."""
        if group.can_rebalance:
            self.prepare(group, reason)
        else:
            self.complete_join_if_all_joined(group)

    def prepare(self, group: ClassicGroup, reason: str) -> None:
        """Start a rebalance: from now on the members must join again."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.refuse_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._clear_pending_syncs(group)
        is_first = group.is_empty
        group.move_to(ClassicState.PREPARING_REBALANCE, self._timers.now_ms())
        _log.info("group %s rebalances from generation %d: %s", group.group_id, group.generation_id, reason)
        if is_first:
            delay_ms = self._context.settings.initial_rebalance_delay_ms
            self._wait_for_first_members(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.all_have_joined:
            self.complete_join(group)
        else:
            self._wait_for_members(group)

    def complete_join_if_all_joined(self, group: ClassicGroup) -> None:
        """End the join phase if all members joined. A first rebalance always waits, because more members may come."""
        is_waiting = group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is not ClassicState.EMPTY
        if is_waiting and group.all_have_joined:
            self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> None:
        """Fix the members of the next generation: the joined members, and static members that may come back."""
        self._timers.cancel(("join", group.group_id))
        for member_id in group.absent_dynamic_members:
            self._remove_with_timer(group, member_id)
        if not group.elect_joined_leader() and group.members:
            self._wait_for_members(group)  # only static members are left, and none of them joined
            return
        group.begin_generation(self._timers.now_ms())
        if group.is_empty:
            _log.info("group %s is empty in generation %d", group.group_id, group.generation_id)
            self._context.journal.write([group_metadata(group, {})], self._log_write_failure(group), apply=False)
        else:
            self._announce_members(group)

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Write the leader's assignment. The group then becomes stable, and waiting members get their assignments."""
        generation = group.generation_id

        def done(error: ErrorCode) -> None:
            if group.state is not ClassicState.COMPLETING_REBALANCE or group.generation_id != generation:
                return
            if error is ErrorCode.NONE:
                group.set_assignments(assignments)
                self._propagate_assignment(group)
                group.move_to(ClassicState.STABLE, self._timers.now_ms())
                self._context.counts.classic_rebalances.mark()
            else:
                self.refuse_assignment(group, error)
                self.rebalance_or_complete(group, f"the assignment could not be written: {error.name}")

        self._context.journal.write([group_metadata(group, assignments)], done, apply=False)

    def refuse_assignment(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Clear all assignments and fail the pending SyncGroup requests."""
        group.set_assignments({})
        for member in group.members.values():
            if group.complete_sync_reply(member, {"error_code": error}):
                self.expect_heartbeat(group, member)

    # --- members ---

    def expect_heartbeat(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Restart the member's session timer. ``timeout_ms`` replaces the session timeout for a new member's join."""
        self._expect(group, member.member_id, member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def add_pending(self, group: ClassicGroup, member_id: str, session_timeout_ms: int) -> None:
        """Add a member that got its id, and has one session timeout to join with it."""
        group.pending_members.add(member_id)
        self._expect(group, member_id, session_timeout_ms)

    def remove_member(self, group: ClassicGroup, member_id: str) -> None:
        """Remove the member. Fail its pending join with UNKNOWN_MEMBER_ID."""
        member = group.members.get(member_id)
        if member is not None:
            group.complete_join_reply(member, {"error_code": ErrorCode.UNKNOWN_MEMBER_ID, "member_id": NO_MEMBER})
        self._remove_with_timer(group, member_id)

    def sync_received(self, group: ClassicGroup, member_id: str) -> None:
        """Note that the member sent its SyncGroup request."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self._timers.cancel(("sync", group.group_id))

    # --- loading and unloading ---

    def resume(self, group: ClassicGroup) -> None:
        """Start the session timers of a group that was read from the log. Rebalance it if it has too many members."""
        for member in group.members.values():
            self.expect_heartbeat(group, member)
        if len(group.members) > self._context.settings.max_size:
            self.prepare(group, f"it has more than {self._context.settings.max_size} members")

    def resign(self, group: ClassicGroup) -> None:
        """Fail pending requests with NOT_COORDINATOR, because another broker coordinates the group now."""
        group.move_to(ClassicState.DEAD, self._timers.now_ms())
        for member in group.members.values():
            group.complete_join_reply(member, {"error_code": ErrorCode.NOT_COORDINATOR, "member_id": member.member_id})
            group.complete_sync_reply(member, {"error_code": ErrorCode.NOT_COORDINATOR})

    # --- the timers ---

    def _expect(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        key = ("heartbeat", group.group_id, member_id)
        self._timers.set(key, timeout_ms, lambda: self._session_expired(group, member_id))

    def _session_expired(self, group: ClassicGroup, member_id: str) -> None:
        member = group.members.get(member_id)
        if not self._is_current(group) or (member is not None and member.may_be_silent):
            return
        if member is None and member_id not in group.pending_members:
            return
        _log.info("group %s: member %s sent no heartbeat within its session timeout", group.group_id, member_id)
        self.remove_member(group, member_id)
        if member is not None and group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self.rebalance_or_complete(group, f"the session of member {member_id} timed out")
        elif group.state is ClassicState.PREPARING_REBALANCE and group.all_have_joined:
            self.complete_join(group)

    def _wait_for_first_members(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def over() -> None:
            if not group.has_new_member or remaining_ms == 0:
                self._complete_join_of_current(group)
                return
            group.has_new_member = False
            more_ms = min(self._context.settings.initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_first_members(group, more_ms, max(remaining_ms - delay_ms, 0))

        self._timers.set(("join", group.group_id), delay_ms, over)

    def _wait_for_members(self, group: ClassicGroup) -> None:
        key = ("join", group.group_id)
        self._timers.set(key, group.rebalance_timeout_ms, lambda: self._complete_join_of_current(group))

    def _wait_for_syncs(self, group: ClassicGroup) -> None:
        def over() -> None:  # the timer is cancelled after the last sync, and when the next rebalance begins
            if not self._is_current(group):
                return
            missing = sorted(group.pending_syncs)
            for member_id in missing:
                self._remove_with_timer(group, member_id)
            self.prepare(group, f"members {', '.join(missing)} sent no SyncGroup")

        self._timers.set(("sync", group.group_id), group.rebalance_timeout_ms, over)

    def _clear_pending_syncs(self, group: ClassicGroup) -> None:
        group.pending_syncs.clear()
        self._timers.cancel(("sync", group.group_id))

    def _complete_join_of_current(self, group: ClassicGroup) -> None:
        if self._is_current(group):
            self.complete_join(group)

    def _is_current(self, group: ClassicGroup) -> bool:
        """Return False if the group was deleted or became a consumer group after the timer was set."""
        return self._context.groups.get(group.group_id) is group

    # --- responses ---

    def _announce_members(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            group.complete_join_reply(member, joined(group, member.member_id))
            self.expect_heartbeat(group, member)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self._wait_for_syncs(group)

    def _propagate_assignment(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            if group.complete_sync_reply(member, synced(group, member)):
                self.expect_heartbeat(group, member)

    def _remove_with_timer(self, group: ClassicGroup, member_id: str) -> None:
        group.remove(member_id)
        self._timers.cancel(("heartbeat", group.group_id, member_id))

    def _log_write_failure(self, group: ClassicGroup) -> Done:
        def done(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                # The next coordinator reads removed members from the log, and removes them after their session timeout.
                _log.warning("group %s: the empty group could not be written: %s", group.group_id, error.name)

        return done


def joined(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> ResponseFields:
    """Return the response of a member's join. Only the leader gets the list of members."""
    return {
        "error_code": ErrorCode.NONE,
        "generation_id": group.generation_id,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader_id or NO_MEMBER,
        "skip_assignment": skip_assignment,
        "member_id": member_id,
        "members": group.described_members() if group.is_leader(member_id) else [],
    }


def synced(group: ClassicGroup, member: ClassicMember) -> ResponseFields:
    """Return the response of a member's sync in a stable group."""
    return {
        "error_code": ErrorCode.NONE,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "assignment": member.assignment,
    }
