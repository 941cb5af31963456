"""The fields of records (v2) and of messages (v0, v1), each with its bytes.

A record is read as far as it makes sense; then its ``problem`` has the position and the reason. Keys and values are
spans and not copied, so a record of 100 MB costs no more than a small one. Positions count from the beginning of the
source, which is a batch, or the decompressed records of one. The names are those of docs/format. Pure. Thread rule: any
thread. Source: Kafka's ``DefaultRecord``, ``LegacyRecord``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.inspect.batch_fields import INTEGER_BYTES, BatchHeader, ByteSource, Field, Problem
from tidelog.inspect.record_rows import iso_time
from tidelog.model import CorruptRecordError, TimestampType
from tidelog.record.attributes import timestamp_type_of
from tidelog.record.batch_header import PREFIX_BYTES, SMALLEST_LENGTHS
from tidelog.record.control import ControlType, control_type_id

_INT_BYTES: Final = 5
_LONG_BYTES: Final = 10
_MOST_HEADERS: Final = 200
_STEP_BYTES: Final = 64 * 1024
_CONTROL_BYTES: Final = 64


class Span(NamedTuple):
    """The bytes ``[start, end)`` of a key or a value."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class HeaderSpans(NamedTuple):
    """``value`` None is a null."""

    key: Span
    value: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBase:
    """The values of a batch that its records refer to. ``append_time`` is set with log append time."""

    offset: int = 0
    timestamp: int = -1
    append_time: int | None = None
    is_control: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFields:
    """A record or a message. Key and value are None if they are null, or lie after the problem."""

    number: int
    start: int
    end: int
    """The end by the record's length, within its batch."""
    fields: tuple[Field, ...]
    offset: int | None = None
    timestamp: int | None = None
    key: Span | None = None
    value: Span | None = None
    headers: tuple[HeaderSpans, ...] = ()
    header_count: int = 0
    """The number of all headers; ``headers`` has the first ones."""
    crc: int | None = None
    problem: Problem | None = None


class _NonsenseError(Exception):
    """Bytes that make no sense. Internal."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.problem = Problem(position, reason)


@dataclass(slots=True)
class _Reader:
    """A position in a source, and the fields before it."""

    source: ByteSource
    at: int
    end: int
    fields: list[Field] = field(default_factory=list)

    def integer(self, name: str, kind: str) -> int:
        start, end = self.at, self.at + INTEGER_BYTES[kind]
        data = self.source.read(start, min(end, self.end))
        if len(data) < end - start:
            raise _NonsenseError(start, f"the bytes end before {name}")
        value = int.from_bytes(data, "big", signed=kind != "uint32")
        return self._took(name, kind, end, value)

    def varint(self, name: str, most: int = _INT_BYTES) -> int:
        start = self.at
        number, length = _varint(self.source.read(start, min(start + most, self.end)))
        if length == 0:
            raise _NonsenseError(start, f"{name} is no varint")
        return self._took(name, "varint", start + length, number)

    def span(self, name: str, length: int, length_at: int) -> Span | None:
        """Take ``length`` bytes; -1 is null. Other negative lengths, and those above the rest, make no sense."""
        if length == -1:
            return None
        if not 0 <= length <= self.end - self.at:
            raise _NonsenseError(length_at, f"{name} has {length:,} bytes, but {self.end - self.at:,} are left")
        start = self.at
        if length:
            self._took(name, "bytes", start + length, None)
        return Span(start, start + length)

    def explain(self, meaning: str) -> None:
        """Add the meaning of the last field."""
        last = self.fields[-1]
        self.fields[-1] = Field(
            name=last.name, type=last.type, start=last.start, end=last.end, value=last.value, meaning=meaning
        )

    def _took(self, name: str, kind: str, end: int, value: int | None) -> int:
        self.fields.append(Field(name=name, type=kind, start=self.at, end=end, value=value))
        self.at = end
        return 0 if value is None else value


@dataclass(slots=True)
class _Draft:
    """The parts of a record that are known so far."""

    end: int
    offset: int | None = None
    timestamp: int | None = None
    key: Span | None = None
    value: Span | None = None
    headers: list[HeaderSpans] = field(default_factory=list)
    header_count: int = 0
    crc: int | None = None
    problem: Problem | None = None

    def finished(self, number: int, start: int, reader: _Reader) -> RecordFields:
        return RecordFields(
            number=number,
            start=start,
            end=max(self.end, reader.at),
            fields=tuple(reader.fields),
            offset=self.offset,
            timestamp=self.timestamp,
            key=self.key,
            value=self.value,
            headers=tuple(self.headers),
            header_count=self.header_count,
            crc=self.crc,
            problem=self.problem,
        )


def record_base(header: BatchHeader) -> RecordBase:
    """Return the values of a v2 batch that its records refer to."""
    is_append = header.timestamp_type is TimestampType.LOG_APPEND
    return RecordBase(
        offset=header.base_offset,
        timestamp=header.number("baseTimestamp"),
        append_time=header.max_timestamp if is_append else None,
        is_control=header.is_control,
    )


def read_record(source: ByteSource, start: int, end: int, *, number: int, base: RecordBase) -> RecordFields:
    """Read the v2 record at ``start``. ``end`` is the end of the batch's records."""
    reader = _Reader(source, start, end)
    draft = _Draft(start)
    try:
        length = reader.varint("length")
        reader.explain("bytes of the record after this field")
        if not 0 <= length <= end - reader.at:
            raise _NonsenseError(start, f"the record has {length:,} bytes, but its batch has {end - reader.at:,} left")
        reader.end = reader.at + length
        draft.end = reader.end
        _record_head(reader, base, draft)
        _record_body(reader, base, draft)
        if reader.at != reader.end:
            raise _NonsenseError(reader.at, f"{reader.end - reader.at:,} bytes follow the last field of the record")
    except _NonsenseError as nonsense:
        draft.problem = nonsense.problem
    return draft.finished(number, start, reader)


