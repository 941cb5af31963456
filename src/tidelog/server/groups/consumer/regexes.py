"""The topics that match members' regular expressions: resolved after heartbeats, and kept in the log.

======================================  =======================================================================
event                                   effect
======================================  =======================================================================
a member has a new expression           it is validated, and all expressions of the group are resolved soon
the last member with it leaves          its record is deleted
topics were created or deleted          the next heartbeat resolves all expressions again, at the earliest 10 s
                                        after the last time
``regex.refresh.interval.ms`` passed    the same
======================================  =======================================================================

As in Kafka, an expression can match only topics visible to the member whose heartbeat triggered the lookup. Otherwise
its cost would reveal the names of other topics. If the matched topics change, the group epoch grows, and the next
heartbeats deliver the assignments. Thread rule: the event loop only.
Source: Kafka's ``GroupMetadataManager.maybeUpdateRegularExpressions``, ``handleRegularExpressionsResult``; KIP-848.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable
from typing import Final

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.groups.consumer.targets import metadata_hash
from tidelog.server.groups.pattern.syntax import PatternError
from tidelog.server.groups.pattern.topic_pattern import TopicPattern
from tidelog.server.groups.records import consumer_records
from tidelog.server.groups.records.replay import GroupDraft
from tidelog.server.groups.state.consumer_group import ConsumerGroup, ResolvedRegex
from tidelog.server.groups.state.consumer_member import ConsumerMember
from tidelog.server.groups.state.group_topics import VisibleTopics
from tidelog.server.groups.state.shard_context import ShardContext

MIN_INTERVAL_MS: Final = 10_000

_log = logging.getLogger(__name__)


class RegexChange(enum.Enum):
    """The effect of a member's subscription on the group's regular expressions."""

    NONE = enum.auto()
    UNRESOLVED = enum.auto()
    """The topics of the expression are not known yet."""
    RESOLVED = enum.auto()
    """Other members have the same expression, so its topics are known."""


class Regexes:
    """The regular expressions of one shard's consumer groups."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context

    def change(self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> RegexChange:
        """Return the effect of a member's subscription before ``group`` has it.

        Raise ApiError(INVALID_REGULAR_EXPRESSION) if the member's expression is new and invalid.
        """
        if (before.topic_regex or "") == (after.topic_regex or ""):
            return RegexChange.NONE
        if after.topic_regex and not group.regex_members(after.topic_regex):
            check_regex(after.topic_regex)
        return RegexChange.RESOLVED if after.topic_regex in group.regexes else RegexChange.UNRESOLVED

    def delete_unused(self, draft: GroupDraft, expression: str | None) -> None:
        """Delete ``expression`` if no member subscribes with it any longer."""
        if expression and not draft.group.regex_members(expression):
            draft.add(consumer_records.regex_tombstone(draft.group.group_id, expression))

    def schedule_resolution_if_due(self, group: ConsumerGroup, visible: VisibleTopics) -> None:
        """Schedule the resolution for the draft's ``group``. Nothing is resolved within this call."""
        key = ("regex", group.group_id)
        if group.member_regexes and not self._context.timers.is_set(key) and self._is_due(group):
            asked_ms = self._context.timers.now_ms()
            self._context.timers.set(key, 0, lambda: self._resolve(group.group_id, visible, asked_ms))

    def _is_due(self, group: ConsumerGroup) -> bool:
        resolved = group.regexes.values()
        age_ms = self._context.timers.now_ms() - max((one.resolved_ms for one in resolved), default=0)
        if resolved and age_ms <= MIN_INTERVAL_MS:
            return False
        version = max((one.version for one in resolved), default=-1)
        return (
            group.member_regexes != group.regexes.keys()
            or version < self._context.topics.last_creation_version
            or age_ms > self._context.settings.consumer.regex_refresh_interval_ms
        )

    def _resolve(self, group_id: str, visible: VisibleTopics, asked_ms: int) -> None:
        """Resolve all expressions, with the time of the heartbeat: regular heartbeats then meet the interval's end."""
        group = self._context.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        draft = GroupDraft(group)
        seen = visible(self._context.topics.names)
        for expression in sorted(group.member_regexes):
            draft.add(consumer_records.regex(group_id, expression, self._resolved(expression, seen, asked_ms)))
        has_changed = any(
            resolved.topics != group.regexes.get(expression, ResolvedRegex()).topics
            for expression, resolved in draft.group.regexes.items()
        )
        now_hash = metadata_hash(draft.group, self._context.topics)
        if has_changed or now_hash != group.metadata_hash:
            draft.add(consumer_records.group_epoch(group_id, group.group_epoch + 1, now_hash))
            self._context.counts.consumer_rebalances.mark()
        self._context.journal.write(draft.records, lambda error: _log_failure(group_id, error))

    def _resolved(self, expression: str, names: Iterable[str], asked_ms: int) -> ResolvedRegex:
        topics = _matched(expression, names)
        return ResolvedRegex(topics=topics, version=self._context.topics.version, resolved_ms=asked_ms)


def _matched(expression: str, names: Iterable[str]) -> frozenset[str]:
    """Return the matching names, or none if matching fails: the heartbeat has its response already."""
    try:
        pattern = TopicPattern(expression)
        return frozenset(name for name in names if pattern.matches(name))
    except PatternError as error:
        _log.warning("the regular expression %.200r matches nothing: %s", expression, error)
        return frozenset()


def check_regex(expression: str) -> None:
    """Raise ApiError(INVALID_REGULAR_EXPRESSION) if RE2 does not accept the expression."""
    try:
        TopicPattern(expression)
    except PatternError as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {error}.",
        ) from None


def _log_failure(group_id: str, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        _log.warning("group %s: the matches of its regular expressions could not be written: %s", group_id, error.name)
