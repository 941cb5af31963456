"""A thread of the cleaner: it compacts the dirtiest log, then applies retention to compacted logs.

=======================================  ============================================================================
in a round                               result
=======================================  ============================================================================
a log was compacted                      its checkpoint moves; the next round begins at once
the log was paused meanwhile             it is unchanged or partly compacted; the next round begins at once
anything in it cannot be compacted       it is set aside with the reason; the next round begins at once
no log is due                            the thread waits ``log.cleaner.backoff.ms``
the log was deleted, or its disk failed  a disk failure is reported; the thread waits
a bug, or out of memory                  the thread ends and is counted as dead; the other threads continue
=======================================  ============================================================================

The partition is given back in all cases. The offset map exists only while a log is compacted.
Thread rule: any thread may call ``stop`` and read the last results. Source: Kafka's ``LogCleaner.CleanerThread``.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidelog.kernel import OffsetMap
from tidelog.model import ClosedError, LogCleaningAbortedError, StorageError, TopicPartition
from tidelog.runtime import Clock
from tidelog.runtime.throttle import Throttle
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.cleaner.pool.cleaner_state import CleanerState, LogToClean
from tidelog.storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from tidelog.storage.cleaner.clean.clean_request import CleanerStats, CleanResult

_MAP_KEY_BYTES = 16
_LONGEST_WAIT_MS = 3_600_000
"""A setting may be 292 million years; a single wait of a thread cannot be that long."""

_log = logging.getLogger(__name__)


class Clean(Protocol):
    """The signature of ``clean_log``, so that a test can replace it."""

    def __call__(
        self,
        log: PartitionLog,
        *,
        first_dirty: int,
        first_uncleanable: int,
        offset_map: OffsetMap,
        clock: Clock,
        check_done: Callable[[], None],
        throttle: Callable[[int], None],
        chunk_bytes: int,
    ) -> CleanResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerWork:
    """The parts that all threads of a cleaner share."""

    state: CleanerState
    settings: CleanerSettings
    throttle: Throttle
    clock: Clock
    clean: Clean | None
    """None means ``clean_log``, which is imported with the first log that is due."""
    on_failure: Callable[[StorageError], None]


class CleanerThread(threading.Thread):
    def __init__(self, number: int, work: CleanerWork) -> None:
        super().__init__(name=f"kafka-log-cleaner-thread-{number}", daemon=True)
        self._work = work
        self._stopping = threading.Event()
        self.is_dead = False
        """True if the thread ended without ``stop``."""
        self.last_stats: CleanerStats | None = None
        """The statistics of the last log that it compacted."""
        self.last_max_delay_ms = 0
        """The longest wait of any log past ``max.compaction.lag.ms``, when the thread last took a log."""

    def stop(self) -> None:
        """Abort the current clean; ``join`` waits for that."""
        self._stopping.set()

    def run(self) -> None:
        """Run rounds until ``stop``."""
        try:
            while not self._stopping.is_set():
                if not self._run_once():
                    self._stopping.wait(min(self._work.settings.backoff_ms, _LONGEST_WAIT_MS) / 1000)
        except BaseException as error:  # the rest of the process continues without this thread
            self.is_dead = True
            _log.critical("%s ended and compacts no log any longer: %s", self.name, error, exc_info=error)

    # --- a round ---

    def _run_once(self) -> bool:
        """Run a round; return True if the next one begins at once."""
        taken = self._work.state.take_filthiest()
        goes_on = taken is not None and self._clean(taken)
        for partition, log in self._work.state.compacted_logs():
            if self._stopping.is_set():
                break
            if self._work.state.begin(partition):
                self._delete_old_segments(partition, log)
        return goes_on

    def _clean(self, taken: LogToClean) -> bool:
        end_offset = None
        try:
            end_offset = self._cleaned_up_to(taken)
        except LogCleaningAbortedError as error:
            _log.info("%s", error)
        except Exception as error:
            if not self._mark_uncleanable(taken.partition, taken.log, error):
                return False
        finally:
            self._work.state.done_cleaning(taken, end_offset)
        return end_offset is None or end_offset > taken.plan.first_dirty_offset

    def _delete_old_segments(self, partition: TopicPartition, log: PartitionLog) -> None:
        try:
            log.delete_old_segments()
        except Exception as error:
            self._mark_uncleanable(partition, log, error)
        finally:
            self._work.state.done(partition)

    def _cleaned_up_to(self, taken: LogToClean) -> int:
        from tidelog.storage.cleaner.clean.clean_log import CHUNK_BYTES, clean_log

        work, plan = self._work, taken.plan
        self.last_max_delay_ms = taken.max_delay_ms

        def check_done() -> None:
            if self._stopping.is_set():
                raise LogCleaningAbortedError(f"the compaction of {taken.partition} ends with the cleaner")
            work.state.check_aborted(taken.partition)

        result = (work.clean or clean_log)(
            taken.log,
            first_dirty=plan.first_dirty_offset,
            first_uncleanable=plan.end_offset,
            offset_map=work.settings.new_map(secrets.token_bytes(_MAP_KEY_BYTES)),
            clock=work.clock,
            check_done=check_done,
            throttle=lambda size: work.throttle.maybe_throttle(size, check_done),
            chunk_bytes=max(CHUNK_BYTES, work.settings.thread_io_bytes),
        )
        self.last_stats = result.stats
        if taken.delayed_count:
            _log.info(
                "Cleanable partitions: %d, Delayed partitions: %d, max delay: %d",
                taken.due_count,
                taken.delayed_count,
                taken.max_delay_ms,
            )
        if result.stats.invalid_messages_read:
            _log.warning(
                "Found %d invalid messages during compaction of %s: they had no key",
                result.stats.invalid_messages_read,
                taken.partition,
            )
        return result.next_dirty_offset

    def _mark_uncleanable(self, partition: TopicPartition, log: PartitionLog, error: Exception) -> bool:
        """Set a log aside; return False if it was deleted or its disk failed. Raise a MemoryError again."""
        if isinstance(error, MemoryError):
            raise error
        if isinstance(error, ClosedError):
            return False
        if isinstance(error, StorageError) and (error.is_disk_failure or not log.is_healthy):
            _log.debug("%s could not be compacted: %s", partition, error)
            self._work.on_failure(error)
            return False
        text = "Unexpected exception thrown when cleaning log %s. Marking its partition (%s) as uncleanable: %s"
        _log.warning(text, log.directory, partition, error, exc_info=error)
        self._work.state.mark_uncleanable(partition, log, str(error))
        return True
