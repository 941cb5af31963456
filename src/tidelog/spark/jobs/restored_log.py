"""A log that a task writes from a table's rows: every record at its offset, with time and headers.

=====================  ================================================================================================
in the table           in the log
=====================  ================================================================================================
first offset           the log start, and the first segment's name
offsets                the records'; a batch covers the missing offsets between them, as in a compacted log, except for
                       gaps of 31 bits and more
``timestamp``          the record's; none is -1
``timestampType`` 1    batches with log append time; such a batch ends if the time changes
any other              batches with create time
=====================  ================================================================================================

All else is as in a log that one process appended to: no producer, no transaction, the first leader epoch, the topic's
``compression.type``. The log is flushed and cleanly closed. Thread rule: one task.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model import OffsetsOutOfOrderError, TimestampType
from tidelog.record.arrow import from_arrow
from tidelog.record.build import build_batches
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.adopt.adoption import FIRST_EPOCH
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.writers.record_writer import BULK_BATCH_BYTES, own_compression

_RECORD = ["key", "value", "timestamp", "headers"]
_SPAN = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredLog:
    """The written log. ``size`` is the bytes of its ``.log`` files."""

    directory: Path
    end_offset: int
    segments: int
    size: int


class LogRestoring:
    """A new log in ``directory``. Its rows come by ascending offset."""

    def __init__(self, directory: Path, config: LogConfig, *, first_offset: int, topic_id: uuid.UUID | None) -> None:
        self._codec, self._level = own_compression(config)
        self._max_batch_bytes = min(BULK_BATCH_BYTES, config.max_message_bytes, config.segment_bytes)
        self._log = PartitionLog.open(
            OpenRequest(
                fs=LOCAL,
                directory=directory,
                clock=SYSTEM_CLOCK,
                config=replace(config, file_delete_delay_ms=0),  # no other process reads the log
                clean_shutdown=True,
                topic_id=topic_id,
            )
        )
        self._log.truncate_fully_and_start_at(first_offset)
        self._log.remove_deleted()

    def append(self, rows: pa.RecordBatch) -> None:
        """Append rows. Raise OffsetsOutOfOrderError if an offset does not ascend, and the errors of
        ``append_as_follower``."""
        offsets, times = _numbers(rows, "offset"), _numbers(rows, "timestamp")
        steps = np.diff(offsets, prepend=self._log.end_offset - 1)
        if (steps <= 0).any():
            at = int(np.argmax(steps <= 0))
            raise OffsetsOutOfOrderError("a row's offset is not above that of the row before", offset=int(offsets[at]))
        set_by_broker = _numbers(rows, "timestampType") == TimestampType.LOG_APPEND
        for first, last in pairwise(_batch_bounds(offsets, times, set_by_broker)):
            part = rows.slice(first, last - first).select(_RECORD)
            end, first_offset, last_offset = self._log.end_offset, int(offsets[first]), int(offsets[last - 1])
            batches = build_batches(
                replace(from_arrow(part), offset=offsets[first:last]),
                base_offset=end if last_offset - end < _SPAN else first_offset,
                max_batch_bytes=self._max_batch_bytes,
                codec=self._codec,
                level=self._level,
                timestamp_type=TimestampType.LOG_APPEND if set_by_broker[first] else TimestampType.CREATE,
                leader_epoch=FIRST_EPOCH,
                keep_offsets=True,
            )
            for batch in batches:
                self._log.append_as_follower(batch, FIRST_EPOCH)

    def finish(self) -> RestoredLog:
        log = self._log
        restored = RestoredLog(
            directory=log.directory, end_offset=log.end_offset, segments=len(log.segments), size=log.size
        )
        log.close()
        return restored

    def abandon(self) -> None:
        """Close the files."""
        self._log.close_handlers()


def _numbers(rows: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    """Return the integers of a column without nulls. Times are in the column's own unit."""
    numbers: npt.NDArray[np.int64] = rows.column(name).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(numbers)


def _batch_bounds(
    offsets: npt.NDArray[np.int64], times: npt.NDArray[np.int64], set_by_broker: npt.NDArray[np.bool_]
) -> list[int]:
    """Return the row numbers at which a batch must end. A batch ends if the timestamp type changes, the log append time
    changes, or offsets lie too far apart."""
    ends = set_by_broker[1:] != set_by_broker[:-1]
    ends |= set_by_broker[1:] & (np.diff(times) != 0)
    ends |= np.diff((offsets - offsets[0]) // _SPAN) != 0
    return [0, *(np.flatnonzero(ends) + 1).tolist(), len(offsets)]
