"""The metrics of the transaction coordinator, under Kafka's names. They exist once it is started.

Thread rule: any thread makes a report, from plain numbers.
Source: Kafka's ``TransactionStateManager``, ``TransactionMarkerChannelManager``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.runtime.metrics import MetricDescription, MetricFamily, Sample
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes
from tidelog.server.transactions.completions import Completions

_COORDINATOR = MetricFamily("kafka.server", "transaction-coordinator-metrics")
_MARKERS = MetricFamily("kafka.coordinator.transaction", "TransactionMarkerChannelManager")

LONGEST_LOAD = _COORDINATOR.gauge(
    "partition-load-time-max",
    "ms",
    "The longest load of a partition of `__transaction_state`, over the last 30 to 60 seconds.",
)
MEAN_LOAD = _COORDINATOR.gauge(
    "partition-load-time-avg", "ms", "The mean load time of a partition of `__transaction_state`, in the same time."
)
WAITING_FOR_LEADERS = _MARKERS.gauge(
    "UnknownDestinationQueueSize",
    "transactions",
    "Transactions with markers that wait because their partitions have no leader.",
)
WAITING_COMPLETIONS = _MARKERS.gauge(
    "LogAppendRetryQueueSize",
    "transactions",
    "Transactions whose end could not be written to `__transaction_state` yet.",
)

METRICS: tuple[MetricDescription, ...] = (LONGEST_LOAD, MEAN_LOAD, WAITING_FOR_LEADERS, WAITING_COMPLETIONS)


def transaction_samples(loads: SampledTimes, completions: Completions) -> Iterator[Sample]:
    yield Sample.gauge(LONGEST_LOAD.named(), loads.longest_ms)
    yield Sample.gauge(MEAN_LOAD.named(), loads.mean_ms)
    yield Sample.gauge(WAITING_FOR_LEADERS.named(), completions.waiting_for_leaders)
    yield Sample.gauge(WAITING_COMPLETIONS.named(), completions.waiting_completions)
