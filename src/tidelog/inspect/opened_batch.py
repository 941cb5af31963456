"""A batch with the places of its records, decompressed if need be, also if it is damaged.

``open_batch`` never fails: a batch that cannot be opened has no records, and a problem with the reason. Records lie in
``source``: in the batch itself, or in its decompressed bytes. Reads only. Thread rule: one thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from tidelog.inspect.batch_fields import BatchHeader, ByteSource, HeldBytes, Problem, read_batch_header
from tidelog.inspect.batch_walk import LARGE_BYTES, FileBytes
from tidelog.inspect.record_fields import (
    RecordBase,
    RecordFields,
    Span,
    message_starts,
    read_message,
    read_record,
    record_base,
    record_starts,
)
from tidelog.inspect.record_scan import MAX_DECOMPRESSED_BYTES
from tidelog.model import CorruptRecordError, UnsupportedCompressionError
from tidelog.record.attributes import CODECS, NONE
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.record.codec.limit import PayloadTooLargeError
from tidelog.record.compression import decompress
from tidelog.storage.segment.segment_reader import SegmentReader

if TYPE_CHECKING:
    from typing_extensions import Buffer

MOST_RECORDS: Final = 100_000
_MOST_OF_LARGE: Final = 10_000
_NO_BASE: Final = RecordBase()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBatch:
    """``problem`` tells where the records stop making sense, in the positions of ``source``, or of the batch if there
    is no source."""

    header: BatchHeader
    batch: ByteSource
    size: int
    """The bytes of the batch that the file has."""
    source: ByteSource | None = None
    source_size: int = 0
    is_decompressed: bool = False
    compressed: Span | None = None
    """The compressed bytes in the batch."""
    starts: Sequence[int] = ()
    """The position of each record in ``source``; at most ``MOST_RECORDS``."""
    records_end: int = 0
    base: RecordBase = _NO_BASE
    shift: int = 0
    """The number that a wrapper of v1 adds to the offsets inside."""
    problem: Problem | None = None

    @property
    def records_at(self) -> int:
        """The position of the first record in ``source``."""
        return 0 if self.is_decompressed or self.header.is_legacy else V2_HEADER_BYTES

    def numbers_in(self, start: int, end: int) -> range:
        """Return the numbers of the records with bytes in ``[start, end)`` of the source."""
        first = bisect_right(self.starts, start) - 1
        return range(max(0, first), bisect_left(self.starts, end))

    def record(self, number: int) -> RecordFields:
        """Read a record by its number among ``starts``."""
        assert self.source is not None
        start = self.starts[number]
        if self.header.is_legacy:
            return read_message(self.source, start, self.records_end, number=number, shift=self.shift)
        return read_record(self.source, start, self.records_end, number=number, base=self.base)


def open_batch(reader: SegmentReader, position: int, *, end: int | None = None) -> OpenedBatch:
    """Open the batch at ``position``, as far as it goes. ``end`` bounds the bytes that may belong to it."""
    available = max(0, (reader.size if end is None else end) - position)
    header = read_batch_header(reader.read(position, min(V2_HEADER_BYTES, available)), available=available)
    size = min(header.size, available) if header.size >= 0 else available
    source: ByteSource = FileBytes(reader, position, size)
    if size <= LARGE_BYTES:
        source = HeldBytes(bytes(reader.read(position, size)))
    if not header.is_complete or header.size < 0:
        return OpenedBatch(header=header, batch=source, size=size)
    try:
        return _legacy(header, source, size) if header.is_legacy else _current(header, source, size)
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        at = header.records_at
        return OpenedBatch(header=header, batch=source, size=size, problem=Problem(at, error.message))


def _current(header: BatchHeader, batch: ByteSource, size: int) -> OpenedBatch:
    count = max(0, header.number("recordsCount"))
    span = Span(V2_HEADER_BYTES, size)
    if header.codec == NONE or not count:
        source, start, end = batch, span.start, size
    else:
        source = HeldBytes(_plain(header, batch, span))
        start, end = 0, len(source)
    most = MOST_RECORDS if size <= LARGE_BYTES else _MOST_OF_LARGE
    starts = list(islice(record_starts(source, start, end, count), most))
    opened = OpenedBatch(
        header=header,
        batch=batch,
        size=size,
        source=source,
        source_size=end,
        is_decompressed=source is not batch,
        compressed=None if source is batch else span,
        starts=starts,
        records_end=end,
        base=record_base(header),
    )
    return _with_problem(opened, count) if len(starts) < most else opened


def _legacy(header: BatchHeader, batch: ByteSource, size: int) -> OpenedBatch:
    outer = read_message(batch, 0, size, number=0)
    alone = OpenedBatch(
        header=header,
        batch=batch,
        size=size,
        source=batch,
        source_size=size,
        starts=(0,),
        records_end=size,
        problem=outer.problem,
    )
    if header.codec == NONE or outer.problem is not None:
        return alone
    if outer.value is None:
        return replace(alone, problem=Problem(header.records_at, "a compressed message has no value"))
    plain = HeldBytes(_plain(header, batch, outer.value))
    found = list(islice(message_starts(plain, 0, len(plain), MOST_RECORDS), MOST_RECORDS))
    last = found[-1][1] if found else 0
    shift = header.base_offset - last if header.magic == 1 and header.base_offset else 0
    opened = OpenedBatch(
        header=header,
        batch=batch,
        size=size,
        source=plain,
        source_size=len(plain),
        is_decompressed=True,
        compressed=outer.value,
        starts=[start for start, _ in found],
        records_end=len(plain),
        shift=shift,
    )
    if not found:
        return replace(opened, problem=Problem(0, "a compressed message holds no messages"))
    if shift < 0:
        reason = f"the wrapper's offset {header.base_offset:,} is below {last:,}, that of the last message inside"
        return replace(opened, problem=Problem(found[-1][0], reason))
    return replace(opened, problem=opened.record(len(found) - 1).problem)


def _plain(header: BatchHeader, batch: ByteSource, span: Span) -> Buffer:
    """Return the decompressed bytes of a span. Raise CorruptRecordError or UnsupportedCompressionError."""
    name = CODECS.get(header.codec, "unknown")
    if span.size > LARGE_BYTES:
        raise CorruptRecordError(f"{span.size:,} bytes of {name} data are too many to be decompressed here")
    data = memoryview(batch.read(span.start, span.end))
    try:
        return decompress(header.codec, data, magic=header.magic, max_bytes=MAX_DECOMPRESSED_BYTES)
    except PayloadTooLargeError:
        reason = f"the {name} data decompresses to more than {MAX_DECOMPRESSED_BYTES:,} bytes, too many to be shown"
        raise CorruptRecordError(reason) from None


def _with_problem(opened: OpenedBatch, count: int) -> OpenedBatch:
    """Add the problem of a batch whose records do not end where the batch does."""
    starts = opened.starts
    last = opened.record(len(starts) - 1) if starts else None
    at = opened.records_at if last is None else last.end
    problem = None if last is None else last.problem
    if problem is None and len(starts) < count:
        problem = Problem(at, f"the bytes end after {len(starts):,} of {count:,} records")
    elif problem is None and at < opened.records_end:
        problem = Problem(at, f"{opened.records_end - at:,} bytes follow the last record")
    return replace(opened, problem=problem)
