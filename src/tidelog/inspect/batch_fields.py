"""The fields of a batch's header, each with its bytes, its value and its meaning.

A header is read as far as it goes: damaged bytes give the fields before the damage, and a problem with its position.
Positions count from the batch's first byte. The names are those of docs/format. ``record_fields`` has the fields of
records and messages. Pure. Thread rule: any thread. Source: Kafka's ``DefaultRecordBatch``, ``LegacyRecord``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.inspect.record_rows import iso_time
from tidelog.model import TimestampType
from tidelog.record.attributes import (
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    codec_of,
    timestamp_type_of,
)
from tidelog.record.batch_header import (
    ATTRIBUTES_AT,
    CURRENT_MAGIC,
    LENGTH_AT,
    MAGIC_AT,
    MAX_SEQUENCE,
    PREFIX_BYTES,
    SMALLEST_LENGTHS,
    V2_HEADER_BYTES,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

INTEGER_BYTES: Final[Mapping[str, int]] = {"int8": 1, "int16": 2, "int32": 4, "uint32": 4, "int64": 8}
_LONG_MAX: Final = 2**63 - 1
_V2: Final = (
    ("baseOffset", "int64"),
    ("batchLength", "int32"),
    ("partitionLeaderEpoch", "int32"),
    ("magic", "int8"),
    ("crc", "uint32"),
    ("attributes", "int16"),
    ("lastOffsetDelta", "int32"),
    ("baseTimestamp", "int64"),
    ("maxTimestamp", "int64"),
    ("producerId", "int64"),
    ("producerEpoch", "int16"),
    ("baseSequence", "int32"),
    ("recordsCount", "int32"),
)
_V0: Final = (
    ("offset", "int64"),
    ("messageSize", "int32"),
    ("crc", "uint32"),
    ("magic", "int8"),
    ("attributes", "int8"),
)
_V1: Final = (*_V0, ("timestamp", "int64"))
_LAYOUTS: Final = {0: _V0, 1: _V1, 2: _V2}
_LEGACY_CRC_FROM: Final = 16


class ByteSource(Protocol):
    """Bytes that are read piece by piece."""

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``, fewer after the end of the source."""
        ...


class HeldBytes:
    """Bytes in memory as a source."""

    def __init__(self, data: Buffer) -> None:
        self._view = memoryview(data).cast("B")

    def __len__(self) -> int:
        return len(self._view)

    def read(self, start: int, end: int) -> bytes:
        return bytes(self._view[start:end])


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """``value`` is None for keys, values and other plain bytes. ``meaning`` is a clause for people."""

    name: str
    type: str
    start: int
    end: int
    value: int | None = None
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A position at which the bytes stop making sense, and a clause with the reason."""

    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeBits:
    """Some bits of the attributes, such as ``2..0``."""

    bits: str
    name: str
    value: int
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """``problems`` is empty for a header that does not contradict itself."""

    fields: tuple[Field, ...]
    values: Mapping[str, int]
    """The values of the fields by name."""
    problems: tuple[Problem, ...] = ()

    def number(self, name: str, default: int = -1) -> int:
        """Return a field's value, or the default if the bytes end before it."""
        return self.values.get(name, default)

    @property
    def magic(self) -> int:
        """The format version; -1 if it is missing or unknown."""
        magic = self.number("magic")
        return magic if magic in _LAYOUTS else -1

    @property
    def is_complete(self) -> bool:
        """True if all fields of the header are present."""
        return self.magic >= 0 and len(self.fields) == len(_LAYOUTS[self.magic])

    @property
    def is_legacy(self) -> bool:
        return 0 <= self.magic < CURRENT_MAGIC

    @property
    def size(self) -> int:
        """The bytes of the complete batch by its length field; -1 if no batch can have that length."""
        length = self.number("messageSize" if self.is_legacy else "batchLength")
        return PREFIX_BYTES + length if self.magic >= 0 and length >= SMALLEST_LENGTHS[self.magic] else -1

    @property
    def attributes(self) -> int:
        return self.number("attributes", 0)

    @property
    def codec(self) -> int:
        return codec_of(self.attributes)

    @property
    def base_offset(self) -> int:
        """The offset field; in v0 and v1 that is the last message's offset."""
        return self.number("offset" if self.is_legacy else "baseOffset")

    @property
    def last_offset(self) -> int:
        return self.base_offset + (0 if self.is_legacy else self.number("lastOffsetDelta", 0))

    @property
    def is_control(self) -> bool:
        return self.magic == CURRENT_MAGIC and bool(self.attributes & CONTROL_FLAG)

    @property
    def timestamp_type(self) -> TimestampType:
        return timestamp_type_of(self.attributes, max(self.magic, 0))

    @property
    def max_timestamp(self) -> int:
        return self.number("timestamp" if self.is_legacy else "maxTimestamp")

    @property
    def crc_from(self) -> int:
        """The position of the first byte that the CRC covers. It covers all bytes from there on."""
        return _LEGACY_CRC_FROM if self.is_legacy else ATTRIBUTES_AT

    @property
    def records_at(self) -> int:
        """The position after the header: records in v2, the key's length in v0 and v1."""
        return self.fields[-1].end if self.is_legacy else V2_HEADER_BYTES


