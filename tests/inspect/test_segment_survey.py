"""The survey of a segment: its counts against the batch table, its damages against ``verify``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conftest import GoldenFactory
from golden_sets import EVERYTHING, SCENARIOS
from log_maker import BASE_TIME, batch, plain, write_segment
from tidelog.inspect import batch_walk
from tidelog.inspect.segment_survey import SegmentSurvey, codec_counts, survey_segment_log
from tidelog.inspect.verify.log_check import check_log
from tidelog.record.attributes import CODECS
from tidelog.storage.fs import LOCAL
from tidelog.storage.segment.segment_reader import SegmentReader


def surveyed(path: Path) -> SegmentSurvey:
    read: list[int] = []
    with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
        survey = survey_segment_log(reader, read.append)
    assert sum(read) == survey.size
    return survey


@pytest.mark.parametrize("set_name", [EVERYTHING["4.4"], SCENARIOS])
def test_the_counts_are_those_of_the_table(set_name: str, golden: GoldenFactory) -> None:
    for path in sorted(golden(set_name).glob("*/*.log")):
        survey = surveyed(path)
        with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
            table = reader.table()
        assert (survey.batches, survey.records) == (len(table), int(table.record_count.sum()))
        assert not survey.damages
        if not len(table):
            continue
        assert survey.last_offset == int(table.last_offset[-1])
        assert survey.first_offset == int(table.base_offset[0])
        assert survey.max_timestamp == int(table.max_timestamp.max())
        assert survey.largest_batch == int(table.size.max())
        assert codec_counts(survey) == {
            CODECS[number]: int(count)
            for number, count in zip(*np.unique(table.codec, return_counts=True), strict=True)
        }
        assert survey.control_batches == int(table.is_control.sum())


def test_marks_are_boundaries_about_64_kib_apart(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", 0, [plain(number * 10, 10, size=100) for number in range(2000)])
    survey = surveyed(path)
    with SegmentReader(LOCAL, path.parent, 0) as reader:
        table = reader.table()
    rows = np.searchsorted(table.position, survey.marks)
    assert table.position[rows].tolist() == survey.marks
    assert survey.mark_offsets == [int(table.last_offset[row - 1]) if row else -1 for row in rows]
    assert max(np.diff(survey.marks)) < 70_000
    assert len(survey.marks) > 20


@pytest.mark.parametrize("kind", ["crc", "magic", "length", "tail", "zeros"])
def test_damages_are_those_of_verify(kind: str, tmp_path: Path) -> None:
    batches = [plain(number * 10, 10) for number in range(30)]
    path = write_segment(tmp_path / "t-0", 0, batches)
    at, size = sum(map(len, batches[:12])), len(batches[12])
    data = bytearray(path.read_bytes())
    match kind:
        case "crc":
            data[at + 70] ^= 1
        case "magic":
            data[at + 16] = 77
        case "length":
            data[at + 8 : at + 12] = b"\0\0\0\1"
        case "tail":
            del data[-5:]
            at, size = sum(map(len, batches[:29])), len(batches[29]) - 5
        case "zeros":
            at, size = len(data), 3000
            data += bytes(3000)
    path.write_bytes(bytes(data))
    survey = surveyed(path)
    with SegmentReader(LOCAL, path.parent, 0) as reader:
        findings = check_log(reader, lambda _bytes: None, is_active=False).findings
    assert [damage.position for damage in survey.damages] == [finding.position for finding in findings] == [at]
    assert survey.damages[0].size == size
    is_tail = kind in ("tail", "zeros")
    assert (survey.tail is not None) == is_tail
    assert survey.damages[0].next_position == (None if is_tail else at + size)
    assert survey.last_offset == (289 if kind == "tail" else 299)


def test_many_damages_are_counted_and_the_first_hundred_are_kept(tmp_path: Path) -> None:
    batches = [plain(number, 1) for number in range(500)]
    path = write_segment(tmp_path / "t-0", 0, batches)
    data = bytearray(path.read_bytes())
    for number in range(0, 400, 2):
        data[number * len(batches[0]) + 65] ^= 1
    path.write_bytes(bytes(data))
    survey = surveyed(path)
    assert survey.damage_count == 200
    assert len(survey.damages) == 100


def test_the_crc_of_a_large_batch_is_checked_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_walk, "LARGE_BYTES", 100_000)
    batches = [plain(0, 3), batch(3, [bytes(3_000_000)]), plain(4, 2)]
    path = write_segment(tmp_path / "t-0", 0, batches)
    survey = surveyed(path)
    assert (survey.batches, survey.records, survey.damage_count) == (3, 6, 0)
    assert survey.first_timestamp == BASE_TIME
    data = bytearray(path.read_bytes())
    data[len(batches[0]) + 2_000_000] ^= 1
    path.write_bytes(bytes(data))
    survey = surveyed(path)
    assert [damage.position for damage in survey.damages] == [len(batches[0])]
    assert survey.last_offset == 5
