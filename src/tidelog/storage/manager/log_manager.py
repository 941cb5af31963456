"""The manager of all logs in a broker's log directories, from startup to clean shutdown.

State: *new* -> ``startup`` -> *running* -> ``shutdown`` -> *shut down*. The manager owns the mapping of partitions to
logs. ``LogDirectory`` owns a directory's own files, and ``Housekeeping`` runs the periodic tasks.

====================  ==============================================================================================
startup               directories are checked and locked, all logs loaded in parallel; only then the markers of a
                      clean shutdown are removed, moves resumed, housekeeping and compaction started
create                in the requested directory, else in the uncordoned one with the fewest logs
compaction            by the cleaner's threads, which avoid logs that are being changed here; see ``cleaning``
delete                the directory is renamed to ``-delete``, and removed after ``file.delete.delay.ms``
move                  a future log (``-future``) catches up and replaces the current one; see ``log_move``
a disk fails          its directory goes offline: its logs raise StorageError, the rest go on
shutdown              logs are flushed and closed in parallel; then the checkpoints, the marker, the lock's release
====================  ==============================================================================================

A log that fails to load is listed in ``damaged`` and left unchanged, and so is a directory without a partition's name,
in ``unknown``. A crash leaves only states that the loader and ``LogDirectory`` handle. Thread rule: any thread. Lock
order: the manager's, then a log's. A log that reports a failure may hold its own lock, so the report is only noted. A
scheduled task or the next change handles it. Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tidelog.model import DirectoryError, StorageError, TidelogError, TopicPartition
from tidelog.runtime import SYSTEM_CLOCK, Clock, Scheduler
from tidelog.runtime.progress import ProgressListener
from tidelog.storage.cleaner.pool.log_cleaner import LogCleaner
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.directory.directory_set import DirectorySet
from tidelog.storage.manager.directory.log_directory import LogDirectory, LogOpening
from tidelog.storage.manager.housekeeping import Housekeeping
from tidelog.storage.manager.logs.cleaning import Cleaning
from tidelog.storage.manager.logs.loading import Loading
from tidelog.storage.manager.logs.log_making import LogMaking
from tidelog.storage.manager.logs.log_move import LogMove
from tidelog.storage.manager.logs.log_removal import LogRemoval
from tidelog.storage.manager.logs.log_settings import LogSettings, TopicSettings
from tidelog.storage.manager.logs.log_table import LogTable
from tidelog.storage.manager.logs.moves import Moves, OnCaughtUp, ReplicaSwap
from tidelog.storage.manager.manager_settings import ManagerSettings

_log = logging.getLogger(__name__)


class LogManager:
    def __init__(
        self,
        fs: FileSystem,
        paths: Sequence[Path],
        *,
        settings: ManagerSettings | None = None,
        default_config: LogConfig | None = None,
        topic_settings: TopicSettings = lambda _topic: {},
        clock: Clock = SYSTEM_CLOCK,
        scheduler: Scheduler | None = None,
        is_stray: Callable[[PartitionLog], bool] = lambda _log: False,
        on_locked: Callable[[], None] = lambda: None,
        on_flush: Callable[[int], None] = lambda _took_ms: None,
        on_offline: Callable[[LogDirectory], None] = lambda _directory: None,
        on_all_failed: Callable[[], None] = lambda: None,
        on_caught_up: OnCaughtUp | None = None,
        move_rate: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Nothing is read before ``startup``. Without a scheduler there is no housekeeping and no compaction.

        ``is_stray`` returns True for a loaded log to set aside. ``on_locked`` runs between locking and loading.
        ``on_offline`` runs after a directory has failed, ``on_all_failed`` after the last one. ``on_caught_up``
        decides when moves end; see ``moves``. ``move_rate`` returns the bytes a second of all moves, or None.
        """
        self._fs = fs
        self._settings = settings or ManagerSettings()
        self._clock = clock
        self._scheduler = scheduler
        self._on_locked = on_locked
        self._on_offline, self._on_all_failed = on_offline, on_all_failed
        self._mutex = threading.RLock()
        self._is_started = self._is_shut_down = False
        self._directories = DirectorySet(fs, paths, self._handle_failures_later)
        self._table = LogTable(is_stray)
        self._cleaning = Cleaning(self._table)
        self._moves = Moves(scheduler, self._replace, self._settings.move_throttle(clock, move_rate), on_caught_up)
        self._removal = LogRemoval(self._directories, self._table, self._cleaning, self._moves, clock)
        self._swap = ReplicaSwap(self._directories, self._table, self._cleaning, self._moves, clock)
        self._log_settings = LogSettings(
            default_config or LogConfig(), topic_settings, self._table, self._cleaning.abort
        )
        self._housekeeping: Housekeeping | None = None
        self.loading: Loading | None = None
        """The load in progress, None outside ``startup``."""
        self.unknown: list[Path] = []
        """The directories whose names are no partition's."""
        self._opening = LogOpening(
            clock=clock,
            config_of=self._log_settings.of,
            scheduler=scheduler,
            is_sole_replica=self._settings.is_sole_replica,
            verifies_transactions=self._settings.verifies_transactions,
            syncs_rolls=self._settings.syncs_rolls,
            on_failure=self._directories.note_failure,
            on_flush=on_flush,
        )
        self._making = LogMaking(self._directories, self._table, self._opening, self.handle_failures)

    # --- start and end ---

    def startup(self, *, on_progress: ProgressListener | None = None) -> None:
        """Load every log, then start the background work. Raise RuntimeError on a second call.

        Raise DirectoryError if a directory or partition exists twice or no directory is usable, LockedError if another
        process has locked one. After an error no lock is held.
        """
        with self._mutex:
            if self._is_started:
                raise RuntimeError("the log manager was already started")
            self._is_started = True
            try:
                self._directories.open()
                self._on_locked()
                self._load(on_progress)
                self._open_cleaning()
                for directory in self.online:
                    self._directories.run_guarded(directory.mark_open)
                self.handle_failures()
                for partition in list(self._table.future):
                    self._directories.run_guarded(lambda partition=partition: self._begin_move(partition))  # type: ignore[misc]
                self.handle_failures()
                self._directories.require_one()
            except BaseException:
                self._directories.release()
                self._table.deleted.close()
                raise
            if self._scheduler is not None:
                self._housekeeping = Housekeeping(self, self._settings, self._clock, self._scheduler)
                self._housekeeping.start()
            self._cleaning.start()

    def shutdown(self, broker_epoch: int | None = None) -> None:
        """Shut down cleanly; idempotent. ``broker_epoch`` goes into the marker, and None keeps its previous epoch.

        A log that fails to close is logged. Its directory gets no marker, so the next start recovers it.
        """
        with self._mutex:
            if self._is_shut_down:
                return
            self._is_shut_down = True
            _log.info("Shutting down the log manager")
            self._cleaning.stop()
            if self._housekeeping is not None:
                self._housekeeping.stop()
            self._moves.stop()
            self.handle_failures()
            failed = self._directories.close_logs(self._settings.recovery_threads)
            self._table.deleted.close()
            self.handle_failures()
            for directory in self.online:
                self._directories.run_guarded(
                    lambda directory=directory: directory.stop(  # type: ignore[misc]
                        broker_epoch=broker_epoch, all_closed=directory.path not in failed
                    )
                )
            self.handle_failures()
            _log.info("The log manager is shut down")

    def previous_broker_epoch(self) -> int | None:
        """Return the previous run's epoch from the markers, or None if they disagree or a directory is offline."""
        epochs = {directory.broker_epoch for directory in self.online}
        return epochs.pop() if len(epochs) == 1 and not self.offline else None

    # --- directories ---

    @property
    def online(self) -> tuple[LogDirectory, ...]:
        return self._directories.online

    @property
    def offline(self) -> Mapping[Path, StorageError]:
        """The log directories that are offline, each with the reason."""
        return self._directories.offline

    def directory_of(self, directory_id: uuid.UUID) -> LogDirectory | None:
        """Return the online log directory with that id."""
        return self._directories.with_id(directory_id)

    @property
    def cordoned(self) -> frozenset[Path]:
        """The log directories that get no new partitions (KIP-1066)."""
        return self._directories.cordoned

    def cordon(self, paths: Iterable[Path]) -> None:
        """Put no new partitions into ``paths`` from now on. All other log directories accept them again."""
        with self._mutex:
            self._directories.cordoned = frozenset(paths)

    def handle_failures(self) -> None:
        """Take the directories offline whose disks have failed since the last call."""
        with self._mutex:
            for directory, error in self._directories.take_failures():
                self._take_offline(directory, error)

    # --- logs ---

    def log(self, partition: TopicPartition, *, is_future: bool = False) -> PartitionLog | None:
        """Return the log, or None if there is none or its directory is offline. ``require`` distinguishes the two."""
        table = self._table
        return (table.future if is_future else table.current).get(partition)

    def require(self, partition: TopicPartition) -> PartitionLog:
        """Return the log. Raise StorageError if its directory is offline, else UnknownTopicOrPartitionError."""
        return self._table.require(partition)

    def partitions(self) -> list[TopicPartition]:
        """Return the sorted partitions."""
        return sorted(self._table.current)

    def all_logs(self) -> list[PartitionLog]:
        """Return the current and future logs."""
        return self._table.all()

    @property
    def damaged(self) -> Mapping[Path, TidelogError]:
        """The partition directories that failed to load, each with the reason."""
        return self._table.damaged

    @property
    def strays(self) -> Sequence[Path]:
        """The directories set aside, in this run or before."""
        return self._table.strays

    @property
    def deleted_logs(self) -> list[PartitionLog]:
        """The deleted logs whose directories still exist."""
        return self._table.deleted.logs

    def get_or_create(
        self,
        partition: TopicPartition,
        *,
        is_new: bool = False,
        is_future: bool = False,
        topic_id: uuid.UUID | None = None,
        directory_id: uuid.UUID | None = None,
        syncs: bool = True,
    ) -> PartitionLog:
        """Return the partition's log, and create it if missing. A future log of an earlier log is then set aside.

        ``is_new`` says that the topic is new, so its log cannot be in an offline directory. Otherwise a missing log and
        an offline directory are a StorageError. ``directory_id`` chooses a new log's directory, unless ``prefer`` did.
        With ``syncs`` it is durable on return, else after ``sync_directories``. Raise InconsistentTopicIdError.
        """
        with self._mutex:
            self._require_running()
            self.handle_failures()
            log = self.log(partition, is_future=is_future)
            if log is None:
                if not is_new and self.offline:
                    raise StorageError(
                        f"Can not create log for {partition}: it may lie in one of the log directories that are"
                        f" offline, {self._directories.offline_text}"
                    )
                if not is_future and partition in self._table.future:
                    # Its current log is gone, so it cannot belong to the new one.
                    self.delete(partition, is_future=True, is_stray=True)
                log = self._making.make(
                    partition, is_future=is_future, topic_id=topic_id, directory_id=directory_id, syncs=syncs
                )
            if topic_id is not None:
                log.assign_topic_id(topic_id)
            return log

    def sync_directories(self) -> None:
        """Sync all log directories, so that the names of all logs are durable."""
        self._each(LogDirectory.sync)

    def prefer(self, partition: TopicPartition, path: Path) -> None:
        """Choose the directory of the partition's next log. The call is a no-op if one of its logs is there."""
        self._making.prefer(partition, path)

    def delete(
        self, partition: TopicPartition, *, is_future: bool = False, is_stray: bool = False
    ) -> PartitionLog | None:
        """Take a partition out of service. Its directory is removed after the delay, or set aside for good (a stray).

        A future log goes with the current one. Return None if there is no log. Raise StorageError if it may be in an
        offline directory.
        """
        with self._mutex:
            self._require_running()
            self.handle_failures()
            removed = self._removal.remove(partition, is_future=is_future, is_stray=is_stray)
            if removed is None:
                return None
            self._settle_removals([removed.directory])
            return removed.log

    def delete_all(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TidelogError]:
        """Delete many partitions with one sync per log directory. Return the errors by partition."""
        with self._mutex:
            self._require_running()
            self.handle_failures()
            directories, errors = self._removal.remove_all(partitions)
            self._settle_removals(directories)
        return errors

    def remove_deleted_logs(self) -> int:
        """Remove the logs whose deletion delay is over. Return the delay until the next call in ms."""
        delay_ms = self._log_settings.default.file_delete_delay_ms
        return self._table.deleted.remove_due(self._clock.now_ms(), delay_ms, self._directories.note_failure)

    def logs_for_retention(self) -> Iterator[PartitionLog]:
        """Return the iterator of ``Cleaning.logs_for_retention``."""
        return self._cleaning.logs_for_retention()

    @property
    def cleaner(self) -> LogCleaner | None:
        """The log cleaner. None before ``startup``, without a scheduler, or if ``log.cleaner.enable`` is false."""
        return self._cleaning.cleaner

    # --- truncation ---

    def truncate_to(self, offsets: Mapping[TopicPartition, int], *, is_future: bool = False) -> None:
        """Truncate logs to their offsets and write recovery points. Partitions without a log are skipped."""
        affected = []
        for partition, offset in offsets.items():
            log = self.log(partition, is_future=is_future)
            if log is not None:
                with self._cleaning.paused_for_truncation(partition, log, offset):
                    if log.truncate_to(offset):
                        affected.append(self._directories.directory_of(log))
        for directory in dict.fromkeys(affected):
            self._directories.run_guarded(directory.checkpoint_recovery_points)

    def truncate_fully_and_start_at(
        self, partition: TopicPartition, offset: int, *, is_future: bool = False, log_start_offset: int | None = None
    ) -> None:
        """Empty a log if it exists, continue it at ``offset``, and write recovery points."""
        log = self.log(partition, is_future=is_future)
        if log is not None:
            with self._cleaning.paused_for_truncation(partition, log):
                log.truncate_fully_and_start_at(offset, log_start_offset=log_start_offset)
            self._directories.run_guarded(self._directories.directory_of(log).checkpoint_recovery_points)

    # --- settings ---

    def config_of(self, topic: str) -> LogConfig:
        """Return the defaults, overridden by the topic's settings."""
        return self._log_settings.of(topic)

    def update_topic_config(self, topic: str) -> None:
        """Apply changed settings of a topic."""
        with self._mutex:
            self._log_settings.update_topic(topic)

    def update_default_config(self, config: LogConfig) -> None:
        """Apply changed broker settings. A topic's own settings still override them."""
        with self._mutex:
            self._log_settings.update_default(config)

    # --- checkpoints ---

    def checkpoint_recovery_points(self) -> None:
        self._each(LogDirectory.checkpoint_recovery_points)

    def checkpoint_log_starts(self) -> None:
        self._each(LogDirectory.checkpoint_log_starts)

    def checkpoint_high_watermarks(self) -> None:
        self._each(LogDirectory.checkpoint_high_watermarks)

    # --- moves ---

    @property
    def moves(self) -> Mapping[TopicPartition, LogMove]:
        """The moves in progress."""
        return self._moves.under_way

    def move(self, partition: TopicPartition, path: Path) -> None:
        """Start to move a partition to another log directory, in the scheduler's threads or by ``run_move``.

        If ``path`` is the current directory, a move in progress is cancelled. A move in progress to ``path`` continues.
        Raise DirectoryError if it is not configured, StorageError if it is offline, UnknownTopicOrPartitionError.
        """
        with self._mutex:
            self.handle_failures()
            current = self.require(partition)
            if path not in self._directories.paths:
                raise DirectoryError("Log dir is not found in the config", path=path)
            if self._directories.at(path) is None:
                raise StorageError("the log directory is offline", path=path)
            future = self.log(partition, is_future=True)
            if future is not None and future.directory.parent != path:
                self.delete(partition, is_future=True)
            if current.directory.parent != path and partition not in self._moves.under_way:
                self.prefer(partition, path)
                self.get_or_create(partition, is_new=True, is_future=True, topic_id=current.topic_id)
                self._begin_move(partition)

    def run_move(self, partition: TopicPartition) -> bool:
        """Copy until the future log has replaced the current one. Return False if the move was cancelled, or waits."""
        return self._moves.run(partition)

    # --- inside ---

    def _open_cleaning(self) -> None:
        if self._settings.cleaner_enable and self._scheduler is not None:
            self._cleaning.open(
                self._fs,
                [directory.path for directory in self.online],
                self._settings.cleaner,
                clock=self._clock,
                on_failure=self._directories.note_failure,
            )

    def _load(self, on_progress: ProgressListener | None) -> None:
        self.loading = Loading(
            self._fs, self.online, self._opening, threads=self._settings.recovery_threads, on_progress=on_progress
        )
        try:
            found = self.loading.run()
        finally:
            self.loading = None
        self._table.strays += found.strays
        self.unknown += found.unknown
        for part in found.partitions:
            if isinstance(part.error, StorageError):
                self._directories.note_failure(part.error)
        self.handle_failures()
        for part in found.partitions:
            if not part.directory.is_online:
                self._table.record_offline(part, self.offline[part.directory.path])
                continue
            try:
                self._table.add_loaded(part)
            except StorageError as error:
                if not error.is_disk_failure:
                    raise
                self._directories.note_failure(error)

    def _begin_move(self, partition: TopicPartition) -> None:
        current, future = self.log(partition), self._table.future[partition]
        if current is None:
            _log.warning("%s is a future log without a current log; its move does not continue", future.directory)
        else:
            self._cleaning.pause_for_move(partition)
            self._moves.begin(partition, LogMove(current, future))

    def _replace(self, partition: TopicPartition, move: LogMove) -> bool:
        with self._mutex:
            return self._swap.run(partition, move)

    def _take_offline(self, directory: LogDirectory, error: StorageError) -> None:
        """Stop serving the logs of a directory that went offline."""
        self._cleaning.drop_directory(directory.path)
        for partition in list(directory.logs):
            self._removal.end_move(partition)
        self._table.drop_directory(directory, error)
        self._on_offline(directory)
        if not self.online and not self._is_shut_down:
            _log.critical("All log directories have failed: %s", self._directories.offline_text)
            self._on_all_failed()

    def _each(self, work: Callable[[LogDirectory], None]) -> None:
        for directory in self.online:
            self._directories.run_guarded(partial(work, directory))

    def _settle_removals(self, directories: Iterable[LogDirectory]) -> None:
        for directory in directories:
            self._directories.run_guarded(directory.sync)
            self._directories.run_guarded(directory.checkpoint)

    def _handle_failures_later(self) -> None:
        """Schedule ``handle_failures``, because a log that reports a failure may hold its lock."""
        if self._scheduler is not None:
            self._scheduler.schedule("log-dir-failure-handler", self.handle_failures)

    def _require_running(self) -> None:
        if not self._is_started or self._is_shut_down:
            raise StorageError("the log manager is not running")
