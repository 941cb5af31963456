"""Scans of records for pages: the records of the usual reader, gaps, filters, budgets and large batches."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import EVERYTHING, FORMATS, SCENARIOS
from held_directory import held
from log_maker import batch, data, mark_clean, marker, plain, write_segment
from tidelog.inspect import batch_walk
from tidelog.inspect.bounded_rows import BoundedRows, ByteBudget, Gap, search_next
from tidelog.inspect.record_scan import FoundRecord, KeyFilter, RecordScan, ScanRequest
from tidelog.kernel import crc32c
from tidelog.model import Header, Record, TimestampType
from tidelog.record.build import build_batch
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView

_BUDGET = 1 << 40


def scan(
    view: LogView,
    start: int = 0,
    end: int | None = None,
    *,
    budget: int = _BUDGET,
    key: KeyFilter | None = None,
    with_control: bool = False,
    with_aborted: bool = True,
    keep_bytes: int = 4096,
) -> tuple[list[FoundRecord | Gap], RecordScan]:
    """Scan a log from its view's log start on."""
    end = view.log_end if end is None else end
    request = ScanRequest(
        start=start,
        end=end,
        aborted=lambda: view.transactions(view.log_end).aborted,
        with_control=with_control,
        with_aborted=with_aborted,
        key=key,
        keep_bytes=keep_bytes,
    )
    spent = ByteBudget(left=budget)
    made = RecordScan(BoundedRows(view, start, end, spent, find_next=search_next(view)), request, spent)
    return list(made), made


def found_records(found: Sequence[FoundRecord | Gap]) -> list[Record]:
    records = []
    for one in found:
        assert isinstance(one, FoundRecord), one
        key, value = (None if piece is None else piece.data for piece in (one.key, one.value))
        headers = tuple(Header(name, None if piece is None else piece.data) for name, piece in one.headers)
        records.append(Record(one.offset, one.timestamp, one.timestamp_type, key, value, headers))
    return records


def usual_records(view: LogView, *, isolation: str = "read_uncommitted") -> list[Record]:
    chunks = view.columns(view.range(isolation=isolation))
    return [record for chunk in chunks for record in iter_records(chunk.columns)]


@pytest.mark.parametrize("set_name", [EVERYTHING["4.4"], FORMATS])
def test_scans_have_the_records_of_the_usual_reader(set_name: str, golden: GoldenFactory) -> None:
    compared = 0
    for path in sorted(golden(set_name).iterdir()):
        if not path.is_dir():
            continue
        view = LogView(LOCAL, path)
        found, made = scan(view, view.log_start)
        assert found_records(found) == usual_records(view), path.name
        assert made.is_complete
        compared += len(found)
    assert compared > 500


def test_committed_scans_leave_out_aborted_records(golden: GoldenFactory) -> None:
    view = LogView(LOCAL, golden(SCENARIOS) / "txn-0")
    end = view.last_stable_offset()
    found, _ = scan(view, end=end, with_aborted=False)
    assert found_records(found) == usual_records(view, isolation="read_committed")
    marked, _ = scan(view, end=end)
    aborted = [one.offset for one in marked if isinstance(one, FoundRecord) and one.is_aborted]
    kept = [one.offset for one in marked if isinstance(one, FoundRecord) and not one.is_aborted]
    assert aborted
    assert kept == [record.offset for record in found_records(found)]
    with_control, _ = scan(view, end=end, with_control=True)
    control = [one for one in with_control if isinstance(one, FoundRecord) and one.is_control]
    assert len(with_control) == len(marked) + len(control)
    assert all(one.key is not None and len(one.key.data) == 4 for one in control)


def made_log(tmp_path: Path, batches: list[bytes], *, is_clean: bool = True) -> LogView:
    if is_clean:
        mark_clean(tmp_path)
    write_segment(tmp_path / "t-0", 0, batches, interval_bytes=2000)
    return LogView(LOCAL, tmp_path / "t-0")


@pytest.mark.parametrize(("start", "end"), [(0, 1000), (1, 999), (499, 501), (500, 500), (995, 1000), (0, 1)])
def test_a_range_has_exactly_its_offsets(tmp_path: Path, start: int, end: int) -> None:
    view = made_log(tmp_path, [plain(number * 7, 7) for number in range(150)])
    found, made = scan(view, start, end)
    assert [one.offset for one in found] == list(range(start, end))
    assert made.next_offset >= end


def damage_crc(content: bytearray, at: int) -> None:
    content[at + 70] ^= 0xFF


