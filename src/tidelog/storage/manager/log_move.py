"""Move a partition to another log directory while it is written to: copy, catch up, take its place.

====================  ==============================================================================================
step                  what it does
====================  ==============================================================================================
``begin``             the future log (``-future``) is cut to what the current log still has; an empty one begins where
                      the current log does
``copy``              batches are appended to it as a follower does, some at a time, while the current log goes on
``finish``            appends wait; the last batches are copied, the future log is flushed and gets the live name; the
                      current log's directory is renamed to ``-delete``, and whoever holds that log asks again
====================  ==============================================================================================

What a crash leaves: before the first rename, the current log as it is and a future one that the next start goes on
with; between the two renames, two live directories with the same records, of which the next start keeps one
(``LogManager``); after that, the new log and a ``-delete`` directory.
Called by: ``LogManager``. Thread rule: one caller. Source: Kafka's ``ReplicaAlterLogDirsThread``.
"""

from __future__ import annotations

from tidelog.model import Isolation, UnexpectedAppendOffsetError
from tidelog.storage.log.partition_log import PartitionLog, ReadLimits

_CHUNK_BYTES = 1024 * 1024
_ANY_EPOCH = 2**31 - 1


class LogMove:
    """``current`` is the log as it is served, ``future`` the one that will be."""

    def __init__(self, current: PartitionLog, future: PartitionLog) -> None:
        self.current = current
        self.future = future

    @property
    def lag(self) -> int:
        """Offsets that the future log is behind."""
        return max(0, self.current.end_offset - self.future.end_offset)

    def begin(self) -> None:
        """Cut what the current log does not have."""
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
        """Copy some batches; whether the future log has caught up, as far as one can see."""
        start = self.current.log_start_offset
        if self.future.end_offset < start:
            self.future.truncate_fully_and_start_at(start)
        if self.lag:
            limits = ReadLimits(
                start_offset=self.future.end_offset,
                max_bytes=min(_CHUNK_BYTES, self.future.config.segment_bytes),
                isolation=Isolation.LOG_END,
            )
            self._append(bytearray(self.current.read(limits).data()), start)
        self.future.update_high_watermark(min(self.current.high_watermark, self.future.end_offset))
        self.future.maybe_increment_log_start_offset(min(start, self.future.high_watermark))
        return not self.lag

    def _append(self, batches: bytearray, log_start: int) -> None:
        try:
            self.future.append_as_follower(batches, _ANY_EPOCH)
        except UnexpectedAppendOffsetError as error:
            # The log start lies inside a batch, and what is copied is whole batches.
            if self.future.size or error.offset is None:
                raise
            self.future.truncate_fully_and_start_at(error.offset, log_start_offset=log_start)
            self.future.append_as_follower(batches, _ANY_EPOCH)
