"""The state of each partition for the cleaner: taken, paused or set aside, and its cleaner checkpoint.

A partition has one of four states, given by two facts: a thread has taken it or not, and its number of pauses.

==============  ===============  ======  ============================================================================
state           taken            pauses  meaning
==============  ===============  ======  ============================================================================
(none)          no               0       may be taken
in progress     yes              0       a thread compacts it or applies retention to it
aborted         yes              1, …    the thread must give it back; ``pause`` waits for that
paused          no               1, …    no thread may take it until each pause is undone
==============  ===============  ======  ============================================================================

==============  ======================  ========================  ========================  =========================
call            none                    in progress               aborted                   paused
==============  ======================  ========================  ========================  =========================
``begin``       in progress             refused                   refused                   refused
``pause``       paused 1                aborted 1, waits          pauses + 1, waits         pauses + 1
``done``        RuntimeError            none                      paused                    RuntimeError
``resume``      RuntimeError            RuntimeError              RuntimeError              pauses - 1; none at 0
==============  ======================  ========================  ========================  =========================

(In Kafka, a second thread that pauses a partition during its abort gets an error.)

A partition whose compaction failed is set aside with the reason. It is tried again once its log is another object
(deleted and created again, or moved), was truncated, or has a new log start: the cause may be gone. In Kafka only
deletion helps. After a restart all partitions are tried again.
Thread rule: any thread. Lock order: this lock, then a log's. A caller of ``pause`` must not hold a lock that a log or
its compaction needs. Source: Kafka's ``LogCleanerManager``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tidelog.model import ClosedError, LogCleaningAbortedError, StorageError, TopicPartition
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.storage.cleaner.plan.log_facts import LogFacts, facts_of_log
from tidelog.storage.cleaner.plan.log_plan import LogPlan, filthiest, plan_log
from tidelog.storage.cleaner.pool.cleaner_checkpoints import CleanerCheckpoints
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import PartitionLog

_log = logging.getLogger(__name__)


class LogCleaningState(NamedTuple):
    """A row of the module's first table."""

    is_taken: bool
    """True if a thread has taken it."""
    pauses: int = 0

    def __str__(self) -> str:
        if not self.pauses:
            return "in progress"
        return "aborted" if self.is_taken else f"paused {self.pauses} times"