def damage_magic(content: bytearray, at: int) -> None:
    content[at + 16] = 99


def damage_records(content: bytearray, at: int) -> None:
    """Make a record's length wrong, and the CRC right."""
    size = 12 + int.from_bytes(content[at + 8 : at + 12], "big")
    content[at + 61] = 0x7F
    content[at + 17 : at + 21] = struct.pack(">I", crc32c(bytes(content[at + 21 : at + size])))


@pytest.mark.parametrize("damage", [damage_crc, damage_magic, damage_records])
def test_damage_in_the_middle_is_one_gap(tmp_path: Path, damage: Callable[[bytearray, int], None]) -> None:
    batches = [plain(number * 10, 10) for number in range(30)]
    view = made_log(tmp_path, batches)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    at = sum(map(len, batches[:12]))
    damage(content, at)
    path.write_bytes(bytes(content))
    found, made = scan(view)
    gaps = [one for one in found if isinstance(one, Gap)]
    assert [(gap.position, gap.size, gap.offset) for gap in gaps] == [(at, len(batches[12]), 120)]
    assert [one.offset for one in found if isinstance(one, FoundRecord)] == [*range(120), *range(130, 300)]
    assert made.is_complete
    later, _ = scan(view, 140)
    assert not [one for one in later if isinstance(one, Gap)]
    assert [one.offset for one in later] == list(range(140, 300))


def test_filters_accept_equal_keys_and_prefixes(tmp_path: Path) -> None:
    keys = [b"a", b"ab", b"abc", b"b", None, b"", b"ab\xff"]
    batches = [batch(number, [b"v"], key=key) for number, key in enumerate(keys)]
    view = made_log(tmp_path, batches)

    def offsets(*patterns: bytes, is_prefix: bool) -> list[int]:
        return [one.offset for one in scan(view, key=KeyFilter(patterns, is_prefix))[0]]

    assert offsets(b"ab", is_prefix=False) == [1]
    assert offsets(b"ab", is_prefix=True) == [1, 2, 6]
    assert offsets(b"", is_prefix=True) == [0, 1, 2, 3, 5, 6]
    assert offsets(b"a", b"b", is_prefix=False) == [0, 3]
    assert offsets(b"zz", is_prefix=True) == []


@pytest.mark.parametrize("key", [None, KeyFilter((b"nothing",), False)])
def test_scans_with_small_budgets_together_read_everything(tmp_path: Path, key: KeyFilter | None) -> None:
    view = made_log(tmp_path, [plain(number * 10, 10, size=300) for number in range(200)])
    offset, scans, seen = 0, 0, []
    while offset < view.log_end:
        found, made = scan(view, offset, budget=50_000, key=key)
        seen += [one.offset for one in found]
        assert made.next_offset > offset
        offset, scans = made.next_offset, scans + 1
    assert seen == ([] if key else list(range(2000)))
    assert scans > 4


def test_decompressed_bytes_count_too(tmp_path: Path) -> None:
    view = made_log(tmp_path, [zstd_batch(number, [bytes(2_000_000)]) for number in range(20)])
    found, made = scan(view, budget=1_000_000, keep_bytes=10)
    assert 0 < len(found) < 12
    assert made.next_offset == len(found)


