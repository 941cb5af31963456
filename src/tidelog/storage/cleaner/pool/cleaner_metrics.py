"""The metrics of a log cleaner, under Kafka's names: gauges read for each report, and a meter of its I/O.

Thread rule: any thread. Source: Kafka's ``LogCleaner``, ``LogCleanerManager``, ``Throttler``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tidelog.runtime.metrics import MetricDescription, MetricFamily, Sample
from tidelog.storage.cleaner.pool.log_cleaner import LogCleaner

_CLEANER = MetricFamily("kafka.log", "LogCleaner")
_MANAGER = MetricFamily("kafka.log", "LogCleanerManager")

MAX_BUFFER_UTILIZATION = _CLEANER.gauge(
    "max-buffer-utilization-percent", "percent", "How full the map from keys to offsets became: the fullest thread's."
)
RECOPY = _CLEANER.gauge(
    "cleaner-recopy-percent", "percent", "What was left of the bytes that each thread last compacted a log from."
)
MAX_CLEAN_TIME = _CLEANER.gauge("max-clean-time-secs", "s", "How long a log took: the slowest thread's last one.")
MAX_COMPACTION_DELAY = _CLEANER.gauge(
    "max-compaction-delay-secs",
    "s",
    "How long a log had waited past `max.compaction.lag.ms` when a thread last took one.",
)
DEAD_THREADS = _CLEANER.gauge("DeadThreadCount", "threads", "Threads of the cleaner that have ended of an error.")
UNCLEANABLE_PARTITIONS = _MANAGER.gauge(
    "uncleanable-partitions-count", "partitions", "Set aside, since compacting them failed.", "logDirectory"
)
UNCLEANABLE_BYTES = _MANAGER.gauge(
    "uncleanable-bytes", "bytes", "In those, what is to be compacted for the first time.", "logDirectory"
)
MAX_DIRTY = _MANAGER.gauge("max-dirty-percent", "percent", "Of the filthiest log, when one was last looked for.")
SINCE_LAST_RUN = _MANAGER.gauge("time-since-last-run-ms", "ms", "Since a thread last looked for a log to compact.")
IO = MetricFamily("kafka.utils", "Throttler").meter("cleaner-io", "bytes", "Read and written by the cleaner.")

METRICS: tuple[MetricDescription, ...] = (
    MAX_BUFFER_UTILIZATION,
    RECOPY,
    MAX_CLEAN_TIME,
    MAX_COMPACTION_DELAY,
    DEAD_THREADS,
    UNCLEANABLE_PARTITIONS,
    UNCLEANABLE_BYTES,
    MAX_DIRTY,
    SINCE_LAST_RUN,
    IO,
)
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
