"""The metrics of fetch sessions, under Kafka's names.

Called by: Broker. Thread rule: a report is made by any thread. Source: Kafka's ``FetchSessionCache``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.runtime.metrics import MetricDescription, MetricKind, Sample
from tidelog.server.fetching.session_cache import SessionCache


def _gauge(name: str, unit: str, meaning: str) -> MetricDescription:
    return MetricDescription(
        group="kafka.server", type="FetchSessionCache", name=name, kind=MetricKind.GAUGE, unit=unit, meaning=meaning
    )


SESSIONS = _gauge("NumIncrementalFetchSessions", "sessions", "Of clients that fetch incrementally.")
PARTITIONS = _gauge("NumIncrementalFetchPartitionsCached", "partitions", "That these sessions follow.")

METRICS = (SESSIONS, PARTITIONS)


def session_samples(sessions: SessionCache) -> Iterator[Sample]:
    yield Sample.gauge(SESSIONS.named(), len(sessions))
    yield Sample.gauge(PARTITIONS.named(), sessions.partition_count)