def read_batch_header(data: Buffer, *, available: int | None = None) -> BatchHeader:
    """Read the header at the beginning of ``data``. ``available`` is the number of bytes up to the end of the file."""
    view = memoryview(data).cast("B")
    layout = _LAYOUTS.get(view[MAGIC_AT] if len(view) > MAGIC_AT else CURRENT_MAGIC)
    names = _V2[:4] if layout is None else layout
    fields = list(_integers(view, names))
    values = {field.name: field.value for field in fields if field.value is not None}
    header = BatchHeader(fields=tuple(fields), values=values)
    explained = tuple(replace(field, meaning=_meaning(field.name, header, values)) for field in fields)
    rest = len(view) if available is None else available
    return BatchHeader(
        fields=explained, values=values, problems=tuple(_problems(header, rest, is_known=layout is not None))
    )


def attribute_bits(attributes: int, magic: int) -> Sequence[AttributeBits]:
    """Explain the attributes bit by bit, as the format version defines them."""
    codec = codec_of(attributes)
    name = CODECS.get(codec)
    bits = [
        AttributeBits(
            bits="2..0",
            name="compression",
            value=codec,
            meaning=f"codec {name}" if name else "Kafka defines no such codec",
        )
    ]
    unused = 3
    if magic >= 1:
        is_append = bool(attributes & TIMESTAMP_TYPE_FLAG)
        meaning = "log append time: the broker set the timestamps" if is_append else "create time: the producer's clock"
        bits.append(AttributeBits(bits="3", name="timestamp type", value=int(is_append), meaning=meaning))
        unused = 4
    if magic >= CURRENT_MAGIC:
        bits += [
            _flag(attributes, TRANSACTIONAL_FLAG, "4", "transactional", "in a transaction", "in no transaction"),
            _flag(attributes, CONTROL_FLAG, "5", "control", "written by the broker: no data", "records of a client"),
            _flag(
                attributes,
                DELETE_HORIZON_FLAG,
                "6",
                "delete horizon",
                "baseTimestamp is the time from which the cleaner may remove tombstones and markers (KIP-534)",
                "baseTimestamp is a time of records",
            ),
        ]
        unused = 7
    width = 16 if magic >= CURRENT_MAGIC else 8
    rest = (attributes & ((1 << width) - 1)) >> unused
    meaning = "unused" if not rest else "unused, but not 0"
    bits.append(AttributeBits(bits=f"{width - 1}..{unused}", name="unused", value=rest, meaning=meaning))
    return bits


def _flag(attributes: int, flag: int, bit: str, name: str, if_set: str, if_clear: str) -> AttributeBits:
    is_set = bool(attributes & flag)
    return AttributeBits(bits=bit, name=name, value=int(is_set), meaning=if_set if is_set else if_clear)


