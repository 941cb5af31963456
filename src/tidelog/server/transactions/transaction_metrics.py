"""The metrics of the transaction coordinator, under Kafka's names. They exist once it is started.

Thread rule: any thread makes a report, from plain numbers.
Source: Kafka's ``TransactionStateManager``, ``TransactionMarkerChannelManager``, ``AddPartitionsToTxnManager``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidelog.protocol.errors import ErrorCode
from tidelog.runtime.metrics import Histogram, Meter, MetricFamily, MetricKind, Sample
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes
from tidelog.server.transactions.completions import Completions

_COORDINATOR = MetricFamily("kafka.server", "transaction-coordinator-metrics")
_VERIFICATIONS = MetricFamily("kafka.server", "AddPartitionsToTxnManager")
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
VERIFICATION_FAILURES = _VERIFICATIONS.meter(
    "VerificationFailureRate",
    "partitions",
    "Partitions whose coordinator did not verify that they are part of a transaction, or did not add them to it.",
)
VERIFICATION_TIMES = _VERIFICATIONS.histogram(
    "VerificationTimeMs",
    "ms",
    "The time from a question to a transaction coordinator, of this broker or another one, to its response.",
)

METRICS = (*_COORDINATOR.described, *_MARKERS.described, *_VERIFICATIONS.described)


class VerificationMeters:
    """The failures and times of a coordinator's verifications, in ms."""

    def __init__(self) -> None:
        self._failures = Meter()
        self._times = Histogram()

    def note(self, errors: Collection[ErrorCode], duration_ms: int) -> None:
        """Count a response with the error of each partition."""
        failed = sum(error is not ErrorCode.NONE for error in errors)
        if failed:
            self._failures.mark(failed)
        self._times.update(duration_ms)

    def samples(self) -> Iterator[Sample]:
        yield Sample(VERIFICATION_FAILURES.named(), MetricKind.METER, self._failures.values())
        yield Sample(VERIFICATION_TIMES.named(), MetricKind.HISTOGRAM, self._times.values())


def transaction_samples(loads: SampledTimes, completions: Completions) -> Iterator[Sample]:
    yield Sample.gauge(LONGEST_LOAD.named(), loads.longest_ms)
    yield Sample.gauge(MEAN_LOAD.named(), loads.mean_ms)
    yield Sample.gauge(WAITING_FOR_LEADERS.named(), completions.waiting_for_leaders)
    yield Sample.gauge(WAITING_COMPLETIONS.named(), completions.waiting_completions)
