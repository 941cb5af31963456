"""``onCorrupt``: damage fails a read, is skipped, or is skipped and reported once, whatever the tasks' sizes are."""

from __future__ import annotations

from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from log_maker import mark_clean, plain, write_checkpoint, write_segment
from spark.in_process import reader_of, rows, rows_of, splits_of
from tidelog import kernel
from tidelog.kernel import BatchTable, crc32c
from tidelog.model import CorruptRecordError, FileMissingError
from tidelog.storage.segment.segment_reader import SegmentReader

pytestmark = pytest.mark.usefixtures("row_reader")

CUTS: list[dict[str, object]] = [
    {},
    {"splitBytes": 1},
    {"splitBytes": 700},
    {"minPartitions": 33},
    {"maxRecordsPerPartition": 7},
    {"maxRecordsPerPartition": 1},
]
SIZE = len(plain(0))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write ``t-0``: three segments (0, 100, 200) of ten batches of ten records."""
    for base in (0, 100, 200):
        write_segment(tmp_path / "t-0", base, [plain(base + 10 * number) for number in range(10)])
    mark_clean(tmp_path)
    return tmp_path


def log_file(root: Path, base: int = 100) -> Path:
    return root / "t-0" / f"{base:020d}.log"


def overwrite(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def break_value(root: Path, batch: int, base: int = 100) -> None:
    overwrite(log_file(root, base), batch * SIZE + SIZE - 5, b"\xff")


def break_length(root: Path, batch: int, base: int = 100) -> None:
    overwrite(log_file(root, base), batch * SIZE + 8, b"\x7f")


def break_record(root: Path, batch: int, base: int = 100) -> None:
    """Make a record's length wrong under a valid CRC, so that only decoding detects it."""
    content = bytearray(plain(base + 10 * batch))
    content[61] ^= 0x02
    content[17:21] = crc32c(bytes(content[21:])).to_bytes(4, "big")
    overwrite(log_file(root, base), batch * SIZE, bytes(content))


def split_up(found: list[dict[str, Any]]) -> tuple[list[int], list[dict[str, Any]]]:
    good = [row["offset"] for row in found if row["corrupt"] is None]
    return good, [row for row in found if row["corrupt"] is not None]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("harm", [break_value, break_length, break_record])
def test_one_batch(root: Path, harm: Any, cut: dict[str, object]) -> None:
    harm(root, 4)
    kept = [offset for offset in range(300) if not 140 <= offset < 150]
    with pytest.raises(CorruptRecordError) as raised:
        rows(root, **cut)
    assert (raised.value.path, raised.value.position) == (str(log_file(root)), 4 * SIZE)
    assert [row["offset"] for row in rows(root, onCorrupt="skip", **cut)] == kept
    found = rows(root, onCorrupt="report", **cut)
    good, told = split_up(found)
    assert good == kept
    (row,) = told
    assert found.index(row) == 140
    assert f"file {log_file(root)}, position {4 * SIZE}, {SIZE} bytes, from offset 140" in row["corrupt"]
    assert (row["topic"], row["partition"], row["offset"]) == ("t", 0, 140)
    others = ("key", "value", "timestamp", "timestampType")
    assert all(row[name] is None for name in others)


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_a_stretch_over_several_batches_and_the_end_of_a_segment(root: Path, cut: dict[str, object]) -> None:
    overwrite(log_file(root), 3 * SIZE, bytes(2 * SIZE + 9))
    overwrite(log_file(root), 8 * SIZE, bytes(2 * SIZE))
    good, told = split_up(rows(root, onCorrupt="report", **cut))
    assert good == [n for n in range(300) if not 130 <= n < 160 and not 180 <= n < 200]
    assert [row["offset"] for row in told] == [130, 180]


@pytest.mark.parametrize("harm", [break_value, break_record])
def test_a_read_that_begins_or_ends_within_damage(root: Path, harm: Any) -> None:
    harm(root, 4)
    inside = {"startingOffsets": '{"t":{"0":145}}', "endingOffsets": '{"t":{"0":149}}', "onCorrupt": "report"}
    good, told = split_up(rows(root, **inside))
    assert (good, [row["offset"] for row in told]) == ([], [145])
    behind = {"startingOffsets": '{"t":{"0":150}}', "endingOffsets": '{"t":{"0":152}}'}
    assert [row["offset"] for row in rows(root, **behind)] == [150, 151]
    before = {"startingOffsets": '{"t":{"0":130}}', "endingOffsets": '{"t":{"0":140}}'}
    assert [row["offset"] for row in rows(root, **before)] == list(range(130, 140))


def test_a_time_is_looked_up_over_damage(root: Path) -> None:
    break_value(root, 4)
    break_record(root, 6)
    given = {"startingTimestamp": 1_700_000_000_000 + 145}
    with pytest.raises(CorruptRecordError):
        rows(root, **given)
    assert rows(root, onCorrupt="skip", **given)[0]["offset"] == 150


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_the_bytes_behind_the_end(root: Path, cut: dict[str, object]) -> None:
    with log_file(root, 200).open("ab") as file:
        file.write(plain(300)[:50])
    good, told = split_up(rows(root, onCorrupt="report", **cut))
    assert good == list(range(300))
    (row,) = told
    assert row["offset"] == 300
    assert "after the log end" in row["corrupt"]
    assert f"position {10 * SIZE}, 50 bytes" in row["corrupt"]
    ended = rows(root, onCorrupt="report", endingOffsets='{"t":{"0":250}}', **cut)
    assert split_up(ended)[1] == []