def read_message(source: ByteSource, start: int, end: int, *, number: int, shift: int = 0) -> RecordFields:
    """Read the v0 or v1 message at ``start``. ``shift`` is added to its offset, as the wrapper of a set wants it."""
    reader = _Reader(source, start, end)
    draft = _Draft(start)
    try:
        draft.offset = reader.integer("offset", "int64") + shift
        if shift:
            reader.explain(f"offset {draft.offset:,}, since the wrapper adds {shift:,}")
        size = reader.integer("messageSize", "int32")
        if not SMALLEST_LENGTHS[0] <= size <= end - reader.at:
            raise _NonsenseError(start + 8, f"the message has {size:,} bytes, but {end - reader.at:,} are left")
        reader.end = reader.at + size
        draft.end = reader.end
        draft.crc = reader.integer("crc", "uint32")
        magic = reader.integer("magic", "int8")
        if magic not in (0, 1):
            raise _NonsenseError(reader.at - 1, f"a message has the format version {magic}")
        attributes = reader.integer("attributes", "int8")
        draft.timestamp = -1
        if magic == 1:
            draft.timestamp = reader.integer("timestamp", "int64")
            reader.explain(f"{iso_time(draft.timestamp)}, {timestamp_type_of(attributes, magic).name.lower()} time")
        draft.key = _nullable(reader, "key")
        draft.value = _nullable(reader, "value")
    except _NonsenseError as nonsense:
        draft.problem = nonsense.problem
    return draft.finished(number, start, reader)


def record_starts(source: ByteSource, start: int, end: int, count: int) -> Iterator[int]:
    """Yield the position of each v2 record up to the first length that makes no sense, which is the last position."""
    at, held, held_at = start, b"", start
    for _ in range(count):
        if at >= end:
            return
        yield at
        if not held_at <= at <= held_at + len(held) - _INT_BYTES:
            held_at, held = at, source.read(at, min(at + _step(at, held_at, len(held)), end))
        here = at - held_at
        encoded = held[here] if here < len(held) else 0x80
        length = 1
        if encoded >= 0x80:
            number, length = _varint(held[here : here + _INT_BYTES])
        else:
            number = (encoded >> 1) ^ -(encoded & 1)
        if length == 0 or number < 0 or number > end - at - length:
            return
        at += length + number


