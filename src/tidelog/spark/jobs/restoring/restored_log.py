"""A log written from the rows of a table, in a task: every record at its offset, with its time and headers.

=====================  ================================================================================================
of the table           in the log
=====================  ================================================================================================
first offset           the log start, and the first segment's name
offsets                the records'; what lies between them belongs to a batch, as in a log that was compacted, but for
                       gaps of 31 bits and more
``timestamp``          the record's; none is -1
``timestampType`` 1    batches whose time the broker set; such a batch ends where the time changes
any other              batches whose times the producer set
=====================  ================================================================================================

What a row does not say is as in a log that one process appended to: no producer, no transaction, the first leader
epoch, the topic's ``compression.type``. It is closed in order, all of it on the disk. Called by: ``writing_task``.
Thread rule: one task.
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
from tidelog.storage.log.append.record_input import own_compression
from tidelog.storage.log.append.record_writer import BULK_BATCH_BYTES
from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog

_RECORD = ["key", "value", "timestamp", "headers"]
_SPAN = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredLog:
    """What was written; ``size`` in bytes, of ``.log`` files."""

    directory: Path
    end_offset: int
    segments: int
    size: int


class LogRestoring:
    """A log that is made anew in ``directory``, whose rows come in order of offsets."""

    def __init__(self, directory: Path, config: LogConfig, *, first_offset: int, topic_id: uuid.UUID | None) -> None:
        self._codec, self._level = own_compression(config)
        self._max_batch_bytes = min(BULK_BATCH_BYTES, config.max_message_bytes, config.segment_bytes)
        self._log = PartitionLog.open(
            OpenRequest(
                fs=LOCAL,
                directory=directory,
                clock=SYSTEM_CLOCK,
                config=replace(config, file_delete_delay_ms=0),  # nobody else reads
                clean_shutdown=True,
                topic_id=topic_id,
            )
        )
        self._log.truncate_fully_and_start_at(first_offset)
        self._log.remove_deleted()

    def append(self, rows: pa.RecordBatch) -> None:
        """OffsetsOutOfOrderError for an offset that is not above the one before; errors of ``append_as_follower``."""
        offsets, times = _numbers(rows, "offset"), _numbers(rows, "timestamp")
        steps = np.diff(offsets, prepend=self._log.end_offset - 1)
        if (steps <= 0).any():
            at = int(np.argmax(steps <= 0))
            raise OffsetsOutOfOrderError("a row's offset is not above that of the row before", offset=int(offsets[at]))
        set_by_broker = _numbers(rows, "timestampType") == TimestampType.LOG_APPEND
        for first, last in pairwise(_cuts(offsets, times, set_by_broker)):
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

    def give_up(self) -> None:
        """Lets go of the files."""
        self._log.close_handlers()


def _numbers(rows: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    """Of a column without nulls; times in its own unit."""
    numbers: npt.NDArray[np.int64] = rows.column(name).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(numbers)


def _cuts(
    offsets: npt.NDArray[np.int64], times: npt.NDArray[np.int64], set_by_broker: npt.NDArray[np.bool_]
) -> list[int]:
    """Where a batch has to end: who set the time changes, or the broker's time, or offsets lie too far apart."""
    ends = set_by_broker[1:] != set_by_broker[:-1]
    ends |= set_by_broker[1:] & (np.diff(times) != 0)
    ends |= np.diff((offsets - offsets[0]) // _SPAN) != 0
    return [0, *(np.flatnonzero(ends) + 1).tolist(), len(offsets)]