def test_files_that_a_broker_has_replaced_are_no_damage(tmp_path: Path) -> None:
    """The view knows segment 0 as the last one. A broker has appended, rolled, and removed its last batch since."""
    batches = [plain(number * 10, 10) for number in range(60)]
    with held(tmp_path):
        view = made_log(tmp_path, batches)
        assert view.log_end == 600
        kept = [batch for number, batch in enumerate(batches) if number % 3 < 2] + [plain(600, 10, size=30)]
        write_segment(tmp_path / "t-0", 0, kept, interval_bytes=2000)
        write_segment(tmp_path / "t-0", 610, [])
        for start in (0, 405):
            wanted = [offset for offset in range(start, 600) if offset // 10 % 3 < 2]
            stale = LogView(LOCAL, view.directory, directory_state=view.directory_state)
            stale._state = view.state
            found, made = scan(stale, start, 600)
            assert [record.offset for record in found_records(found)] == wanted
            assert made.is_complete


def test_damage_in_a_held_directory_is_a_gap(tmp_path: Path) -> None:
    batches = [plain(number * 10, 10) for number in range(60)]
    with held(tmp_path):
        view = made_log(tmp_path, batches)
        path = tmp_path / "t-0" / f"{0:020d}.log"
        content = bytearray(path.read_bytes())
        for number in (10, 11, 30):
            content[number * len(batches[0]) + 80] ^= 1
        path.write_bytes(content)
        found, made = scan(view, 55)
        assert [(one.offset, one.size) for one in found if isinstance(one, Gap)] == [
            (100, 2 * len(batches[0])),
            (300, len(batches[0])),
        ]
        assert [one.offset for one in found if isinstance(one, FoundRecord)] == [
            offset for offset in range(55, 600) if offset // 10 not in {10, 11, 30}
        ]
        assert made.is_complete
        inside, _ = scan(view, 115, 125)
        assert [(type(one), one.offset) for one in inside][:2] == [(Gap, 100), (FoundRecord, 120)]


def zstd_batch(base_offset: int, values: list[bytes]) -> bytes:
    records = [
        Record(base_offset + number, 1, TimestampType.CREATE, None, value) for number, value in enumerate(values)
    ]
    return bytes(build_batch(records, base_offset=base_offset, codec="zstd"))


def test_a_bomb_is_a_gap(tmp_path: Path) -> None:
    view = made_log(tmp_path, [plain(0, 2), zstd_batch(2, [bytes(80 * 1024 * 1024)]), plain(3, 2)])
    found, _ = scan(view)
    assert [one.offset for one in found] == [0, 1, 2, 3, 4]
    gap = found[2]
    assert isinstance(gap, Gap)
    assert "decompresses to more than 67,108,864 bytes" in gap.reason


def test_a_huge_value_costs_little_memory(tmp_path: Path) -> None:
    value = b"x" * (100 * 1024 * 1024)
    view = made_log(tmp_path, [plain(0, 2), batch(2, [value, b"small"], key=b"big"), plain(4, 2)])
    del value
    tracemalloc.start()
    found, _ = scan(view, keep_bytes=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 1024 * 1024
    assert [one.offset for one in found] == list(range(6))
    record = found[2]
    assert isinstance(record, FoundRecord)
    assert record.value is not None
    assert (record.value.data, record.value.size) == (b"x" * 100, 100 * 1024 * 1024)
    assert not record.is_checked
    small = found[3]
    assert isinstance(small, FoundRecord)
    assert small.value is not None
    assert small.value.data == b"small"
    filtered, _ = scan(view, key=KeyFilter((b"big",), False), keep_bytes=1)
    assert [one.offset for one in filtered] == [2, 3]


def test_large_batches_obey_the_usual_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_walk, "LARGE_BYTES", 100_000)
    big = [bytes(300_000), bytes(300_000)]
    large_data = batch(2, big, attributes=0x10, producer_id=7, sequence=5)
    compressed = zstd_batch(12, [random.Random(1).randbytes(2_000_000)])
    batches = [data(0, 2), large_data, marker(4, False), data(5, 2), marker(7, True), plain(8, 4), compressed]
    view = made_log(tmp_path, batches, is_clean=False)
    found, _ = scan(view, with_control=True)
    assert [one.offset for one in found] == list(range(13))
    assert [one.offset for one in found if isinstance(one, FoundRecord) and one.is_aborted] == [0, 1, 2, 3]
    second = found[3]
    assert isinstance(second, FoundRecord)
    assert (second.sequence, second.producer_id, second.is_transactional) == (6, 7, True)
    gap = found[-1]
    assert isinstance(gap, Gap)
    assert "is too large" in gap.reason
    committed, _ = scan(view, with_aborted=False)
    assert [one.offset for one in committed] == [5, 6, 8, 9, 10, 11, 12]
    middle, _ = scan(view, 3, 5)
    assert [one.offset for one in middle] == [3]
    few, made = scan(view, 2, budget=70_000)
    assert [one.offset for one in few] == [2]
    assert made.next_offset == 3


def test_damage_in_a_large_batch_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_walk, "LARGE_BYTES", 100_000)
    large = bytearray(batch(2, [bytes(300_000), bytes(300_000)]))
    second = large.index(b"k", 61 + 300_000) - 7
    view = made_log(tmp_path, [plain(0, 2), bytes(large), plain(4, 2)])
    path = tmp_path / "t-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    at = len(plain(0, 2)) + second
    content[at : at + 3] = b"\xff\xff\xff"
    path.write_bytes(bytes(content))
    found, _ = scan(view)
    assert [one.offset for one in found] == [0, 1, 2, 3, 4, 5]
    gap = found[3]
    assert isinstance(gap, Gap)
    assert (gap.position, gap.size) == (at, len(large) - second)
