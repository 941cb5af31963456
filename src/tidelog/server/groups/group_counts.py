"""What the group coordinator counts of what happens, for its metrics; its shards share one.

Called by: the state machines, the group coordinator. Thread rule: any thread.
Source: the sensors of Kafka's ``GroupCoordinatorMetrics`` and ``CoordinatorRuntimeMetricsImpl``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.metrics.sampled.sampled_meter import SampledMeter
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes


class GroupCounts:
    def __init__(self, monotonic_ms: Callable[[], int] = SYSTEM_CLOCK.monotonic_ms) -> None:
        self.commits = SampledMeter(monotonic_ms)
        """Offsets that clients committed, be it in a transaction."""
        self.expirations = SampledMeter(monotonic_ms)
        """Offsets that were kept long enough."""
        self.deletions = SampledMeter(monotonic_ms)
        """Offsets that clients deleted."""
        self.classic_rebalances = SampledMeter(monotonic_ms)
        """Generations of classic groups that got their assignment."""
        self.consumer_rebalances = SampledMeter(monotonic_ms)
        """Epochs of consumer groups that began because of a member's or a topic's change."""
        self.loads = SampledTimes(monotonic_ms)
        """Of partitions."""
