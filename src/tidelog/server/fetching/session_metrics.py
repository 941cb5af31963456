"""The metrics of fetch sessions, under Kafka's names.

Thread rule: any thread may make a report. Source: Kafka's ``FetchSessionCache``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.runtime.metrics import MetricFamily, Sample
from tidelog.server.fetching.session_cache import SessionCache

_CACHE = MetricFamily("kafka.server", "FetchSessionCache")

SESSIONS = _CACHE.gauge("NumIncrementalFetchSessions", "sessions", "Incremental fetch sessions.")
PARTITIONS = _CACHE.gauge(
    "NumIncrementalFetchPartitionsCached", "partitions", "Partitions that the incremental fetch sessions follow."
)

METRICS = (SESSIONS, PARTITIONS)


def session_samples(sessions: SessionCache) -> Iterator[Sample]:
    yield Sample.gauge(SESSIONS.named(), len(sessions))
    yield Sample.gauge(PARTITIONS.named(), sessions.partition_count)
