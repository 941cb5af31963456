"""A log manager's metrics in a registry, under Kafka's names.

They cover log directories, a startup in progress, the state of each log, flushes, refused and converted appends, and
the cleaner. State: *made* (the manager to be created receives ``on_flush``) -> ``watch`` -> ``close``. Values are read
when a report is made. Only flushes and append counters are collected in between. A log that is deleted, set aside or in
an offline directory is in no report. Thread rule: any thread. No call takes the manager's lock, and a log's lock is
taken only if the cleaner has set the log aside. Source: Kafka's ``LogManager``, ``UnifiedLog``, ``LogSegment``,
``BrokerTopicMetrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.config.broker_config import BrokerConfig
from tidelog.runtime import Clock, ScheduledTask, Scheduler, ThreadScheduler
from tidelog.runtime.metrics import MetricFamily, MetricRegistry, Sample
from tidelog.runtime.metrics.reporters import load_reporters
from tidelog.runtime.metrics.runtime_metrics import watch_runtime
from tidelog.storage.cleaner.pool import cleaner_metrics
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.metrics.append_meters import DESCRIPTIONS, AppendMeters
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName

COLLECT_EVERY_MS = 5_000
"""The interval at which meters update their rates."""

_LOG = MetricFamily("kafka.log", "Log", ("topic", "partition", "is-future"))
_MANAGER = MetricFamily("kafka.log", "LogManager")

NUM_LOG_SEGMENTS = _LOG.gauge("NumLogSegments", "segments", "Number of segments in the partition.")
LOG_START_OFFSET = _LOG.gauge("LogStartOffset", "offset", "The first offset that can be read.")
LOG_END_OFFSET = _LOG.gauge("LogEndOffset", "offset", "The offset of the next record.")
SIZE = _LOG.gauge("Size", "bytes", "Size of all `.log` files of the partition.")
RETENTION_SIZE = _LOG.gauge(
    "RetentionSizeInPercent",
    "percent",
    "`Size` as a share of `retention.bytes` (KIP-1257), 0 without that limit. Kafka updates it at retention checks.",
)
LOG_FLUSH = MetricFamily("kafka.log", "LogFlushStats").timer(
    "LogFlushRateAndTimeMs",
    "Rate and duration of log flushes. One flush of a log counts once; Kafka counts each segment.",
)
OFFLINE_DIRECTORIES = _MANAGER.gauge(
    "OfflineLogDirectoryCount", "directories", "Log directories that are offline because their disks failed."
)
DIRECTORY_OFFLINE = _MANAGER.gauge("LogDirectoryOffline", "0 or 1", "1: this log directory is offline.", "logDirectory")
CORDONED_DIRECTORIES = _MANAGER.gauge(
    "CordonedLogDirectoryCount", "directories", "Log directories in `cordoned.log.dirs`, which get no new partitions."
)
DIRECTORY_CORDONED = _MANAGER.gauge(
    "LogDirectoryCordoned", "0 or 1", "1: this log directory gets no new partitions (KIP-1066).", "logDirectory"
)
REMAINING_LOGS = _MANAGER.gauge(
    "remainingLogsToRecover", "logs", "Logs still to be loaded in a log directory, only during startup.", "dir"
)
REMAINING_SEGMENTS = _MANAGER.gauge(
    "remainingSegmentsToRecover",
    "segments",
    "Segments still to be recovered in the log that a thread is loading, only during startup.",
    "dir",
    "threadNum",
)

METRICS = (*_LOG.described, LOG_FLUSH, *_MANAGER.described, *DESCRIPTIONS, *cleaner_metrics.METRICS)
"""All metrics of this module. docs/metrics.md has a line for each."""


class ManagerMetrics:
    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry
        self._flushes = registry.timer(LOG_FLUSH.named())
        self._appends = AppendMeters(registry)
        self._cleaner_io = registry.meter(cleaner_metrics.IO.named())
        self._cleaner_io_seen = 0
        self._remove_source: Callable[[], None] | None = None
        self._task: ScheduledTask | None = None
        self._manager: LogManager | None = None

    def on_flush(self, took_ms: int) -> None:
        """Record a flush. The manager calls it."""
        self._flushes.update(took_ms)

    def watch(self, manager: LogManager, scheduler: Scheduler | None = None) -> None:
        """Report on ``manager``, also during its startup. Without a scheduler, appends are counted only at reports."""
        self._manager = manager
        self._remove_source = self._registry.add_source(self._samples)
        if scheduler is not None:
            self._task = scheduler.schedule(
                "log-metrics", self.collect, delay_ms=COLLECT_EVERY_MS, period_ms=COLLECT_EVERY_MS
            )

    def collect(self) -> None:
        """Add the counts of logs and cleaner since the last call to the meters."""
        if self._manager is None:
            return
        self._appends.collect([*self._manager.all_logs(), *self._manager.deleted_logs])
        if self._manager.cleaner is not None:
            total = self._manager.cleaner.throttle.total
            self._cleaner_io.mark(total - self._cleaner_io_seen)
            self._cleaner_io_seen = total

    def close(self) -> None:
        """Remove everything from the registry. The call is idempotent."""
        if self._remove_source is not None:
            self._remove_source()
        if self._task is not None:
            self._task.cancel()
        self._appends.close()
        self._registry.remove(LOG_FLUSH.named())
        self._registry.remove(cleaner_metrics.IO.named())

    def _samples(self) -> Iterator[Sample]:
        if self._manager is None:
            return
        self.collect()
        yield from _of_directories(self._manager)
        if self._manager.cleaner is not None:
            paths = [directory.path for directory in self._manager.online]
            yield from cleaner_metrics.cleaner_samples(self._manager.cleaner, paths)
        for log in self._manager.all_logs():
            yield from _of_log(log)


def _of_directories(manager: LogManager) -> Iterator[Sample]:
    offline = list(manager.offline)
    yield Sample.gauge(OFFLINE_DIRECTORIES.named(), len(offline))
    for path in offline:
        yield Sample.gauge(DIRECTORY_OFFLINE.named(str(path)), 1)
    for directory in manager.online:
        yield Sample.gauge(DIRECTORY_OFFLINE.named(str(directory.path)), 0)
    cordoned = manager.cordoned
    yield Sample.gauge(CORDONED_DIRECTORIES.named(), len(cordoned))
    for path in [*offline, *(directory.path for directory in manager.online)]:
        yield Sample.gauge(DIRECTORY_CORDONED.named(str(path)), int(path in cordoned))
    loading = manager.loading
    if loading is not None:
        for path, logs in list(loading.remaining_logs.items()):
            yield Sample.gauge(REMAINING_LOGS.named(str(path)), logs)
        for (path, thread), segments in list(loading.remaining_segments.items()):
            yield Sample.gauge(REMAINING_SEGMENTS.named(str(path), str(thread)), segments)


def _of_log(log: PartitionLog) -> Iterator[Sample]:
    name = PartitionDirectoryName.parse(log.directory.name)
    if name.purpose not in (DirectoryPurpose.LIVE, DirectoryPurpose.FUTURE):
        return  # the log was deleted or set aside since the report began
    partition = name.topic_partition
    is_future = "true" if name.purpose is DirectoryPurpose.FUTURE else ""
    tags = (partition.topic, str(partition.partition), is_future)
    now = log.metrics()
    yield Sample.gauge(NUM_LOG_SEGMENTS.named(*tags), now.segments)
    yield Sample.gauge(LOG_START_OFFSET.named(*tags), now.log_start_offset)
    yield Sample.gauge(LOG_END_OFFSET.named(*tags), now.log_end_offset)
    yield Sample.gauge(SIZE.named(*tags), now.size)
    limit = log.config.retention_bytes
    yield Sample.gauge(RETENTION_SIZE.named(*tags), now.size * 100 // limit if limit > 0 else 0)


class MetricsReporting:
    """A log manager's metrics with the reporters named in a broker's settings.

    They run from before the logs are loaded until after the manager's shutdown. State: *made* (the manager receives
    ``on_flush``) -> ``start`` -> ``stop``. Without reporters nothing runs, and ``registry`` can still be read. Thread
    rule: the same thread calls ``start`` and ``stop``. A forked child may only call ``stop``.
    """

    def __init__(self, broker: BrokerConfig, clock: Clock) -> None:
        """The reporters are loaded here. A reporter that cannot be loaded or rejects its settings is a ConfigError."""
        self.reporters = load_reporters({key: setting.text for key, setting in broker.settings.items()})
        self.registry = MetricRegistry(clock=clock)
        self._of_manager = ManagerMetrics(self.registry)
        self._forget_runtime: Callable[[], None] = lambda: None
        self.on_flush = self._of_manager.on_flush

    def start(self, manager: LogManager | None, scheduler: Scheduler) -> None:
        """Start reporting with a started ``scheduler``. A node without logs has no ``manager``.

        Raise ConfigError if a reporter fails; then none runs.
        """
        if manager is not None:
            self._of_manager.watch(manager, scheduler if self.reporters.reporters else None)
        if isinstance(scheduler, ThreadScheduler):
            self._forget_runtime = watch_runtime(self.registry, scheduler)
        self.reporters.start(self.registry, scheduler)

    def stop(self) -> None:
        """Stop reporting. The call is idempotent."""
        self.reporters.stop()
        self._forget_runtime()
        self._of_manager.close()
