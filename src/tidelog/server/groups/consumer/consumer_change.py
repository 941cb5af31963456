"""The steps of a change to a consumer group, in a draft.

A heartbeat runs ``subscribe``, ``update_group_epoch``, ``assign`` and ``reconcile``, and so does the join of a member
of the classic protocol. Each step adds its records. Thread rule: the event loop only.
Source: Kafka's ``GroupMetadataManager.consumerGroupHeartbeat``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidelog.server.groups.consumer.reconciliation import Owned, Target, reconcile
from tidelog.server.groups.consumer.regexes import RegexChange, Regexes
from tidelog.server.groups.consumer.targets import assignor_names, metadata_hash, update_target
from tidelog.server.groups.records import consumer_records
from tidelog.server.groups.records.replay import GroupDraft
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.consumer_member import ConsumerMember
from tidelog.server.groups.state.group_topics import VisibleTopics
from tidelog.server.groups.state.journal import Done
from tidelog.server.groups.state.shard_context import ShardContext

_log = logging.getLogger(__name__)


class ConsumerChange:
    """A change of one group, until it is written."""

    def __init__(self, context: ShardContext, regexes: Regexes, group: ConsumerGroup) -> None:
        """The ``group`` may be new, and not in the shard yet."""
        self._context = context
        self._regexes = regexes
        self.draft = GroupDraft(group)

    @property
    def group(self) -> ConsumerGroup:
        """The group after the change."""
        return self.draft.group

    def subscribe(self, before: ConsumerMember, after: ConsumerMember, visible: VisibleTopics) -> bool:
        """Store the member's identity and subscription. Return True if the target assignment must change for it."""
        regex = self._regexes.change(self.group, before, after)
        assignor = self._assignor
        if after != before or after.member_id not in self.group.members:
            self.draft.add(consumer_records.member_metadata(self.group.group_id, after))
        if regex is not RegexChange.NONE:
            self._regexes.delete_unused(self.draft, before.topic_regex)
        self._regexes.schedule_resolution_if_due(self.group, visible)
        has_other_topics = after.topic_names != before.topic_names
        return has_other_topics or regex is RegexChange.RESOLVED or self._assignor != assignor

    def update_group_epoch(self, *, must_grow: bool) -> None:
        """Raise the group epoch if ``must_grow``, or if a topic that the group reads has changed."""
        group = self.group
        if not must_grow and group.knows_topics:
            return
        now_hash = metadata_hash(group, self._context.topics)
        if must_grow or now_hash != group.metadata_hash:
            epoch = group.group_epoch + 1
            self.draft.add(consumer_records.group_epoch(group.group_id, epoch, now_hash))
            self._context.counts.consumer_rebalances.mark()
            _log.info("group %s has epoch %d", group.group_id, epoch)
        if group.has_partition_metadata:
            self.draft.add(consumer_records.partition_metadata_tombstone(group.group_id))
        self.group.knows_topics = True

    def assign(self) -> None:
        """Update the target assignment if the group epoch is ahead of it: now, or after its interval (KIP-1263).

        Members keep the existing target until then.
        """
        group = self.group
        if group.assignment_epoch >= group.group_epoch:
            return
        now_ms = self._context.timers.now_ms()
        interval_ms = self._context.timeouts(group.group_id).assignment_interval_ms if group.assigned_ms else 0
        wait_ms = group.assigned_ms + interval_ms - now_ms
        if interval_ms and wait_ms > 0:
            self._assign_later(wait_ms)
        else:
            update_target(self.draft, self._context.topics, self._assignor, now_ms=now_ms)

    def _assign_later(self, wait_ms: int) -> None:
        context, regexes, group_id = self._context, self._regexes, self.group.group_id
        key = ("assignment", group_id)

        def assign() -> None:
            group = context.groups.get(group_id)
            if isinstance(group, ConsumerGroup) and not group.is_empty:
                change = ConsumerChange(context, regexes, group)
                change.assign()
                change.write(lambda _error: None)  # the next heartbeat tries again

        if not context.timers.is_set(key):
            context.timers.set(key, wait_ms, assign)

    @property
    def _assignor(self) -> str:
        """The assignor that most members request, or the broker's default."""
        default = assignor_names(self._context.settings.consumer.assignors)[0]
        return self.group.preferred_assignor or default

    def reconcile(self, member_id: str, owned: Owned) -> ConsumerMember:
        """Take one step of a member towards its target. Return the member after it."""
        group, before = self.group, self.group.members[member_id]
        target = Target(epoch=group.assignment_epoch, partitions=group.target(member_id), owner=group.owner)
        after = reconcile(before, target, owned)
        if after != before:
            self.draft.add(consumer_records.current(group.group_id, after))
        return after

    def remove(self, members: Sequence[ConsumerMember]) -> None:
        """Remove members, with regular expressions that only they had. Raise the group epoch."""
        group_id = self.group.group_id
        for member in members:
            self.draft.add(*consumer_records.member_tombstones(group_id, member.member_id))
        for expression in {member.topic_regex: None for member in members}:
            self._regexes.delete_unused(self.draft, expression)
        now_hash, epoch = metadata_hash(self.group, self._context.topics), self.group.group_epoch + 1
        self.draft.add(consumer_records.group_epoch(group_id, epoch, now_hash))
        if self.group.is_empty:  # no member needs an assignment, and the next new member does not wait for the interval
            self.draft.add(consumer_records.target_epoch(group_id, epoch, 0))

    def write(self, done: Done) -> None:
        """Append all records. Also copy ``knows_topics`` to the group, because no record has it."""
        records, knows_topics = self.draft.records, self.group.knows_topics
        self._context.journal.write(records, done)
        group = self._context.groups.get(self.group.group_id)
        if isinstance(group, ConsumerGroup):
            group.knows_topics = knows_topics
