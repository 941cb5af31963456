"""The event counters of the group coordinator for its metrics. All shards share one object.

Thread rule: any thread. Source: the sensors of Kafka's ``GroupCoordinatorMetrics`` and
``CoordinatorRuntimeMetricsImpl``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.metrics.sampled.sampled_meter import SampledMeter
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes


class GroupCounts:
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
