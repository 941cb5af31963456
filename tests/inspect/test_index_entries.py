"""The entries of index files as they are: of clean, preallocated and damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

from conftest import GoldenFactory
from golden_sets import SCENARIOS
from log_maker import plain, write_segment
from tidelog.inspect.index_entries import read_offset_entries, read_time_entries, read_transaction_entries
from tidelog.storage.fs import LOCAL
from tidelog.storage.segment.segment_reader import SegmentReader


def test_preallocated_files_have_the_entries_of_the_hints(golden: GoldenFactory) -> None:
    preallocated = 0
    for path in sorted(golden(SCENARIOS, "unclean").glob("*/*.log")):
        with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
            offsets = read_offset_entries(LOCAL, path.with_suffix(".index"), reader.base_offset)
            assert offsets.offsets.tolist() == reader.offset_hints.offsets.tolist()
            assert offsets.positions.tolist() == reader.offset_hints.positions.tolist()
            assert not any(offsets.fault(number, reader.size) for number in range(len(offsets)))
            assert len(offsets.valid(reader.size)) == len(offsets)
            times = read_time_entries(LOCAL, path.with_suffix(".timeindex"), reader.base_offset)
            assert times.timestamps.tolist() == reader.time_hints.timestamps.tolist()
            assert not any(times.fault(number) for number in range(len(times)))
            preallocated += offsets.file.size > offsets.file.used
            assert offsets.file.size == path.with_suffix(".index").stat().st_size
    assert preallocated > 10


def test_transaction_entries(golden: GoldenFactory) -> None:
    found = [
        entry
        for path in sorted((golden(SCENARIOS) / "txn-0").glob("*.txnindex"))
        for entry in read_transaction_entries(LOCAL, path, int(path.stem)).entries
    ]
    assert found
    assert all(entry.first_offset < entry.last_offset for entry in found)


def test_damaged_entries_have_a_fault(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", 0, [plain(number * 10, 10) for number in range(40)])
    index = path.with_suffix(".index")
    data = bytearray(index.read_bytes())
    data[8:16] = struct.pack(">ii", 5, 10**9)
    data += struct.pack(">ii", 9, 4) + b"odd"
    index.write_bytes(bytes(data))
    entries = read_offset_entries(LOCAL, index, 0)
    size = path.stat().st_size
    faults = [number for number in range(len(entries)) if entries.fault(number, size)]
    assert faults[0] == 1
    assert entries.fault(1, size) == "the position lies outside the .log"
    assert entries.fault(2, size) == "it does not ascend"
    assert len(entries.valid(size)) == 1
    assert entries.file.odd_bytes == 3
    times = path.with_suffix(".timeindex")
    data = bytearray(times.read_bytes())
    data[12:24] = struct.pack(">qi", 1, 0)
    times.write_bytes(bytes(data))
    found = read_time_entries(LOCAL, times, 0)
    assert [number for number in range(len(found)) if found.fault(number)] == [1]


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    assert read_offset_entries(LOCAL, tmp_path / "x.index", 0).file.is_missing
    assert read_time_entries(LOCAL, tmp_path / "x.timeindex", 0).file.is_missing
    assert read_transaction_entries(LOCAL, tmp_path / "x.txnindex", 0).file.is_missing
    path = tmp_path / "0.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 1, 2, 3, 4) + struct.pack(">hqqqq", 7, 1, 2, 3, 4))
    found = read_transaction_entries(LOCAL, path, 0)
    assert len(found.entries) == 1
    assert "version 7" in found.problem
