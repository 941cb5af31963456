"""The objects that the state machines of one shard share: groups, offsets, journal, timers, settings, counters.

A shard is one partition of ``__consumer_offsets``, with the groups whose ids hash to it. All shards share one
``GroupCounts``. Thread rule: the event loop only; any thread may use the counters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.metrics.sampled.sampled_meter import SampledMeter
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes
from tidelog.runtime.timers import KeyedTimers
from tidelog.server.groups.state.group_map import GroupMap
from tidelog.server.groups.state.group_topics import Topics
from tidelog.server.groups.state.journal import Journal
from tidelog.server.groups.state.offset_store import OffsetStore
from tidelog.server.groups.state.settings import CoordinatorSettings, GroupTimeouts


class GroupCounts:
    """The event counters of the coordinator for its metrics. Source: Kafka's ``GroupCoordinatorMetrics``."""

    def __init__(self, monotonic_ms: Callable[[], int] = SYSTEM_CLOCK.monotonic_ms) -> None:
        self.commits = SampledMeter(monotonic_ms)
        """Offsets that clients committed, with and without transactions."""
        self.expirations = SampledMeter(monotonic_ms)
        """Offsets that expired."""
        self.deletions = SampledMeter(monotonic_ms)
        """Offsets that clients deleted."""
        self.classic_rebalances = SampledMeter(monotonic_ms)
        """Generations of classic groups that got their assignment."""
        self.consumer_rebalances = SampledMeter(monotonic_ms)
        """Epochs of consumer groups that a change of a member or topic began."""
        self.loads = SampledTimes(monotonic_ms)
        """Load times of partitions."""


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
