"""What the cleaner's threads and those who change logs agree on: who has which partition, how far each is compacted.

A partition is in one of four states, told by whether a thread is at it and how often it is paused:

==============  ===============  ======  ============================================================================
state           at it            pauses  meaning
==============  ===============  ======  ============================================================================
(none)          no               0       may be taken
in progress     yes              0       being compacted, or retention at work on it
aborted         yes              1, …    to be let go of; whoever pauses it waits
paused          no               1, …    nobody takes it, until each pause is taken back
==============  ===============  ======  ============================================================================

==============  ======================  ========================  ========================  =========================
call            none                    in progress               aborted                   paused
==============  ======================  ========================  ========================  =========================
``begin``       in progress             refused                   refused                   refused
``pause``       paused 1                aborted 1, waits          one more, waits           one more
``done``        RuntimeError            none                      paused                    RuntimeError
``resume``      RuntimeError            RuntimeError              RuntimeError              one less; none after that
==============  ======================  ========================  ========================  =========================

(Kafka's second thread that wants to pause a partition, while it is being aborted for the first, gets an error.)

A partition whose compaction failed is set aside with the reason. It is tried again once its log is another one (it was
deleted and made again, or moved), was cut at its end, or begins later: what was in the way may be gone. In Kafka only
deletion helps. After a restart all are tried again.
Called by: the cleaner's threads, the log manager, retention. Thread rule: any thread. Order of locks: this one, then a
log's; nobody may call ``pause`` who holds a lock that a log or its compaction needs.
Source: Kafka's ``LogCleanerManager``.
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


class PartitionState(NamedTuple):
    """See the module's first table."""

    is_taken: bool
    """A thread is at it."""
    pauses: int = 0

    def __str__(self) -> str:
        if not self.pauses:
            return "in progress"
        return "aborted" if self.is_taken else f"paused {self.pauses} times"


