"""The rules by which a log refuses batches and records, each with its error. Pure.

Batch rules, checked from top to bottom:

==================================================  ==========================================================
the batch                                           the error
==================================================  ==========================================================
of another format than the first one                InvalidRecordError
of a client: record count not positive, or not      InvalidRecordError
the length of the offset range
of a client: control batch                          InvalidRecordError
of a client: producer id without sequence           InvalidRecordError
==================================================  ==========================================================

Record rules, for every record of a batch; the first broken rule of a record counts:

==================================================  ==========================================================
the record                                          the error
==================================================  ==========================================================
of another format than its wrapper                  InvalidRecordError
with a wrong CRC (inside a wrapper)                 CorruptRecordError, at once
without a key in a compacted topic                  InvalidRecordError
create time too far from the clock                  InvalidTimestampError
log append time set by the producer, where the      InvalidTimestampError
log sets the time or the record has none
==================================================  ==========================================================

If several records are refused, one InvalidTimestampError among them decides; ``record_errors`` holds all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchRow
from tidelog.model import CorruptRecordError, InvalidRecordError, InvalidTimestampError, RecordError, Refusal
from tidelog.record.attributes import CODEC_MASK, CONTROL_FLAG, TIMESTAMP_TYPE_FLAG
from tidelog.record.legacy import LegacyMessage
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.producer import AppendOrigin

_V2 = 2
_NO_TIMESTAMP = -1
_WRONG_TYPE = "a producer may not set the timestamp type to log append time"
_NO_KEY = "a compacted topic takes no record without a key"


def check_batch(row: BatchRow, first_magic: int, rules: AppendRules, origin: AppendOrigin) -> None:
    if row.magic != first_magic:
        raise InvalidRecordError(
            f"a batch has the format v{row.magic}, the first one v{first_magic}",
            position=row.position,
            refusals=(Refusal.MAGIC,),
        )
    if row.magic < _V2:
        return
    if origin is AppendOrigin.CLIENT:
        _check_client_batch(row)
    if row.record_count <= 0 or row.last_offset - row.base_offset + 1 != row.record_count:
        raise _invalid_range(row)  # offsets are assigned by the record count, so it must be right for every origin


def _check_client_batch(row: BatchRow) -> None:
    if row.record_count <= 0 or row.last_offset - row.base_offset + 1 != row.record_count:
        raise _invalid_range(row)
    if row.attributes & CONTROL_FLAG:
        raise InvalidRecordError(
            "a producer may not write control records", position=row.position, refusals=(Refusal.OFFSET,)
        )
    if row.producer_id >= 0 and row.base_sequence < 0:
        raise InvalidRecordError(
            f"a batch of producer {row.producer_id} has the sequence {row.base_sequence}",
            position=row.position,
            refusals=(Refusal.SEQUENCE,),
        )


def _invalid_range(row: BatchRow) -> InvalidRecordError:
    return InvalidRecordError(
        f"a batch of {row.record_count} records has the offset range [{row.base_offset}, {row.last_offset}]",
        position=row.position,
        refusals=(Refusal.OFFSET,),
    )


def check_records(
    key_valid: npt.NDArray[np.bool_],
    timestamps: npt.NDArray[np.int64],
    *,
    is_log_append: bool,
    rules: AppendRules,
    now_ms: int,
) -> None:
    """Check the records of one v2 batch. ``is_log_append`` is its header's timestamp type."""
    found = _Findings(rules, now_ms)
    suspect = np.zeros(len(timestamps), np.bool_)
    if rules.require_keys:
        suspect |= ~key_valid
    if is_log_append:
        suspect[:] = True
    elif not rules.log_append_time:
        distance = np.int64(now_ms) - timestamps
        outside = (distance > rules.before_max_ms) | (-distance > rules.after_max_ms)
        suspect |= outside & (timestamps != _NO_TIMESTAMP)
    for index in np.flatnonzero(suspect).tolist():
        found.note(index, bool(key_valid[index]), int(timestamps[index]), is_log_append)
    found.raise_errors()


def check_messages(messages: Sequence[LegacyMessage], row: BatchRow, rules: AppendRules, now_ms: int) -> None:
    """Check the messages of one v0 or v1 entry, as read unchecked by ``read_messages``."""
    found = _Findings(rules, now_ms)
    is_log_append = row.magic > 0 and bool(row.attributes & TIMESTAMP_TYPE_FLAG)
    for index, message in enumerate(messages):
        if row.attributes & CODEC_MASK and message.attributes & CODEC_MASK:
            raise InvalidRecordError("a message inside a compressed wrapper is compressed itself")
        if message.magic != row.magic:
            found.errors.append(RecordError(index, f"its format is v{message.magic}, its wrapper's v{row.magic}"))
            found.refusals.append(Refusal.MAGIC)
            continue
        if not message.crc_ok:
            raise CorruptRecordError(f"the CRC of a message inside a wrapper is wrong, inner offset {message.offset}")
        found.note(index, message.key is not None, message.timestamp, is_log_append)
    found.raise_errors()


class _Findings:
    """The errors of one batch's records."""

    def __init__(self, rules: AppendRules, now_ms: int) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._has_timestamp_error = False
        self.errors: list[RecordError] = []
        self.refusals: list[Refusal] = []

    def note(self, index: int, has_key: bool, timestamp: int, is_log_append: bool) -> None:
        if self._rules.require_keys and not has_key:
            self.errors.append(RecordError(index, _NO_KEY))
            self.refusals.append(Refusal.NO_KEY)
            return
        if not self._rules.log_append_time and timestamp != _NO_TIMESTAMP:
            if not self._is_outside(timestamp):
                return
            earliest, latest = self._now_ms - self._rules.before_max_ms, self._now_ms + self._rules.after_max_ms
            message = f"its timestamp {timestamp} is not within [{earliest}, {latest}]"
        elif is_log_append:
            message = _WRONG_TYPE
        else:
            return
        self.errors.append(RecordError(index, message))
        self._has_timestamp_error = True

    def _is_outside(self, timestamp: int) -> bool:
        """Return True if the timestamp is out of range, with Java's overflow for distances beyond 63 bits."""
        distance = _wrapped(self._now_ms - timestamp)
        return distance > self._rules.before_max_ms or _wrapped(-distance) > self._rules.after_max_ms

    def raise_errors(self) -> None:
        if not self.errors:
            return
        kind = InvalidTimestampError if self._has_timestamp_error else InvalidRecordError
        first = self.errors[0]
        more = f", and {len(self.errors) - 1:,} more are refused" if len(self.errors) > 1 else ""
        raise kind(
            f"record {first.batch_index} is refused: {first.message}{more}",
            record_errors=self.errors,
            refusals=self.refusals,
        )


def _wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63
