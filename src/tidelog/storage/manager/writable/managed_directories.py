"""Log directories opened for writing by the Python API and maintained by a LogManager, as in a broker.

All logs are loaded at once. Retention, compaction, checkpoints, flushes and the removal of deleted logs run in daemon
threads until the last directory is closed. Closing a log's handle leaves the log open. A topic's settings come from the
cluster metadata in the directories, as for ``WritableDirectory``. A broker's properties are the defaults below them,
and they name the metrics reporters. Thread rule: any thread. A forked child that inherits the object may only close it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ClosedError, TopicPartition
from tidelog.runtime import Clock, Scheduler, ThreadScheduler
from tidelog.runtime.progress import ProgressListener
from tidelog.storage.fs import FileSystem, ForkGuard
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.manager_settings import ManagerSettings
from tidelog.storage.manager.metadata.cluster_metadata_log import partition_for_writing
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata, read_topic_metadata
from tidelog.storage.manager.metrics.manager_metrics import MetricsReporting
from tidelog.storage.manager.writable.commit import complete_commits
from tidelog.storage.manager.writable.writable_directory import WritableLog
from tidelog.storage.producer import ProducerEntry


class ManagedDirectories:
    def __init__(
        self,
        fs: FileSystem,
        paths: Sequence[Path],
        *,
        clock: Clock,
        broker: BrokerConfig | None = None,
        scheduler: Scheduler | None = None,
        on_progress: ProgressListener | None = None,
    ) -> None:
        """Everything is loaded here, with the errors of ``LogManager.startup``. ``scheduler`` None creates one.

        A metrics reporter that cannot be loaded is a ConfigError.
        """
        metadata = [read_topic_metadata(fs, path) if fs.exists(path) else TopicMetadata() for path in paths]

        def topic_settings(topic: str) -> Mapping[str, str]:
            found: dict[str, str] = {}
            for one in metadata:
                found |= one.settings_of(topic)
            return found

        self._metadata = metadata
        self._clock = clock
        self._guard = ForkGuard(paths[0])
        for path in paths:
            complete_commits(fs, path, clock=clock)
        broker = broker or BrokerConfig()
        self.metrics = MetricsReporting(broker, clock)
        self._scheduler = scheduler or ThreadScheduler(broker.number("background.threads"), clock=clock)
        self._scheduler.startup()
        self.manager = LogManager(
            fs,
            paths,
            # Verification needs a transaction coordinator, and there is none here.
            settings=replace(ManagerSettings.of(broker), verifies_transactions=False),
            default_config=LogConfig.of(broker),
            topic_settings=topic_settings,
            clock=clock,
            scheduler=self._scheduler,
            on_flush=self.metrics.on_flush,
        )
        try:
            self.metrics.start(self.manager, self._scheduler)
            self.manager.startup(on_progress=on_progress)
        except BaseException:
            self._end()
            raise
        self._open = {directory.path for directory in self.manager.online}

    def directories(self) -> dict[Path, ManagedDirectory]:
        """Return the usable log directories."""
        return {path: ManagedDirectory(self, path) for path in sorted(self._open)}

    def open_log(self, path: Path) -> WritableLog:
        """Return or create the partition at ``path``. Raise DirectoryError, StorageError, InconsistentTopicIdError."""
        self._guard.check()
        partition = partition_for_writing(path)
        if path.parent not in self._open:
            raise ClosedError("the log directory is closed", path=path.parent)
        self.manager.prefer(partition, path.parent)
        known = (one.topic_id(partition.topic) for one in self._metadata)
        topic_id = next((topic_id for topic_id in known if topic_id is not None), None)
        log = self.manager.get_or_create(partition, topic_id=topic_id)
        return WritableLog(log, self._clock, self.manager.checkpoint_recovery_points, lambda: None, closes=False)

    def close(self, path: Path) -> None:
        """Close a directory. The call is idempotent, and closing the last directory is a clean shutdown."""
        if path not in self._open:
            return
        self._open.remove(path)
        if self._open:
            return
        if self._guard.is_owner:
            self.manager.shutdown()
            self._end()
        else:
            self.metrics.stop()
            for log in self.manager.all_logs():
                log.close()

    def _end(self) -> None:
        """Stop the background work. The reporters send their last reports first."""
        self.metrics.stop()
        self._scheduler.shutdown()


class ManagedDirectory:
    """A single log directory of ManagedDirectories, with the interface that the API expects."""

    def __init__(self, directories: ManagedDirectories, path: Path) -> None:
        self._directories = directories
        self.path = path

    def open_log(self, path: Path) -> WritableLog:
        return self._directories.open_log(path)

    def producers(
        self, only: TopicPartition | None = None
    ) -> Iterator[tuple[TopicPartition, Mapping[int, ProducerEntry]]]:
        """Yield the producers as ``LogDirectory.producers`` does, or none if the directory is offline."""
        for directory in self._directories.manager.online:
            if directory.path == self.path:
                yield from directory.producers(only)

    def close(self) -> None:
        self._directories.close(self.path)
