"""Bounded walks over batches, compared with the reader's batch table."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import EVERYTHING, FORMATS
from log_maker import batch, plain, write_segment
from tidelog.inspect import batch_walk
from tidelog.inspect.batch_fields import read_batch_header
from tidelog.inspect.batch_walk import (
    PlaceKind,
    computed_crc,
    header_row,
    known_boundary,
    locate_batch,
    position_before,
    position_of_offset,
    row_table,
    windows,
)
from tidelog.kernel import Stop
from tidelog.storage.fs import LOCAL
from tidelog.storage.segment.segment_reader import SegmentReader

_MIB = 1024 * 1024


def made(tmp_path: Path, batches: list[bytes], *, interval_bytes: int = 500) -> SegmentReader:
    path = write_segment(tmp_path / "t-0", 0, batches, interval_bytes=interval_bytes)
    return SegmentReader(LOCAL, path.parent, 0)


@pytest.mark.parametrize("set_name", [EVERYTHING["4.4"], FORMATS])
def test_windows_have_the_rows_of_the_table(set_name: str, golden: GoldenFactory) -> None:
    for path in sorted(golden(set_name).glob("*/*.log")):
        with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
            found = list(windows(reader, 0, reader.size))
            assert [row for window in found for row in window.rows()] == list(reader.table().rows()), path
            assert not found or found[-1].stop is Stop.END


def test_a_large_batch_is_passed_over_by_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_walk, "LARGE_BYTES", 200_000)
    batches = [plain(0, 3), batch(3, [bytes(500_000)]), plain(4, 3), batch(7, [bytes(100_000)]), plain(8, 1)]
    with made(tmp_path, batches) as reader:
        found = list(windows(reader, 0, reader.size))
        assert [row._replace(crc_ok=True) for window in found for row in window.rows()] == list(reader.table().rows())
        large = [window for window in found if window.large is not None]
        assert len(large) == 1
        assert large[0].bytes_read == 61
        assert sum(window.bytes_read for window in found) < 600_000
        row = large[0].large
        assert row is not None
        header = read_batch_header(reader.read(row.position, 61), available=row.size)
        assert computed_crc(reader, row.position, header) == row.crc
        assert header_row(header, row.position) == row
        assert next(row_table(row).rows()) == row


def test_the_stop_of_a_walk_is_that_of_the_table(tmp_path: Path) -> None:
    batches = [plain(number * 10, 10) for number in range(400)]
    whole = b"".join(batches)
    path = write_segment(tmp_path / "t-0", 0, batches)
    at = sum(map(len, batches[:300]))
    for damaged in (
        whole[:-7],
        whole[: at + 16] + b"\x09" + whole[at + 17 :],
        whole[: at + 8] + struct.pack(">i", 3) + whole[at + 12 :],
        whole + bytes(5000),
        whole + b"\0" * 5,
        b"",
    ):
        path.write_bytes(damaged)
        with SegmentReader(LOCAL, path.parent, 0) as reader:
            table = reader.table()
            found = list(windows(reader, 0, reader.size))
            assert sum(len(window.table) for window in found) == len(table)
            if found:
                assert found[-1].stop is table.stop
                assert found[-1].next_position == table.end_position


def test_every_position_of_a_segment_is_located(tmp_path: Path) -> None:
    chosen = random.Random(5)
    batches, offset = [], 0
    for _ in range(60):
        count = chosen.choice([1, 4, 30])
        batches.append(plain(offset, count, size=chosen.choice([10, 90])))
        offset += count
    with made(tmp_path, batches, interval_bytes=3000) as reader:
        rows = list(reader.table().rows())
        starts = {row.position: number for number, row in enumerate(rows)}
        assert len(reader.offset_hints) > 3
        for position in range(0, reader.size, 7):
            check(reader, starts, position)
        for position in starts:
            check(reader, starts, position)


def check(reader: SegmentReader, starts: dict[int, int], position: int) -> None:
    place = locate_batch(reader, position, start=known_boundary(reader, position), most_bytes=_MIB)
    before = max(start for start in starts if start <= position)
    if position in starts:
        assert place.kind is PlaceKind.BOUNDARY
        number = starts[position]
        expected = None if number == 0 else sorted(starts)[number - 1]
        assert place.previous == expected
    else:
        assert place.kind is PlaceKind.INSIDE
        assert (place.position, place.position + place.size > position) == (before, True)


def test_a_walk_that_would_be_too_long_says_so(tmp_path: Path) -> None:
    with made(tmp_path, [plain(number * 10, 10, size=100) for number in range(3000)], interval_bytes=10**9) as reader:
        assert not len(reader.offset_hints)
        middle = reader.table().row(2500).position
        assert locate_batch(reader, middle, start=0, most_bytes=_MIB).kind is PlaceKind.UNKNOWN
        assert position_before(reader, middle, 10, most_bytes=_MIB) is None
        assert position_of_offset(reader, 25_000, most_bytes=_MIB) is None
        marks = [0, reader.table().row(2490).position]
        assert known_boundary(reader, middle, marks) == marks[1]
        assert locate_batch(reader, middle, start=marks[1], most_bytes=_MIB).kind is PlaceKind.BOUNDARY
        assert position_before(reader, middle, 5, most_bytes=_MIB, marks=marks) == reader.table().row(2495).position


def test_positions_after_damage_are_not_counted(tmp_path: Path) -> None:
    batches = [plain(number * 10, 10) for number in range(20)]
    path = write_segment(tmp_path / "t-0", 0, batches, interval_bytes=10**9)
    at = sum(map(len, batches[:10]))
    data = bytearray(path.read_bytes())
    data[at + 16] = 9
    path.write_bytes(bytes(data))
    with SegmentReader(LOCAL, path.parent, 0) as reader:
        after = at + len(batches[10])
        place = locate_batch(reader, after, start=0, most_bytes=_MIB)
        assert place.kind is PlaceKind.AFTER_DAMAGE
        assert place.position == at
        assert "magic" in place.reason
        assert locate_batch(reader, at, start=0, most_bytes=_MIB).kind is PlaceKind.BOUNDARY


@pytest.mark.parametrize("count", [1, 7, 50])
def test_pages_backward_are_the_pages_forward(tmp_path: Path, count: int) -> None:
    batches = [plain(number * 3, 3, size=200) for number in range(300)]
    with made(tmp_path, batches, interval_bytes=4096) as reader:
        positions = reader.table().position.tolist()
        at, seen = len(positions), []
        while at > 0:
            end = positions[at] if at < len(positions) else reader.size
            found = position_before(reader, end, count, most_bytes=_MIB)
            assert found == positions[max(0, at - count)]
            at = positions.index(found)
            seen.append(at)
        assert seen[-1] == 0


def test_a_wrong_index_entry_is_not_trusted(tmp_path: Path) -> None:
    with made(tmp_path, [plain(number * 3, 3, size=200) for number in range(100)], interval_bytes=4096) as reader:
        index = reader.path.with_suffix(".index")
        entries = bytearray(index.read_bytes())
        entries[12:16] = struct.pack(">i", struct.unpack(">i", entries[12:16])[0] + 5)
        index.write_bytes(bytes(entries))
    with SegmentReader(LOCAL, tmp_path / "t-0", 0) as reader:
        boundaries = set(reader.table().position.tolist())
        for position in range(1, reader.size, 97):
            assert known_boundary(reader, position) in boundaries
