"""The fields of batches and records, compared with the texts of Kafka's own ``kafka-dump-log`` and with docs/format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import EVERYTHING, FORMATS, LARGE_SETS
from log_maker import batch, plain, varint
from project.format_pages import INTEGERS, Example, examples
from tidelog.inspect.batch_fields import attribute_bits, read_batch_header
from tidelog.inspect.opened_batch import OpenedBatch, open_batch
from tidelog.inspect.record_fields import RecordFields
from tidelog.kernel import crc32c
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.record.legacy import read_messages
from tidelog.storage.fs import LOCAL
from tidelog.storage.segment.segment_reader import SegmentReader

PAGES = Path(__file__).parents[2] / "docs" / "format"
FILE = re.compile(r"^Dumping (\S+\.log)$", re.MULTILINE)
BATCH = re.compile(
    r"baseOffset: (\S+) lastOffset: (\S+) count: (\S+) baseSequence: (\S+) lastSequence: \S+ producerId: (\S+)"
    r" producerEpoch: (\S+) partitionLeaderEpoch: (\S+) isTransactional: (\S+) isControl: (\S+) deleteHorizonMs: (\S+)"
    r" position: (\d+) (CreateTime|LogAppendTime): (\S+) size: (\S+) magic: 2 compresscodec: (\S+) crc: (\S+)"
)
RECORD = re.compile(
    r"\| offset: (\S+) (?:CreateTime|LogAppendTime): (\S+) keySize: (\S+) valueSize: (\S+) sequence: (\S+)"
    r" headerKeys: \[(.*?)\](?= key:| payload:|$| endTxnMarker| [A-Z])"
)
KINDS = {"text": "bytes"}
"""The type of a page's example by that of a field."""


def batch_line(opened: OpenedBatch, position: int) -> tuple[str, ...]:
    """Return the values of a batch in the sequence of the pattern BATCH."""
    header = opened.header
    number = header.number
    bits = {one.name: one for one in attribute_bits(header.attributes, 2)}
    horizon = f"OptionalLong[{number('baseTimestamp')}]" if bits["delete horizon"].value else "OptionalLong.empty"
    shown = (
        number("baseOffset"),
        header.last_offset,
        number("recordsCount"),
        number("baseSequence"),
        number("producerId"),
        number("producerEpoch"),
        number("partitionLeaderEpoch"),
        "true" if bits["transactional"].value else "false",
        "true" if bits["control"].value else "false",
        horizon,
        position,
        "LogAppendTime" if bits["timestamp type"].value else "CreateTime",
        number("maxTimestamp"),
        header.size,
        bits["compression"].meaning.removeprefix("codec "),
        number("crc"),
    )
    return tuple(map(str, shown))


def record_line(opened: OpenedBatch, record: RecordFields) -> tuple[str, ...]:
    """Return the values of a record in the sequence of the pattern RECORD."""
    assert opened.source is not None
    assert record.problem is None
    assert record.offset is not None
    first = opened.header.number("baseSequence")
    sequence = -1 if first < 0 else (first + record.offset - opened.header.base_offset) % 2**31
    keys = [opened.source.read(*header.key).decode() for header in record.headers]
    sizes = [-1 if span is None else span.size for span in (record.key, record.value)]
    return (*map(str, (record.offset, record.timestamp, *sizes, sequence)), ",".join(keys))


