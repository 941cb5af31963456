"""Move a partition to another log directory while it is written to: copy, catch up, take its place.

====================  ==============================================================================================
step                  what it does
====================  ==============================================================================================
``begin``             the future log (``-future``) is cut to what the current log still has; an empty one begins where
                      the current log does
``copy``              batches are appended to it as a follower does, some at a time, while the current log goes on;
                      that it is behind by what comes in meanwhile will do
``finish``            appends wait; the last batches are copied, epochs and topic id too, both logs are flushed, and the
                      future one gets the live name; the current log's directory is renamed to ``-delete``, and
                      whoever holds that log asks again
====================  ==============================================================================================

Where the current log is truncated meanwhile, the future one is cut too before more is copied. Behind its last batch a
log ends where that does: a cut in a gap that compaction left is forgotten, as it is by a restart.
What a crash leaves: before the first rename, the current log as it is and a future one that the next start goes on
with; between the two renames, two live directories with the same records, safe in both, of which the next start
keeps one (``LogTable``); after that, the new log and a ``-delete`` directory.
Called by: ``Moves``, ``LogManager``. Thread rule: whoever works on it holds ``lock``.
Source: Kafka's ``ReplicaAlterLogDirsThread``.
"""

from __future__ import annotations

import threading

from tidelog.model import (
    Isolation,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
    UnexpectedAppendOffsetError,
)
from tidelog.storage.log.partition_log import PartitionLog, ReadLimits

_CHUNK_BYTES = 1024 * 1024
_ANY_EPOCH = 2**31 - 1


class LogMove:
    """``current`` is the log as it is served, ``future`` the one that will be."""

    def __init__(self, current: PartitionLog, future: PartitionLog) -> None:
        self.current = current
        self.future = future
        self.lock = threading.Lock()

    @property
    def lag(self) -> int:
        """Offsets that the future log is behind."""
        return max(0, self.current.end_offset - self.future.end_offset)

    def begin(self) -> None:
        """Cut what the current log does not have, as far as leader epochs tell."""
        self.current.epochs.take_cut()
        future = self.future
        while future.end_offset > future.log_start_offset and future.epochs.latest is not None:
            answer = self.current.epochs.end_offset_for(future.epochs.latest)
            if answer is None:
                future.truncate_fully_and_start_at(self.current.log_start_offset)
                return
            cut = future.epochs.truncation_for(answer)
            future.truncate_to(cut.offset)
            if cut.is_complete:
                break
        future.truncate_to(min(future.end_offset, self.current.end_offset))

    def copy(self) -> bool:
        """Copy some batches; whether the future log has what was in the current one when this began."""
        self._cut()
        end = self.current.end_offset
        start = self.current.log_start_offset
        first = max(start, self.current.base_offsets[0])
        if self.future.end_offset < first:
            self.future.truncate_fully_and_start_at(first, log_start_offset=start)
        is_all = not self.lag
        if not is_all:
            try:
                is_all = not self._copy_some()
            except OffsetOutOfRangeError:
                if not self._cut() and self.current.log_start_offset == start:
                    raise
                return False  # the current log lost records at one of its ends just now
        self.future.update_high_watermark(min(self.current.high_watermark, self.future.end_offset))
        self.future.maybe_increment_log_start_offset(min(start, self.future.high_watermark))
        return is_all or self.future.end_offset >= end

    def finish(self) -> None:
        """Make the future log the equal of the current one, to which nothing is appended meanwhile."""
        while not self.copy():
            pass
        for epoch, start_offset in self.current.epochs.entries:
            latest = self.future.epochs.latest
            if latest is None or epoch > latest:  # it has no records yet
                self.future.assign_epoch(epoch, start_offset)
        if self.current.topic_id is not None:
            self.future.assign_topic_id(self.current.topic_id)
        self.future.flush(force=True)

    # --- inside ---

    def _cut(self) -> bool:
        """Cut what was cut from the current log since this was last asked."""
        cut_at = self.current.epochs.take_cut()
        return cut_at is not None and self.future.truncate_to(cut_at)

    def _copy_some(self) -> bool:
        """Whether there was anything."""
        try:
            return self._append(self._read(min(_CHUNK_BYTES, self.future.config.segment_bytes)))
        except RecordBatchTooLargeError:
            return self._append(self._read(1))  # one by one: some lie too far apart for one segment

    def _read(self, max_bytes: int) -> bytearray:
        """The first batch whole."""
        limits = ReadLimits(start_offset=self.future.end_offset, max_bytes=max_bytes, isolation=Isolation.LOG_END)
        return bytearray(self.current.read(limits).data())

    def _append(self, batches: bytearray) -> bool:
        try:
            self.future.append_as_follower(batches, _ANY_EPOCH)
        except UnexpectedAppendOffsetError as error:
            # The log start lies inside a batch, and what is copied is whole batches.
            if self.future.size or error.offset is None:
                raise
            self.future.truncate_fully_and_start_at(error.offset)
            self.future.append_as_follower(batches, _ANY_EPOCH)
        return bool(batches)