IN_PROGRESS = LogCleaningState(is_taken=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """A log that was taken for compaction."""

    log: PartitionLog
    plan: LogPlan
    due_count: int
    """The number of logs that were due."""
    delayed_count: int
    """The number of logs, due or not, that had waited longer than ``max.compaction.lag.ms``."""
    max_delay_ms: int

    @property
    def partition(self) -> TopicPartition:
        return self.plan.partition

    @property
    def path(self) -> Path:
        """The log directory."""
        return self.log.directory.parent


class Uncleanable(NamedTuple):
    """A log that was set aside, with its state at that moment."""

    log: PartitionLog
    truncation_count: int
    log_start_offset: int
    reason: str

    def is_still(self, log: PartitionLog | None) -> bool:
        return log is self.log and (log.truncation_count, log.log_start_offset) == (
            self.truncation_count,
            self.log_start_offset,
        )


class CleanerState:
    def __init__(
        self,
        fs: FileSystem,
        paths: Sequence[Path],
        logs: Callable[[], Mapping[TopicPartition, PartitionLog]],
        *,
        clock: Clock = SYSTEM_CLOCK,
        on_failure: Callable[[StorageError], None] = lambda _error: None,
    ) -> None:
        """``logs`` returns the current logs of the log directories ``paths``; ``on_failure`` gets disk failures."""
        self._logs = logs
        self._clock = clock
        self._changed = threading.Condition(threading.RLock())
        self._states: dict[TopicPartition, LogCleaningState] = {}
        self._uncleanable: dict[TopicPartition, Uncleanable] = {}
        self._checkpoints = CleanerCheckpoints(fs, paths, partitions=lambda: self._logs(), on_failure=on_failure)
        self.max_dirty_ratio = 0.0
        """The largest dirty ratio of all logs at the last search for a log to clean."""
        self._last_run_ms = clock.now_ms()

    @property
    def since_last_run_ms(self) -> int:
        """The ms since the last search for a log to clean."""
        return self._clock.now_ms() - self._last_run_ms

    def states(self) -> dict[TopicPartition, LogCleaningState]:
        """Return the partitions that are taken or paused at this moment. The call takes no lock."""
        return dict(self._states)

    def set_aside(self) -> dict[TopicPartition, Uncleanable]:
        """Return the logs that were set aside, also if their cause may be gone. The call takes no lock."""
        return dict(self._uncleanable)

    # --- taking partitions ---

    def take_filthiest(self) -> LogToClean | None:
        """Take the log that must be compacted next, or return None if none is due. ``done_cleaning`` gives it back.

        Reset invalid checkpoints, and set aside the logs whose plan fails.
        """
        with self._changed:
            self._last_run_ms = self._clock.now_ms()
            self.uncleanable()  # forgets the logs that are gone
            logs = dict(self._logs())
            plans = [plan for partition, log in logs.items() if (plan := self._plan(partition, log)) is not None]
            plans = [plan for plan in plans if plan.total_bytes]
            self.max_dirty_ratio = max((plan.dirty_ratio for plan in plans), default=0.0)
            chosen = filthiest(plans)
            if chosen is None:
                return None
            self._states[chosen.partition] = IN_PROGRESS
            delays = [plan.compaction_delay_ms for plan in plans]
            return LogToClean(
                log=logs[chosen.partition],
                plan=chosen,
                due_count=sum(plan.is_due for plan in plans),
                delayed_count=sum(delay > 0 for delay in delays),
                max_delay_ms=max(delays),
            )

    def done_cleaning(self, taken: LogToClean, end_offset: int | None) -> None:
        """Give a log back; it is compacted up to ``end_offset``, or unchanged if that is None.

        An aborted log's checkpoint stays: its compacted part may have been truncated since.
        """
        with self._changed:
            if end_offset is not None and self.state_of(taken.partition) == IN_PROGRESS:
                self._checkpoints.update(taken.path, {taken.partition: end_offset})
            self.done(taken.partition)

    def compacted_logs(self) -> list[tuple[TopicPartition, PartitionLog]]:
        """Return the compacted logs that are free now: the cleaner applies retention to them.

        Logs without ``delete`` are included: they may have segments below their log start offset.
        """
        with self._changed:
            return [(partition, log) for partition, log in dict(self._logs()).items() if self._is_free(partition, log)]

    def begin(self, partition: TopicPartition) -> bool:
        """Take a partition for its retention; return False if it is not free. ``done`` gives it back."""
        with self._changed:
            log = self._logs().get(partition)
            if log is None or not self._is_free(partition, log):
                return False
            self._states[partition] = IN_PROGRESS
            return True

    def done(self, partition: TopicPartition) -> None:
        """Give a partition back. Raise RuntimeError if it was not taken."""
        with self._changed:
            state = self.state_of(partition)
            if state is None:
                raise RuntimeError(f"State for partition {partition} should exist.")
            if not state.is_taken:
                raise RuntimeError(f"In-progress partition {partition} cannot be in state: {state}.")
            self._become(partition, LogCleaningState(is_taken=False, pauses=state.pauses))
            self._changed.notify_all()

    def state_of(self, partition: TopicPartition) -> LogCleaningState | None:
        return self._states.get(partition)

    def check_aborted(self, partition: TopicPartition) -> None:
        """Raise LogCleaningAbortedError if the partition was paused since it was taken."""
        state = self.state_of(partition)
        if state is not None and state.pauses:
            raise LogCleaningAbortedError(f"the compaction of {partition} is aborted")

    # --- pauses ---

    def pause(self, partition: TopicPartition) -> None:
        """Wait until no thread has the partition. No thread takes it until ``resume`` is called once for each pause."""
        with self._changed:
            state = self.state_of(partition) or LogCleaningState(is_taken=False)
            self._become(partition, state._replace(pauses=state.pauses + 1))
            self._changed.wait_for(lambda: not self._states[partition].is_taken)

    def resume(self, partition: TopicPartition) -> None:
        """Undo one pause. Raise RuntimeError if the partition is not paused."""
        with self._changed:
            state = self.state_of(partition)
            if state is None:
                raise RuntimeError(f"Compaction for partition {partition} cannot be resumed since it is not paused.")
            if state.is_taken:
                raise RuntimeError(
                    f"Compaction for partition {partition} cannot be resumed since it is in state: {state}."
                )
            self._become(partition, state._replace(pauses=state.pauses - 1))

    @contextmanager
    def paused(self, partition: TopicPartition) -> Iterator[None]:
        """Pause the partition for the block; an empty block only aborts a running clean."""
        self.pause(partition)
        try:
            yield
        finally:
            self.resume(partition)

    def pause_unless_compacted(self, partition: TopicPartition) -> bool:
        """Pause a partition for retention; return False if the cleaner applies its retention or still has it.

        A topic may become compacted at any moment. (Kafka's retention skips a partition that is already paused, for
        example during a move.)
        """
        with self._changed:
            log = self._logs().get(partition)
            state = self.state_of(partition)
            if log is None or log.config.is_compacted or (state is not None and state.is_taken):
                return False
            self.pause(partition)
            return True

    # --- checkpoints ---

    def checkpoint_of(self, path: Path) -> Mapping[TopicPartition, int]:
        """Return the end of each partition's compacted part, for one log directory."""
        return self._checkpoints.of(path)

    def forget(self, path: Path, partition: TopicPartition) -> None:
        """Remove the checkpoint of a log that is no longer in the log directory."""
        with self._changed:
            self._checkpoints.update(path, {partition: None})

    def move(self, partition: TopicPartition, source: Path, target: Path) -> None:
        """Move the checkpoint of a log that lies in another log directory now, with the same records."""
        with self._changed:
            offset = self._checkpoints.of(source).get(partition)
            self._checkpoints.update(source, {partition: None})
            self._checkpoints.update(target, {partition: offset})

    def truncate(self, path: Path, partition: TopicPartition, offset: int) -> None:
        """Lower the checkpoint of a log that was truncated to ``offset``."""
        with self._changed:
            if self._checkpoints.of(path).get(partition, 0) > offset:
                self._checkpoints.update(path, {partition: offset})

    def drop_log_directory(self, path: Path) -> None:
        """Stop writing checkpoints to a log directory whose disk has failed."""
        with self._changed:
            _log.warning("Stopping cleaning logs in dir %s", path)
            self._checkpoints.drop(path)

    def await_cleaned(self, partition: TopicPartition, offset: int, timeout_ms: int) -> bool:
        """Wait until a log is compacted up to ``offset``; return False after the timeout."""

        def is_cleaned() -> bool:
            log = self._logs().get(partition)
            return log is not None and self._checkpoints.of(log.directory.parent).get(partition, -1) >= offset

        with self._changed:
            return self._changed.wait_for(is_cleaned, timeout_ms / 1000)

    # --- logs that cannot be compacted ---

    def mark_uncleanable(self, partition: TopicPartition, log: PartitionLog, reason: str) -> None:
        """Exclude a log whose compaction failed and would fail again."""
        with self._changed:
            self._uncleanable[partition] = Uncleanable(log, log.truncation_count, log.log_start_offset, reason)

    def uncleanable(self) -> dict[TopicPartition, Uncleanable]:
        """Return the logs that are set aside, each with the reason."""
        with self._changed:
            logs = self._logs()
            there = [partition for partition, one in self._uncleanable.items() if one.is_still(logs.get(partition))]
            self._uncleanable = {partition: self._uncleanable[partition] for partition in there}
            return dict(self._uncleanable)

    def dirty_bytes(self, logs: Mapping[TopicPartition, Uncleanable]) -> dict[Path, int]:
        """Return the dirty bytes of ``uncleanable`` logs, by log directory."""
        found: dict[Path, int] = {}
        for partition, (log, *_) in logs.items():
            with suppress(ClosedError, StorageError):
                plan = plan_log(self._facts(partition, log, self._clock.now_ms()))
                found[log.directory.parent] = found.get(log.directory.parent, 0) + plan.dirty_bytes
        return found

    # --- inside ---

    def _become(self, partition: TopicPartition, state: LogCleaningState) -> None:
        if state == LogCleaningState(is_taken=False):
            self._states.pop(partition, None)
        else:
            self._states[partition] = state

    def _is_free(self, partition: TopicPartition, log: PartitionLog) -> bool:
        if partition in self._states or not log.config.is_compacted or not log.is_healthy:
            return False
        set_aside = self._uncleanable.get(partition)
        return set_aside is None or not set_aside.is_still(log)

    def _facts(self, partition: TopicPartition, log: PartitionLog, now_ms: int) -> LogFacts:
        last_clean_offset = self.checkpoint_of(log.directory.parent).get(partition)
        return facts_of_log(log, partition, last_clean_offset=last_clean_offset, now_ms=now_ms)

    def _plan(self, partition: TopicPartition, log: PartitionLog) -> LogPlan | None:
        """Return the log's plan, or None if the log may not be taken."""
        if not self._is_free(partition, log):
            return None
        try:
            plan = plan_log(self._facts(partition, log, self._last_run_ms))
        except (ClosedError, StorageError):
            return None  # it was deleted, or its disk has failed
        except Exception as error:
            _log.warning("Failed to calculate log cleaning stats for partition %s: %s", partition, error)
            self.mark_uncleanable(partition, log, str(error))
            return None
        if plan.resets_checkpoint:
            for warning in plan.warnings:
                _log.warning("%s", warning)
            self._checkpoints.update(log.directory.parent, {partition: plan.first_dirty_offset})
        return plan
