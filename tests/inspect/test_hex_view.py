"""Rows of hex with the names of fields, and the bytes that are hidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from log_maker import CONTROL, batch, plain
from tidelog.inspect.batch_masks import hidden_in_batch, hidden_in_records
from tidelog.inspect.hex_view import NamedSpan, hex_rows
from tidelog.inspect.opened_batch import OpenedBatch, open_batch
from tidelog.model import Record, TimestampType
from tidelog.record.build import build_batch
from tidelog.record.internal_records.defaults import with_defaults
from tidelog.record.internal_records.frames import encode_framed
from tidelog.record.internal_records.metadata_tables import METADATA_TYPES
from tidelog.storage.fs import LOCAL
from tidelog.storage.segment.segment_reader import SegmentReader


def test_rows_have_16_bytes_and_the_fields_that_touch_them() -> None:
    spans = [NamedSpan(100, 104, "a"), NamedSpan(104, 120, "b"), NamedSpan(120, 121, "c")]
    rows = hex_rows(bytes(range(40, 70)), 100, spans)
    assert [row.position for row in rows] == [100, 116]
    assert rows[0].hex == "28 29 2a 2b 2c 2d 2e 2f  30 31 32 33 34 35 36 37"
    assert rows[0].text == "()*+,-./01234567"
    assert [row.fields for row in rows] == [("a", "b"), ("b", "c")]
    assert rows[1].hex == "38 39 3a 3b 3c 3d 3e 3f  40 41 42 43 44 45"


def test_many_fields_of_a_row_are_counted() -> None:
    rows = hex_rows(bytes(16), 0, [NamedSpan(n, n + 1, str(n)) for n in range(16)])
    assert rows[0].fields[-1] == "4 more"
    assert len(rows[0].fields) == 13


def test_hidden_bytes_are_dots() -> None:
    rows = hex_rows(b"secret--", 10, [], [(5, 12), (16, 99)])
    assert rows[0].hex == "·· ·· 63 72 65 74 ·· ··"
    assert rows[0].text == "··cret··"


def metadata(name: str, /, **fields: Any) -> bytes:
    message = next(one for one in METADATA_TYPES.values() if one.name == name)
    version = message.versions.last
    return encode_framed(message, with_defaults(message, fields, version), version)


SECRET = metadata("UserScramCredentialRecord", name="bob", mechanism=1, salt=b"SALT", storedKey=b"K", iterations=1)
PUBLIC = metadata("TopicRecord", name="public-topic")


def opened(tmp_path: Path, data: bytes) -> OpenedBatch:
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    with SegmentReader(LOCAL, tmp_path, 0) as reader:
        return open_batch(reader, 0)


def visible(found: OpenedBatch) -> bytes:
    """Return all bytes of the batch and of its records that a page shows."""
    assert found.size
    data = bytearray(found.batch.read(0, found.size))
    hidden = hidden_in_batch(found)
    if found.source is found.batch:
        hidden += hidden_in_records(found, 0, found.size)
    elif found.source is not None:
        plain_bytes = bytearray(found.source.read(0, found.source_size))
        for start, end in hidden_in_records(found, 0, found.source_size):
            plain_bytes[start:end] = bytes(len(plain_bytes[start:end]))
        data += plain_bytes
    for start, end in hidden:
        data[start:end] = bytes(len(data[start:end]))
    return bytes(data)


def test_only_values_with_secrets_are_hidden(tmp_path: Path) -> None:
    shown = visible(opened(tmp_path, batch(0, [PUBLIC, SECRET, PUBLIC], key=None)))
    assert b"SALT" not in shown
    assert shown.count(b"public-topic") == 2


def test_compressed_secrets_are_hidden_in_both_views(tmp_path: Path) -> None:
    records = [Record(n, 1, TimestampType.CREATE, None, value) for n, value in enumerate((PUBLIC, SECRET))]
    data = bytes(build_batch(records, base_offset=0, codec="lz4"))
    assert b"SALT" in data
    shown = visible(opened(tmp_path, data))
    assert b"SALT" not in shown
    assert b"public-topic" in shown


@pytest.mark.parametrize("damage", [61, 62, 66, 90, 120])
def test_damaged_secrets_are_hidden(tmp_path: Path, damage: int) -> None:
    data = bytearray(batch(0, [PUBLIC, SECRET], key=None))
    for value in (0x00, 0x7F, 0xFF):
        data[damage] = value
        for end in (len(data), len(data) - 3):
            found = opened(tmp_path, bytes(data[:end]))
            if found.problem is not None or found.header.problems:
                assert b"SALT" not in visible(found)


def test_bytes_after_the_records_are_hidden(tmp_path: Path) -> None:
    data = bytearray(batch(0, [PUBLIC], key=None) + SECRET)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    found = opened(tmp_path, bytes(data))
    assert found.problem is not None
    assert b"SALT" not in visible(found)


def test_an_unreadable_header_hides_everything_after_it(tmp_path: Path) -> None:
    data = bytearray(batch(0, [SECRET], key=None))
    data[16] = 9
    assert b"SALT" not in visible(opened(tmp_path, bytes(data)))
    data[16] = 2
    data[8:12] = b"\0\0\0\1"
    assert b"SALT" not in visible(opened(tmp_path, bytes(data)))


def test_control_records_have_no_secrets(tmp_path: Path) -> None:
    data = batch(0, [b"\0\0\0\0\0\0"], key=b"\0\0\0\1", attributes=CONTROL)
    assert visible(opened(tmp_path, data)) == data
    assert visible(opened(tmp_path, plain(0, 1))) != plain(0, 1)