def dumped_files(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each ``.log`` of a dump."""
    text = path.read_bytes().decode()
    parts = re.split(r"^Dumping (\S+)$", text, flags=re.MULTILINE)[1:]
    for name, content in zip(parts[::2], parts[1::2], strict=True):
        if name.endswith(".log"):
            yield name, content


@pytest.mark.parametrize(
    "set_name", [EVERYTHING["4.4"], *(pytest.param(name, marks=pytest.mark.heavy) for name in LARGE_SETS)]
)
def test_all_batches_and_records_are_those_of_kafkas_dump(set_name: str, golden: GoldenFactory) -> None:
    clean, dumps = golden(set_name), golden(set_name, "dump-clean")
    compared = 0
    for name, text in chain.from_iterable(dumped_files(path) for path in sorted(dumps.glob("*.txt"))):
        path = clean / name
        position = 0
        lines = [line for line in text.splitlines() if line.startswith(("baseOffset", "| offset"))]
        with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
            shown: list[tuple[str, ...]] = []
            while position < reader.size:
                opened = open_batch(reader, position)
                assert opened.problem is None
                assert not opened.header.problems
                shown.append(batch_line(opened, position))
                shown += [record_line(opened, opened.record(number)) for number in range(len(opened.starts))]
                check_ranges(opened)
                position += opened.header.size
        expected = [(BATCH if line.startswith("base") else RECORD).match(line) for line in lines]
        assert [match and match.groups() for match in expected] == shown, name
        compared += len(shown)
    assert compared > 1000


def check_ranges(opened: OpenedBatch) -> None:
    """Compare the ranges of the fields with each other: no byte is missing, and none belongs to two fields."""
    assert [field.start for field in opened.header.fields[1:]] == [field.end for field in opened.header.fields[:-1]]
    at = opened.starts[0] if opened.starts else opened.records_end
    for number in range(len(opened.starts)):
        for field in opened.record(number).fields:
            assert field.start == at
            at = field.end
    assert at == opened.records_end


def format_examples() -> list[Example]:
    """Return the examples of docs/format that begin with a complete header of a batch or a message."""
    pages = ("record-batch-v2.md", "control-records.md", "message-v0-v1.md")
    found = chain.from_iterable(examples(PAGES / page) for page in pages)
    return [one for one in found if one.fields and one.fields[0].name in ("baseOffset", "offset")]


@pytest.mark.parametrize("example", format_examples(), ids=lambda one: f"{one.page.stem}-{one.position}")
def test_names_types_and_bytes_are_those_of_the_format_pages(example: Example, golden: GoldenFactory) -> None:
    set_name, kind, file = example.file.split("/", 2)
    path = golden(set_name, kind) / file
    with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
        opened = open_batch(reader, example.position)
        data = reader.read(example.position, opened.size)
    fields = list(opened.header.fields)
    if not opened.is_decompressed:
        records = [field for number in range(len(opened.starts)) for field in opened.record(number).fields]
        fields = records if opened.header.is_legacy else fields + records
    shown = [
        (field.name, field.type, bytes(data[field.start : field.end]), field.value)
        for field in fields[: len(example.fields)]
    ]
    expected = [
        (
            one.name,
            KINDS.get(one.type, one.type),
            one.data,
            int(one.decoded()) if one.type in (*INTEGERS, "varint") else None,
        )
        for one in example.fields[: len(shown)]
    ]
    assert shown == expected
    assert len(shown) >= 5


def test_messages_of_old_formats_are_those_of_the_reader(golden: GoldenFactory) -> None:
    compared = 0
    for path in sorted(golden(FORMATS).glob("v*/*.log")):
        with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
            for row in reader.table().rows():
                opened = open_batch(reader, row.position)
                assert opened.problem is None
                assert opened.source is not None
                messages = read_messages(reader.read(row.position, row.size))
                shown = [opened.record(number) for number in range(len(opened.starts))]
                assert [one.offset for one in shown] == [message.offset for message in messages]
                assert [one.crc for one in shown] == [message.crc for message in messages]
                for one, message in zip(shown, messages, strict=True):
                    for span, data in ((one.key, message.key), (one.value, message.value)):
                        assert (None if span is None else opened.source.read(*span)) == data
                check_ranges(opened)
                compared += len(shown)
    assert compared > 500


def opened_bytes(tmp_path: Path, data: bytes) -> OpenedBatch:
    """Write a segment with these bytes, and open the batch at its beginning."""
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    with SegmentReader(LOCAL, tmp_path, 0) as reader:
        return open_batch(reader, 0)


def test_each_truncated_batch_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    data = plain(5, 3)
    whole = opened_bytes(tmp_path, data)
    for length in range(len(data)):
        opened = opened_bytes(tmp_path, data[:length])
        count = len(opened.header.fields)
        assert opened.header.fields == whole.header.fields[:count]
        assert opened.header.problems
        assert opened.header.problems[0].position <= max(length, 8)
        if length >= V2_HEADER_BYTES:
            assert count == len(whole.header.fields)
            assert opened.problem is not None
            assert V2_HEADER_BYTES <= opened.problem.position <= length


def test_no_flipped_byte_makes_the_reader_fail(tmp_path: Path) -> None:
    data = batch(5, [b"value", None, b""], attributes=0x30, producer_id=4)
    clean = opened_bytes(tmp_path, data)
    assert clean.problem is None
    for at in range(len(data)):
        for value in (0x00, 0x7F, 0x80, 0xFF):
            damaged = data[:at] + bytes([value]) + data[at + 1 :]
            opened = opened_bytes(tmp_path, damaged)
            for number in range(len(opened.starts)):
                opened.record(number)


@pytest.mark.parametrize(
    ("damage", "position", "reason"),
    [
        (lambda data: data[:8] + b"\0\0\0\x05" + data[12:], 8, "the length 5 is below 49"),
        (lambda data: data[:16] + b"\x07" + data[17:], 16, "(magic) is 7"),
        (lambda data: data[:57] + b"\x7f\xff\xff\xff" + data[61:], 57, "do not fit the offset delta"),
        (lambda data: data[:23] + b"\xff\xff\xff\xfe" + data[27:], 23, "the last offset delta -2"),
        (lambda data: b"\xff" + data[1:], 0, "is negative"),
        (lambda data: data[:-1], 8, "are left in the file"),
    ],
)
def test_header_problems_have_a_position_and_a_reason(damage: object, position: int, reason: str) -> None:
    header = read_batch_header(damage(plain(5, 3)))  # type: ignore[operator]
    assert any(one.position == position and reason in one.reason for one in header.problems), header.problems


def one_record(body: bytes) -> bytes:
    """Build a batch of one record whose bytes after its length are these."""
    data = bytearray(plain(0, 1)[:V2_HEADER_BYTES] + varint(len(body)) + body)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("body", "at", "reason"),
    [
        (b"\0\0\0" + varint(99) + b"key", 3, "key has 99 bytes, but 3 are left"),
        (b"\0\0\0" + varint(-1) + varint(-7), 4, "value has -7 bytes"),
        (b"\0\0\0" + varint(-1) + varint(-1) + varint(500), 5, "500 headers do not fit"),
        (b"\0\0\0" + varint(-1) + varint(-1) + varint(1) + varint(-1) + varint(-1), 6, "a header has no key"),
        (b"\0\0\0" + varint(-1) + varint(-1) + varint(0) + b"rest", 6, "4 bytes follow the last field"),
        (b"\0" + b"\xff" * 11, 1, "timestampDelta is no varint"),
    ],
)
def test_a_record_is_read_up_to_the_damage(body: bytes, at: int, reason: str, tmp_path: Path) -> None:
    opened = opened_bytes(tmp_path, one_record(body))
    assert not opened.header.problems
    assert opened.problem is not None
    assert opened.problem.position == V2_HEADER_BYTES + 1 + at
    assert reason in opened.problem.reason
    assert opened.record(0).problem == opened.problem


def test_a_record_of_a_length_that_does_not_fit_ends_the_list(tmp_path: Path) -> None:
    data = bytearray(plain(0, 3))
    second = opened_bytes(tmp_path, bytes(data)).starts[1]
    data[second] = 0x7F
    opened = opened_bytes(tmp_path, bytes(data))
    assert list(opened.starts)[-1] == second
    assert opened.problem is not None
    assert opened.problem.position == second


def test_very_many_headers_are_not_all_read(tmp_path: Path) -> None:
    headers = (varint(1) + b"k" + varint(-1)) * 5000
    opened = opened_bytes(tmp_path, one_record(b"\0\0\0" + varint(-1) + varint(-1) + varint(5000) + headers))
    record = opened.record(0)
    assert record.problem is None
    assert record.header_count == 5000
    assert len(record.headers) == 200
    assert record.fields[-1].name == "4,800 more headers"
    check_ranges(opened)


def test_a_compressed_batch_with_garbage_has_a_problem(golden: GoldenFactory, tmp_path: Path) -> None:
    path = next(golden(EVERYTHING["4.4"]).glob("gzip-0/*.log"))
    with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
        row = next(row for row in reader.table().rows() if row.attributes & 7)
        data = bytearray(reader.read(row.position, row.size))
    data[V2_HEADER_BYTES + 20 : V2_HEADER_BYTES + 40] = bytes(20)
    opened = opened_bytes(tmp_path, bytes(data))
    assert opened.source is None
    assert opened.problem is not None
    assert "gzip" in opened.problem.reason


def test_every_attribute_bit_has_a_row() -> None:
    for magic, width in ((0, 8), (1, 8), (2, 16)):
        for attributes in range(1 << width if width == 8 else 256):
            bits = attribute_bits(attributes, magic)
            total = 0
            for one in bits:
                high, _, low = one.bits.partition("..")
                total |= one.value << int(low or high)
            assert total == attributes
    assert read_batch_header(b"").fields == ()
