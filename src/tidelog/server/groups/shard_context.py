"""The objects that the state machines of one shard share: groups, offsets, journal, timers, settings.

A shard is one partition of ``__consumer_offsets``, with the groups whose ids hash to it.
Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.server.groups.group_counts import GroupCounts
from tidelog.server.groups.group_map import GroupMap
from tidelog.server.groups.journal import Journal, Topics
from tidelog.server.groups.keyed_timers import KeyedTimers
from tidelog.server.groups.offsets.offset_store import OffsetStore
from tidelog.server.groups.settings import CoordinatorSettings, GroupTimeouts


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContext:
    """``timeouts`` returns a consumer group's timeouts by the group's id."""

    groups: GroupMap
    offsets: OffsetStore
    journal: Journal
    timers: KeyedTimers
    topics: Topics
    settings: CoordinatorSettings
    timeouts: Callable[[str], GroupTimeouts]
    counts: GroupCounts = field(default_factory=GroupCounts)