def message_starts(source: ByteSource, start: int, end: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield position and stored offset of each message of a set. An incomplete message ends the set, as in Kafka."""
    at = start
    for _ in range(count):
        head = source.read(at, min(at + PREFIX_BYTES, end))
        if len(head) < PREFIX_BYTES:
            return
        size = int.from_bytes(head[8:], "big", signed=True)
        if size > end - at - PREFIX_BYTES:
            return
        yield at, int.from_bytes(head[:8], "big", signed=True)
        if size < SMALLEST_LENGTHS[0]:
            return
        at += PREFIX_BYTES + size


def _nullable(reader: _Reader, name: str) -> Span | None:
    """Read a message's key or value, of which each negative length is null."""
    length_at = reader.at
    length = reader.integer(f"{name}Length", "int32")
    if length < 0:
        reader.explain("null")
    return reader.span(name, max(length, -1), length_at)


def _record_head(reader: _Reader, base: RecordBase, draft: _Draft) -> None:
    reader.integer("attributes", "int8")
    reader.explain("unused")
    delta = reader.varint("timestampDelta", _LONG_BYTES)
    timestamp = base.timestamp + delta if base.append_time is None else base.append_time
    draft.timestamp = timestamp
    reader.explain(f"timestamp {iso_time(timestamp)}" + ("" if base.append_time is None else ", the append time"))
    delta = reader.varint("offsetDelta")
    draft.offset = base.offset + delta
    reader.explain(f"offset {base.offset + delta:,}")


def _record_body(reader: _Reader, base: RecordBase, draft: _Draft) -> None:
    draft.key = _string(reader, "key")
    draft.value = _string(reader, "value")
    if base.is_control:
        reader.fields = list(_with_control_fields(reader))
    headers_at = reader.at
    count = reader.varint("headersCount")
    if not 0 <= count <= reader.end - reader.at:
        raise _NonsenseError(headers_at, f"{count:,} headers do not fit into {reader.end - reader.at:,} bytes")
    draft.header_count = count
    for _ in range(min(count, _MOST_HEADERS)):
        length_at = reader.at
        key = reader.span("headerKey", reader.varint("headerKeyLength"), length_at)
        if key is None:
            raise _NonsenseError(length_at, "a header has no key")
        draft.headers.append(HeaderSpans(key, _string(reader, "headerValue")))
    if count > _MOST_HEADERS:
        reader.span(f"{count - _MOST_HEADERS:,} more headers", reader.end - reader.at, reader.at)


def _string(reader: _Reader, name: str) -> Span | None:
    length_at = reader.at
    length = reader.varint(f"{name}Length")
    if length == -1:
        reader.explain("null")
    return reader.span(name, length, length_at)


def _with_control_fields(reader: _Reader) -> Iterator[Field]:
    """Yield the fields, with those inside the key and the value of a control record in place of plain bytes."""
    kind: int | None = None
    for plain in reader.fields:
        if plain.name not in ("key", "value") or plain.end - plain.start > _CONTROL_BYTES:
            yield plain
            continue
        inner = _Reader(reader.source, plain.start, plain.end)
        try:
            if plain.name == "key":
                kind = control_type_id(reader.source.read(plain.start, plain.end))
                inner.integer("keyVersion", "int16")
                inner.integer("type", "int16")
                inner.explain(_control_name(kind))
            elif kind in (ControlType.ABORT, ControlType.COMMIT):
                inner.integer("valueVersion", "int16")
                inner.integer("coordinatorEpoch", "int32")
            inner.span(plain.name, inner.end - inner.at, inner.at)
            yield from inner.fields
        except (CorruptRecordError, _NonsenseError):
            yield plain


def _control_name(number: int) -> str:
    known = {int(member): member.name.lower().replace("_", " ") for member in ControlType}
    return known.get(number, "unknown") if number >= 0 else "unknown"


def _varint(data: bytes) -> tuple[int, int]:
    """Return the number at the beginning of ``data`` and its length in bytes, which is 0 if it is no varint."""
    if data and data[0] < 0x80:
        return (data[0] >> 1) ^ -(data[0] & 1), 1
    encoded = 0
    for place, byte in enumerate(data):
        encoded |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (encoded >> 1) ^ -(encoded & 1), place + 1
    return 0, 0


def _step(at: int, held_at: int, held: int) -> int:
    """Return the number of bytes to read next: few after a jump over a large record, else many."""
    return _STEP_BYTES if at <= held_at + held + _STEP_BYTES or not held else 4096
