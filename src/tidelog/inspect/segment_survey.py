"""Facts about all batches of one ``.log``: counts, timestamps, codecs, sizes, damage.

The survey reads the whole file, but holds one window of it at a time. After damage it goes on at the next valid batch.
Reads only. Thread rule: one thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tidelog.inspect.batch_fields import read_batch_header
from tidelog.inspect.batch_walk import computed_crc, windows
from tidelog.kernel import BatchRow, BatchTable, Stop
from tidelog.record.attributes import CODECS, codec_of
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.storage.log.view.view_state import stop_reason
from tidelog.storage.segment.resync import next_sound_batch
from tidelog.storage.segment.segment_reader import SegmentReader

_MOST_DAMAGES: Final = 100
_MARK_BYTES: Final = 64 * 1024
_OFFSET_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Bytes that hold no valid batch. ``next_position`` is that of the next valid batch, or None."""

    position: int
    size: int
    reason: str
    next_position: int | None = None


@dataclass(slots=True, kw_only=True)
class SegmentSurvey:
    """``records`` counts a compressed message set of v0 or v1 as one, since its header has no count."""

    size: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    first_timestamp: int | None = None
    max_timestamp: int | None = None
    largest_batch: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    """Batches by codec."""
    formats: Counter[int] = field(default_factory=Counter)
    """Batches by format version."""
    control_batches: int = 0
    transactional_batches: int = 0
    damages: list[Damage] = field(default_factory=list)
    """The first hundred damages. Only the last one may reach to the end of the file."""
    damage_count: int = 0
    end_position: int = 0
    """The position after the last batch, valid or not."""
    marks: list[int] = field(default_factory=list)
    """Ascending positions of batches, about 64 KiB apart."""
    mark_offsets: list[int] = field(default_factory=list)
    """The largest offset before each mark; -1 if there is none."""

    @property
    def tail(self) -> Damage | None:
        """The bytes after the last batch."""
        last = self.damages[-1] if self.damages else None
        return last if last is not None and last.position + last.size == self.size else None


def survey_segment_log(reader: SegmentReader, advance: Callable[[int], None] = lambda _bytes: None) -> SegmentSurvey:
    """Read a whole ``.log``. ``advance`` receives the bytes that are done, and may raise CancelledError."""
    survey = SegmentSurvey(size=reader.size)
    position = 0
    while position < survey.size:
        stop = Stop.END
        for window in windows(reader, position, survey.size):
            if window.large is not None:
                header = read_batch_header(window.buffer[:V2_HEADER_BYTES], available=window.large.size)
                advance(header.crc_from)
                crc = computed_crc(reader, window.large.position, header, advance)
                _add_large(survey, window.large._replace(crc_ok=crc == window.large.crc))
            else:
                advance(window.next_position - window.base_position)
                _add_table(survey, window.table)
            survey.end_position = window.next_position
            stop = window.stop
        position = survey.end_position
        if stop is Stop.END:
            break
        following = next_sound_batch(reader, position, survey.size, 0, _OFFSET_MAX)
        end = survey.size if following is None else following
        _add_damage(survey, position, end - position, stop_reason(stop), following)
        advance(end - position)
        position = end
    return survey


def codec_counts(survey: SegmentSurvey) -> Mapping[str, int]:
    """Return the number of batches by codec, the most frequent first."""
    return dict(survey.codecs.most_common())


def _add_table(survey: SegmentSurvey, table: BatchTable) -> None:
    if not len(table):
        return
    survey.batches += len(table)
    survey.records += int(np.maximum(table.record_count, 0).sum(dtype=np.int64)) + int((table.record_count < 0).sum())
    survey.largest_batch = max(survey.largest_batch, int(table.size.max()))
    for numbers, name_of, counter in ((table.codec, _codec, survey.codecs), (table.magic, int, survey.formats)):
        for value, count in zip(*np.unique(numbers, return_counts=True), strict=True):
            counter[name_of(int(value))] += int(count)  # type: ignore[index]
    survey.control_batches += int(table.is_control.sum())
    survey.transactional_batches += int(table.is_transactional.sum())
    _add_marks(survey, table)
    good = table if table.summary.crcs_ok else table.take(table.crc_ok)
    if len(good):
        _add_bounds(survey, good.row(0), good.row(-1), int(good.max_timestamp.max()))
    for number in np.flatnonzero(~table.crc_ok).tolist():
        row = table.row(number)
        _add_damage(survey, row.position, row.size, "the CRC of a batch does not match", row.position + row.size)


def _add_marks(survey: SegmentSurvey, table: BatchTable) -> None:
    while True:
        wanted = survey.marks[-1] + _MARK_BYTES if survey.marks else 0
        row = int(np.searchsorted(table.position, wanted))
        if row == len(table):
            return
        before = table.last_offset[:row][table.crc_ok[:row]]
        _add_mark(survey, int(table.position[row]), int(before.max(initial=-1)))


def _add_mark(survey: SegmentSurvey, position: int, before: int = -1) -> None:
    """Add a mark. ``before`` is the largest offset before it in its window."""
    survey.marks.append(position)
    survey.mark_offsets.append(max(before, -1 if survey.last_offset is None else survey.last_offset))


def _add_large(survey: SegmentSurvey, row: BatchRow) -> None:
    survey.batches += 1
    survey.records += max(1, row.record_count)
    survey.largest_batch = max(survey.largest_batch, row.size)
    survey.codecs[_codec(codec_of(row.attributes))] += 1
    survey.formats[row.magic] += 1
    _add_mark(survey, row.position)
    if row.crc_ok:
        _add_bounds(survey, row, row, row.max_timestamp)
    else:
        _add_damage(survey, row.position, row.size, "the CRC of a batch does not match", row.position + row.size)


def _add_bounds(survey: SegmentSurvey, first: BatchRow, last: BatchRow, max_timestamp: int) -> None:
    if survey.first_offset is None:
        survey.first_offset = first.base_offset
        survey.first_timestamp = first.base_timestamp if first.base_timestamp >= 0 else first.max_timestamp
    survey.last_offset = last.last_offset
    survey.max_timestamp = max(max_timestamp, -1 if survey.max_timestamp is None else survey.max_timestamp)


def _add_damage(survey: SegmentSurvey, position: int, size: int, reason: str, next_position: int | None) -> None:
    survey.damage_count += 1
    damage = Damage(position=position, size=size, reason=reason, next_position=next_position)
    if len(survey.damages) < _MOST_DAMAGES:
        survey.damages.append(damage)
    else:
        survey.damages[-1] = damage


def _codec(number: int) -> str:
    return CODECS.get(number, f"unknown ({number})")