def _integers(view: memoryview, layout: Sequence[tuple[str, str]]) -> Iterator[Field]:
    at = 0
    for name, kind in layout:
        end = at + INTEGER_BYTES[kind]
        if end > len(view):
            return
        value = int.from_bytes(view[at:end], "big", signed=kind != "uint32")
        yield Field(name=name, type=kind, start=at, end=end, value=value)
        at = end


def _problems(header: BatchHeader, available: int, *, is_known: bool) -> Iterator[Problem]:
    if not is_known:
        yield Problem(MAGIC_AT, f"the format version (magic) is {header.number('magic')}, which Kafka does not know")
        return
    if not header.is_complete:
        end = header.fields[-1].end if header.fields else 0
        yield Problem(end, f"only {available:,} bytes are left in the file, too few for the header")
        return
    if header.size < 0:
        length = header.number("messageSize" if header.is_legacy else "batchLength")
        least = SMALLEST_LENGTHS[header.magic]
        yield Problem(LENGTH_AT, f"the length {length:,} is below {least}, the smallest of this format")
    elif header.size > available:
        yield Problem(LENGTH_AT, f"the batch has {header.size:,} bytes, but only {available:,} are left in the file")
    if header.base_offset < 0:
        yield Problem(0, f"the offset {header.base_offset} is negative")
    if not header.is_legacy:
        yield from _v2_problems(header)


def _v2_problems(header: BatchHeader) -> Iterator[Problem]:
    places = {field.name: field.start for field in header.fields}
    delta, count = header.number("lastOffsetDelta"), header.number("recordsCount")
    if delta < 0 or header.last_offset > _LONG_MAX:
        yield Problem(places["lastOffsetDelta"], f"the last offset delta {delta} gives no offset")
    if count < 0 or count > delta + 1:
        yield Problem(places["recordsCount"], f"{count:,} records do not fit the offset delta {delta:,}")


def _meaning(name: str, header: BatchHeader, values: Mapping[str, int]) -> str:
    value = values[name]
    match name:
        case "baseOffset":
            return "offset of the first record, also if the cleaner has removed it"
        case "offset":
            wrapper = "; the last message's, since this one wraps a compressed set" if header.codec else ""
            return f"offset of the message{wrapper}"
        case "batchLength" | "messageSize":
            return f"bytes after this field; {value + PREFIX_BYTES:,} bytes in all"
        case "partitionLeaderEpoch":
            return "epoch of the leader that appended the batch; the CRC does not cover it"
        case "magic":
            return f"format version v{value}" if header.magic >= 0 else "unknown format version"
        case "crc":
            kind = "CRC-32" if header.is_legacy else "CRC-32C"
            return f"{kind} of the bytes from position {header.crc_from} of the batch on"
        case "attributes":
            return f"flags: {value & 0xFFFF:#06x}; codec {CODECS.get(value & CODEC_MASK, 'unknown')}"
        case "lastOffsetDelta":
            return f"last offset {values['baseOffset'] + value:,}"
        case "baseTimestamp" if header.attributes & DELETE_HORIZON_FLAG:
            return f"delete horizon {iso_time(value)}; the records' deltas count from it"
        case "baseTimestamp":
            return f"{iso_time(value)}; the records' deltas count from it"
        case "maxTimestamp" | "timestamp":
            is_append = header.timestamp_type is TimestampType.LOG_APPEND
            return f"{iso_time(value)}, " + ("the time of the append" if is_append else "the largest of the records")
        case "producerId":
            return "no idempotent producer" if value == -1 else "id that the coordinator gave to the producer"
        case "producerEpoch":
            return "no idempotent producer" if value == -1 else "epoch, which fences older instances of the producer"
        case "baseSequence":
            last = (value + values["lastOffsetDelta"]) & MAX_SEQUENCE
            return "no sequence" if value == -1 else f"sequence of the first record; the last one is {last:,}"
        case "recordsCount":
            return "records in the batch; fewer than offsets if the cleaner has removed some"
    return ""