def test_nothing_but_damage(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, []).write_bytes(plain(0)[:40])
    mark_clean(tmp_path)
    assert rows(tmp_path) == []
    (row,) = rows(tmp_path, onCorrupt="report")
    assert row["offset"] == 0
    (row,) = rows(tmp_path, onCorrupt="report", mode="batches")
    assert row["baseOffset"] is None
    assert "40 bytes" in row["corrupt"]


def test_without_checksums_a_wrong_value_is_read(root: Path) -> None:
    break_value(root, 4)
    assert len(rows(root, verifyChecksums="false")) == 300


def test_the_table_of_batches(root: Path) -> None:
    table = rows(root, mode="batches")
    assert [row["baseOffset"] for row in table] == list(range(0, 300, 10))
    assert all(row["crcOk"] and row["recordCount"] == 10 and row["sizeBytes"] == SIZE for row in table)
    assert {row["segmentBaseOffset"] for row in table} == {0, 100, 200}
    assert {row["logDir"] for row in table} == {str(root)}
    some = rows(root, mode="batches", startingOffsets='{"t":{"0":95}}', endingOffsets='{"t":{"0":111}}')
    assert [row["baseOffset"] for row in some] == [90, 100, 110]


def test_an_audit_counts_damaged_batches_too(root: Path) -> None:
    break_value(root, 4)
    overwrite(log_file(root), 6 * SIZE, (2**40).to_bytes(8, "big"))  # a base offset, which no CRC covers
    table = rows(root, mode="batches", columns="baseOffset,crcOk,position", minPartitions=9)
    assert len(table) == 30
    assert [row["position"] for row in table if not row["crcOk"]] == [4 * SIZE]
    assert [row["position"] for row in table if row["baseOffset"] == 2**40] == [6 * SIZE]


def test_an_audit_over_a_wrong_length(root: Path) -> None:
    break_length(root, 4)
    with pytest.raises(CorruptRecordError) as raised:
        rows(root, mode="batches")
    assert raised.value.position == 4 * SIZE
    assert len(rows(root, mode="batches", onCorrupt="skip")) == 29
    table = rows(root, mode="batches", onCorrupt="report")
    (told,) = [row for row in table if row["corrupt"] is not None]
    assert table.index(told) == 14
    assert told["baseOffset"] is None
    assert f"position {4 * SIZE}" in told["corrupt"]


@pytest.mark.parametrize("enough", [1, 3, 8192])
def test_the_table_of_batches_is_the_same_in_many_chunks(
    root: Path, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_value(root, 2)
    break_length(root, 6)
    break_length(root, 9, base=200)
    whole = rows(root, mode="batches", onCorrupt="report")
    assert len(whole) == 30
    monkeypatch.setattr(SegmentReader, "chunks", partialmethod(SegmentReader.chunks, chunk_bytes=2 * SIZE))
    monkeypatch.setattr("tidelog.spark.rows.storage_rows._ENOUGH_ROWS", enough)
    assert rows(root, mode="batches", onCorrupt="report") == whole


def test_what_the_search_for_a_killed_logs_end_has_checked_is_not_checked_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".kafka_cleanshutdown").unlink()
    write_checkpoint(root, "recovery-point-offset-checkpoint", {"t-0": 100})
    break_value(root, 4, base=0)
    break_value(root, 7, base=200)
    checked: list[int] = []

    def scan_batches(buffer: memoryview, *, base_position: int = 0, verify_crc: bool = True) -> BatchTable:
        table = kernel.scan_batches(buffer, base_position=base_position, verify_crc=verify_crc)
        if verify_crc:
            checked.extend(table.base_offset.tolist())
        return table

    spied = SimpleNamespace(**{**vars(kernel), "scan_batches": scan_batches})
    monkeypatch.setattr("tidelog.storage.segment.segment_reader.kernel", spied)
    table = rows(root, mode="batches")
    assert [row["baseOffset"] for row in table] == list(range(0, 270, 10))
    assert [row["baseOffset"] for row in table if not row["crcOk"]] == [40]
    assert sorted(checked) == list(range(0, 300, 10))


def test_the_table_of_segments(root: Path) -> None:
    table = rows(root, mode="segments")
    assert [(row["baseOffset"], row["sizeBytes"], row["isActive"]) for row in table] == [
        (0, 10 * SIZE, False),
        (100, 10 * SIZE, False),
        (200, 10 * SIZE, True),
    ]
    for row in table:
        log = log_file(root, row["baseOffset"])
        assert row["indexBytes"] == log.with_suffix(".index").stat().st_size
        assert row["timeIndexBytes"] == log.with_suffix(".timeindex").stat().st_size
    assert all(row["txnIndexBytes"] is None and row["logStartOffset"] == 0 for row in table)
    assert list(rows(root, mode="segments", columns="partition,baseOffset")[0]) == ["partition", "baseOffset"]


def test_a_segment_that_is_gone_when_its_task_runs_is_an_error(root: Path) -> None:
    reader = reader_of(root)
    splits = splits_of(reader)
    log_file(root).unlink()
    with pytest.raises(FileMissingError, match=log_file(root).name):
        rows_of(reader, splits)
