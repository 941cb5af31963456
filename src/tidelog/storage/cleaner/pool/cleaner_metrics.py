"""The metrics of a log cleaner under Kafka's names: gauges, and a meter of its I/O.

Thread rule: any thread. Source: Kafka's ``LogCleaner``, ``LogCleanerManager``, ``Throttler``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tidelog.runtime.metrics import MetricFamily, Sample
from tidelog.storage.cleaner.pool.log_cleaner import LogCleaner

_CLEANER = MetricFamily("kafka.log", "LogCleaner")
_MANAGER = MetricFamily("kafka.log", "LogCleanerManager")

MAX_BUFFER_UTILIZATION = _CLEANER.gauge(
    "max-buffer-utilization-percent", "percent", "The used share of the offset map, of the thread with the fullest one."
)
RECOPY = _CLEANER.gauge(
    "cleaner-recopy-percent", "percent", "The share of bytes that remained after the last compaction of each thread."
)
MAX_CLEAN_TIME = _CLEANER.gauge(
    "max-clean-time-secs", "s", "The duration of the last compaction, of the slowest thread."
)
MAX_COMPACTION_DELAY = _CLEANER.gauge(
    "max-compaction-delay-secs",
    "s",
    "The longest wait of a log past `max.compaction.lag.ms`, when a thread last took a log.",
)
DEAD_THREADS = _CLEANER.gauge("DeadThreadCount", "threads", "The cleaner threads that ended after an error.")
UNCLEANABLE_PARTITIONS = _MANAGER.gauge(
    "uncleanable-partitions-count",
    "partitions",
    "The partitions that are excluded because their compaction failed.",
    "logDirectory",
)
UNCLEANABLE_BYTES = _MANAGER.gauge(
    "uncleanable-bytes", "bytes", "The dirty bytes in the partitions that are excluded.", "logDirectory"
)
MAX_DIRTY = _MANAGER.gauge(
    "max-dirty-percent", "percent", "The largest dirty ratio of any log, at the last search for a log to compact."
)
SINCE_LAST_RUN = _MANAGER.gauge(
    "time-since-last-run-ms", "ms", "The time since a thread last searched for a log to compact."
)
IO = MetricFamily("kafka.utils", "Throttler").meter(
    "cleaner-io", "bytes", "The bytes that the cleaner reads and writes."
)

METRICS = (*_CLEANER.described, *_MANAGER.described, IO)
"""All metrics of the cleaner; docs/metrics.md has a line for each. Gauges are rounded down, as in Kafka."""


def cleaner_samples(cleaner: LogCleaner, paths: Iterable[Path]) -> Iterator[Sample]:
    """Yield the cleaner's metrics; ``paths`` are the log directories that are online."""
    threads, state = cleaner.threads, cleaner.state
    stats = [thread.last_stats for thread in threads if thread.last_stats is not None]
    read = sum(one.bytes_read for one in stats)
    written = sum(one.bytes_written for one in stats)
    fullest = max((one.buffer_utilization for one in stats), default=0.0)
    slowest_s = max((one.elapsed_secs for one in stats), default=0.0)
    delay_ms = max((thread.last_max_delay_ms for thread in threads), default=0)
    yield Sample.gauge(MAX_BUFFER_UTILIZATION.named(), int(100 * fullest))
    yield Sample.gauge(RECOPY.named(), int(100 * written / max(read, 1)))
    yield Sample.gauge(MAX_CLEAN_TIME.named(), int(slowest_s))
    yield Sample.gauge(MAX_COMPACTION_DELAY.named(), delay_ms // 1000)
    yield Sample.gauge(DEAD_THREADS.named(), sum(thread.is_dead for thread in threads))
    set_aside = state.uncleanable()
    directories = [found.log.directory.parent for found in set_aside.values()]
    dirty_bytes = state.dirty_bytes(set_aside)
    for path in paths:
        yield Sample.gauge(UNCLEANABLE_PARTITIONS.named(str(path)), directories.count(path))
        yield Sample.gauge(UNCLEANABLE_BYTES.named(str(path)), dirty_bytes.get(path, 0))
    yield Sample.gauge(MAX_DIRTY.named(), int(100 * state.max_dirty_ratio))
    yield Sample.gauge(SINCE_LAST_RUN.named(), state.since_last_run_ms)