IN_PROGRESS = PartitionState(is_taken=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """A log that was taken to be compacted."""

    log: PartitionLog
    plan: LogPlan
    due: int
    """How many logs were."""
    delayed: int
    """How many of all had waited longer than ``max.compaction.lag.ms``."""
    max_delay_ms: int

    @property
    def partition(self) -> TopicPartition:
        return self.plan.partition

    @property
    def path(self) -> Path:
        """The log directory."""
        return self.log.directory.parent


class Uncleanable(NamedTuple):
    """A log that was set aside, as it was then."""

    log: PartitionLog
    cuts: int
    log_start_offset: int
    reason: str

    def is_still(self, log: PartitionLog | None) -> bool:
        return log is self.log and (log.cuts, log.log_start_offset) == (self.cuts, self.log_start_offset)


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
        """``paths``: the log directories; ``logs``: the current ones; ``on_failure`` is told of disks that fail."""
        self._logs = logs
        self._clock = clock
        self._changed = threading.Condition(threading.RLock())
        self._states: dict[TopicPartition, PartitionState] = {}
        self._uncleanable: dict[TopicPartition, Uncleanable] = {}
        self._checkpoints = CleanerCheckpoints(fs, paths, partitions=lambda: self._logs(), on_failure=on_failure)
        self.max_dirty_ratio = 0.0
        """Of all logs, when one was last looked for."""
        self._last_run_ms = clock.now_ms()

    @property
    def since_last_run_ms(self) -> int:
        """Since a log was last looked for."""
        return self._clock.now_ms() - self._last_run_ms

    # --- what is to be done ---

    def take_filthiest(self) -> LogToClean | None:
        """Take the log that is to be compacted next; None where none is due. ``done_cleaning`` gives it back.

        Checkpoints that cannot be right are reset on the way, and logs that cannot be planned for set aside.
        """
        with self._changed:
            self._last_run_ms = self._clock.now_ms()
            self.uncleanable()  # lets go of logs that are gone
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
                due=sum(plan.is_due for plan in plans),
                delayed=sum(delay > 0 for delay in delays),
                max_delay_ms=max(delays),
            )

    def done_cleaning(self, taken: LogToClean, end_offset: int | None) -> None:
        """Give a log back; ``end_offset``: it is compacted up to there, None: it is as it was.

        An aborted one's checkpoint stays: what was compacted may have been cut since.
        """
        with self._changed:
            if end_offset is not None and self.state_of(taken.partition) == IN_PROGRESS:
                self._checkpoints.update(taken.path, {taken.partition: end_offset})
            self.done(taken.partition)

    def compacted_logs(self) -> list[tuple[TopicPartition, PartitionLog]]:
        """Those whose oldest segments are the cleaner's to delete, now that nobody is at them.

        Those without ``delete`` too: they may have segments below their log start.
        """
        with self._changed:
            return [(partition, log) for partition, log in dict(self._logs()).items() if self._is_free(partition, log)]

    def begin(self, partition: TopicPartition) -> bool:
        """Take a partition for its retention; False where it may not be taken. ``done`` gives it back."""
        with self._changed:
            log = self._logs().get(partition)
            if log is None or not self._is_free(partition, log):
                return False
            self._states[partition] = IN_PROGRESS
            return True

    def done(self, partition: TopicPartition) -> None:
        """Give a partition back. RuntimeError where it was not taken."""
        with self._changed:
            state = self.state_of(partition)
            if state is None:
                raise RuntimeError(f"State for partition {partition} should exist.")
            if not state.is_taken:
                raise RuntimeError(f"In-progress partition {partition} cannot be in state: {state}.")
            self._become(partition, PartitionState(is_taken=False, pauses=state.pauses))
            self._changed.notify_all()

    def state_of(self, partition: TopicPartition) -> PartitionState | None:
        return self._states.get(partition)

    def check_aborted(self, partition: TopicPartition) -> None:
        """LogCleaningAbortedError where somebody waits for the partition to be let go of."""
        state = self.state_of(partition)
        if state is not None and state.pauses:
            raise LogCleaningAbortedError(f"the compaction of {partition} is aborted")

    # --- pauses ---

    def pause(self, partition: TopicPartition) -> None:
        """Return when nobody is at the partition; nobody takes it until ``resume``, once for each pause."""
        with self._changed:
            state = self.state_of(partition) or PartitionState(is_taken=False)
            self._become(partition, state._replace(pauses=state.pauses + 1))
            self._changed.wait_for(lambda: not self._states[partition].is_taken)

    def resume(self, partition: TopicPartition) -> None:
        """Take one pause back. RuntimeError where there is none."""
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
        """Nobody is at the partition meanwhile; an empty block only aborts."""
        self.pause(partition)
        try:
            yield
        finally:
            self.resume(partition)

    def pause_unless_compacted(self, partition: TopicPartition) -> bool:
        """Pause a partition for retention; False where the cleaner sees to that, or is at it still.

        So that a topic may begin to be compacted at any moment. (Kafka's retention passes over a partition that is
        paused already, so for as long as it moves.)
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
        """How far the partitions in a log directory are compacted."""
        return self._checkpoints.of(path)

    def forget(self, path: Path, partition: TopicPartition) -> None:
        """Its log has left the log directory."""
        with self._changed:
            self._checkpoints.update(path, {partition: None})

    def move(self, partition: TopicPartition, source: Path, target: Path) -> None:
        """Its log lies in another log directory now, with the same records."""
        with self._changed:
            offset = self._checkpoints.of(source).get(partition)
            self._checkpoints.update(source, {partition: None})
            self._checkpoints.update(target, {partition: offset})

    def truncate(self, path: Path, partition: TopicPartition, offset: int) -> None:
        """Its log was cut: what is behind ``offset`` is not compacted any more."""
        with self._changed:
            if self._checkpoints.of(path).get(partition, 0) > offset:
                self._checkpoints.update(path, {partition: offset})

    def lose(self, path: Path) -> None:
        """The disk under a log directory has failed: nothing is written there any more."""
        with self._changed:
            _log.warning("Stopping cleaning logs in dir %s", path)
            self._checkpoints.drop(path)

    def await_cleaned(self, partition: TopicPartition, offset: int, timeout_ms: int) -> bool:
        """Wait until a log is compacted up to ``offset``; whether it is."""

        def is_cleaned() -> bool:
            log = self._logs().get(partition)
            return log is not None and self._checkpoints.of(log.directory.parent).get(partition, -1) >= offset

        with self._changed:
            return self._changed.wait_for(is_cleaned, timeout_ms / 1000)

    # --- what cannot be compacted ---

    def set_aside(self, partition: TopicPartition, log: PartitionLog, reason: str) -> None:
        """Its compaction failed, and would again."""
        with self._changed:
            self._uncleanable[partition] = Uncleanable(log, log.cuts, log.log_start_offset, reason)

    def uncleanable(self) -> dict[TopicPartition, Uncleanable]:
        """The logs that are set aside, each with the reason."""
        with self._changed:
            logs = self._logs()
            there = [partition for partition, one in self._uncleanable.items() if one.is_still(logs.get(partition))]
            self._uncleanable = {partition: self._uncleanable[partition] for partition in there}
            return dict(self._uncleanable)

    def dirty_bytes(self, logs: Mapping[TopicPartition, Uncleanable]) -> dict[Path, int]:
        """By log directory: how much is dirty in logs that ``uncleanable`` gave."""
        found: dict[Path, int] = {}
        for partition, (log, *_) in logs.items():
            with suppress(ClosedError, StorageError):
                plan = plan_log(self._facts(partition, log, self._clock.now_ms()))
                found[log.directory.parent] = found.get(log.directory.parent, 0) + plan.dirty_bytes
        return found

    # --- inside ---

    def _become(self, partition: TopicPartition, state: PartitionState) -> None:
        if state == PartitionState(is_taken=False):
            self._states.pop(partition, None)
        else:
            self._states[partition] = state

    def _is_free(self, partition: TopicPartition, log: PartitionLog) -> bool:
        if partition in self._states or not log.config.is_compacted or not log.is_sound:
            return False
        set_aside = self._uncleanable.get(partition)
        return set_aside is None or not set_aside.is_still(log)

    def _facts(self, partition: TopicPartition, log: PartitionLog, now_ms: int) -> LogFacts:
        last_clean_offset = self.checkpoint_of(log.directory.parent).get(partition)
        return facts_of_log(log, partition, last_clean_offset=last_clean_offset, now_ms=now_ms)

    def _plan(self, partition: TopicPartition, log: PartitionLog) -> LogPlan | None:
        """None for a log that may not be taken."""
        if not self._is_free(partition, log):
            return None
        try:
            plan = plan_log(self._facts(partition, log, self._last_run_ms))
        except (ClosedError, StorageError):
            return None  # it was deleted, or its disk has failed
        except Exception as error:
            _log.warning("Failed to calculate log cleaning stats for partition %s: %s", partition, error)
            self.set_aside(partition, log, str(error))
            return None
        if plan.resets_checkpoint:
            for warning in plan.warnings:
                _log.warning("%s", warning)
            self._checkpoints.update(log.directory.parent, {partition: plan.first_dirty_offset})
        return plan
