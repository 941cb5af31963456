"""The move of a log to another directory while clients append to it: copy, catch up, replace.

====================  ==============================================================================================
step                  change
====================  ==============================================================================================
``begin``             the future log (``-future``) is truncated to the records that the current log still has; an
                      empty one begins at the current log's start
``copy``              some batches are appended to it as a follower does, while the current log changes; it may stay
                      behind by the batches appended meanwhile
``finish``            appends wait; the last batches, epochs and topic id are copied, both logs are flushed, the future
                      log gets the live name, the current one's directory is renamed to ``-delete``, and callers that
                      hold that log look it up again
====================  ==============================================================================================

If the current log is truncated meanwhile, the future log is truncated too before more is copied. The future log always
ends with its last batch. So a truncation into a gap left by compaction is lost, as after a restart.
A crash before the first rename leaves the current log, and a future log that the next startup continues with. A crash
between the two renames leaves two live directories with the same records, durable in both; the next startup keeps one
(``LogTable``). After the second rename there are the new log and a ``-delete`` directory. Thread rule: every caller
holds ``lock``. Source: Kafka's ``ReplicaAlterLogDirsThread``.
"""

from __future__ import annotations

import threading

from tidelog.model import Isolation, OffsetOutOfRangeError, RecordBatchTooLargeError, UnexpectedAppendOffsetError
from tidelog.storage.log.partition_log import LogReadRequest, PartitionLog

_CHUNK_BYTES = 1024 * 1024
_ANY_EPOCH = 2**31 - 1


class LogMove:
    """``current`` is the log in service, ``future`` its replacement."""

    def __init__(self, current: PartitionLog, future: PartitionLog) -> None:
        self.current = current
        self.future = future
        self.lock = threading.Lock()
        self.copied_bytes = 0
        self.has_caught_up = False
        """True once ``copy`` has reached the end of the current log."""
        self.may_end = False
        """True if ``finish`` is allowed. The owner of ``Moves`` may first have to record the new directory."""

    @property
    def lag(self) -> int:
        """The number of offsets that the future log is behind."""
        return max(0, self.current.end_offset - self.future.end_offset)

    def begin(self) -> None:
        """Truncate the future log to the records that the current log has according to its leader epochs."""
        self.current.epochs.take_truncation()
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
        """Copy some batches. Return True if the future log has everything that was in the current one at the start."""
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
                return False  # the current log was truncated or its start moved meanwhile
        self.future.update_high_watermark(min(self.current.high_watermark, self.future.end_offset))
        self.future.maybe_increment_log_start_offset(min(start, self.future.high_watermark))
        return is_all or self.future.end_offset >= end

    def finish(self) -> None:
        """Complete the future log. The caller prevents appends to the current one meanwhile."""
        while not self.copy():
            pass
        for epoch, start_offset in self.current.epochs.entries:
            latest = self.future.epochs.latest
            if latest is None or epoch > latest:  # an epoch without records is not copied with the batches
                self.future.assign_epoch(epoch, start_offset)
        if self.current.topic_id is not None:
            self.future.assign_topic_id(self.current.topic_id)
        self.future.flush(force=True)

    # --- inside ---

    def _cut(self) -> bool:
        """Repeat truncations of the current log since the last call. Return True if the future log changed."""
        cut_at = self.current.epochs.take_truncation()
        return cut_at is not None and self.future.truncate_to(cut_at)

    def _copy_some(self) -> bool:
        """Copy the next batches. Return False if there are none."""
        try:
            return self._append(self._read(min(_CHUNK_BYTES, self.future.config.segment_bytes)))
        except RecordBatchTooLargeError:
            return self._append(self._read(1))  # single batches: together their offsets may exceed a segment's range

    def _read(self, max_bytes: int) -> bytearray:
        """Read batches from the future log's end on. The first batch is always complete."""
        limits = LogReadRequest(start_offset=self.future.end_offset, max_bytes=max_bytes, isolation=Isolation.LOG_END)
        return bytearray(self.current.read(limits).data())

    def _append(self, batches: bytearray) -> bool:
        try:
            self.future.append_as_follower(batches, _ANY_EPOCH)
        except UnexpectedAppendOffsetError as error:
            # The log start is inside a batch, but only complete batches are copied.
            if self.future.size or error.offset is None:
                raise
            self.future.truncate_fully_and_start_at(error.offset)
            self.future.append_as_follower(batches, _ANY_EPOCH)
        self.copied_bytes += len(batches)
        return bool(batches)
