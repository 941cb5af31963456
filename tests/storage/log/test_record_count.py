"""Counts between any two offsets agree with a list of records: gaps, markers, compressed sets of any format."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import log_maker
from conftest import GoldenFactory
from golden_sets import SETS
from legacy_messages import Message, encode_set
from log_maker import plain, write_checkpoint, write_segment
from tidelog.model import CorruptRecordError, OffsetOutOfRangeError, Record, TimestampType
from tidelog.record.build import BatchFields, build_batch, build_empty_batch
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.record_count import RecordCount

HIGH_WATERMARK = "replication-offset-checkpoint"
FORMATS = ("v2", "v2 gzip", "v2 zstd", "v1", "v1 gzip", "v0 snappy", "control", "empty")
CODECS = {"gzip": 1, "snappy": 2, "zstd": 4}


class Drawn(NamedTuple):
    form: str
    gaps: list[int]
    """Offsets left out before each record."""
    behind: int
    """Offsets left out after the last record, inside the batch if its format can represent them."""


class Written(NamedTuple):
    offset: int
    control: bool


batches = st.builds(
    Drawn,
    st.sampled_from(FORMATS),
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    st.integers(0, 3),
)


def encoded(drawn: Drawn, start: int) -> tuple[bytes, list[int], int]:
    """Return the batch, the offsets of its records, and the next offset."""
    offsets: list[int] = []
    for gap in drawn.gaps:
        offsets.append((offsets[-1] + 1 if offsets else start) + gap)
    format_name, _, codec = drawn.form.partition(" ")
    last = offsets[-1] + drawn.behind
    if format_name in ("v0", "v1"):
        messages = [Message(offset, 5, None, b"x") for offset in offsets]
        return encode_set(messages, int(format_name[1]), CODECS.get(codec, 0)), offsets, offsets[-1] + 1
    if format_name == "empty":
        empty = build_empty_batch(base_offset=start, last_offset=last, max_timestamp=5, fields=BatchFields())
        return bytes(empty), [], last + 1
    records = [Record(offset, 5, TimestampType.CREATE, None, b"x") for offset in offsets]
    batch = build_batch(
        records,
        base_offset=start,
        codec=CODECS.get(codec, 0),
        keep_offsets=True,
        last_offset=last,
        control=format_name == "control",
    )
    return bytes(batch), offsets, last + 1


def write(directory: Path, drawn: list[Drawn], roll_every: int) -> tuple[list[Written], int]:
    """Write segments of ``roll_every`` batches. Return every record and the log end."""
    directory.mkdir(parents=True)
    written: list[Written] = []
    next_offset = 0
    for number, batch in enumerate(drawn):
        if number % roll_every == 0:
            path = directory / f"{next_offset:020d}.log"
        data, offsets, next_offset = encoded(batch, next_offset)
        with path.open("ab") as log:
            log.write(data)
        written += [Written(offset, batch.form == "control") for offset in offsets]
    return written, next_offset


def expected(written: list[Written], start: int, end: int) -> RecordCount:
    inside = [record for record in written if start <= record.offset < end]
    control = sum(record.control for record in inside)
    return RecordCount(start=start, end=end, records=len(inside) - control, control_records=control)


@settings(max_examples=60)
@given(st.lists(batches, min_size=1, max_size=12), st.integers(1, 5), st.data())
def test_as_a_list_of_records(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Drawn], roll_every: int, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("count")
    written, log_end = write(root / "t-0", drawn, roll_every)
    view = LogView(LOCAL, root / "t-0")
    assert view.log_end == log_end
    bounds = st.integers(0, log_end)
    for start, end in data.draw(st.lists(st.tuples(bounds, bounds), min_size=1, max_size=8)):
        if start <= end:
            found = view.count_between(start, end)
            assert found == expected(written, start, end)
            assert found.offsets == end - start
    assert view.count_between(0) == expected(written, 0, log_end)


def test_by_default_from_the_high_watermark_to_the_log_end(tmp_path: Path) -> None:
    batches = [plain(0, 10), plain(10, 10), plain(20, 10)]
    write_segment(tmp_path / "t-0", 0, batches)
    log_maker.mark_clean(tmp_path)
    write_checkpoint(tmp_path, HIGH_WATERMARK, {"t-0": 17})
    found = LogView(LOCAL, tmp_path / "t-0").count_between()
    assert found == RecordCount(start=17, end=30, records=13, control_records=0)
    assert found.offsets == 13


def test_bounds_that_the_log_does_not_have(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 100, [plain(100, 10)])
    view = LogView(LOCAL, tmp_path / "t-0")
    for start, end in [(99, 105), (100, 111), (111, 111)]:
        with pytest.raises(OffsetOutOfRangeError):
            view.count_between(start, end)
    with pytest.raises(ValueError, match="ends before it begins"):
        view.count_between(105, 104)
    assert view.count_between(110, 110).records == 0


def test_a_damaged_header_is_not_believed(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", 0, [plain(0, 10), plain(10, 10)])
    log_maker.mark_clean(tmp_path)
    data = bytearray(path.read_bytes())
    data[60] ^= 1  # the record count of the first batch
    path.write_bytes(data)
    view = LogView(LOCAL, tmp_path / "t-0")
    with pytest.raises(CorruptRecordError):
        view.count_between(0, 20)
    assert view.count_between(15, 20).records == 5


@pytest.mark.parametrize("set_name", SETS)
def test_real_partitions(golden: GoldenFactory, set_name: str) -> None:
    """The counts of all parts of a partition agree with a walk over all records."""
    for path in sorted(golden(set_name).iterdir()):
        if not path.is_dir():
            continue
        view = LogView(LOCAL, path)
        chunks = list(view.columns(view.range(control=True)))
        written: list[Written] = []
        for chunk in chunks:
            batches = chunk.columns.batch
            assert batches is not None
            written += [
                Written(offset, bool(chunk.table.is_control[batch]))
                for offset, batch in zip(chunk.columns.offset.tolist(), batches.tolist(), strict=True)
            ]
        step = max(1, (view.log_end - view.log_start) // 7)
        cuts = [*range(view.log_start, view.log_end, step), view.log_end]
        for start, end in pairwise(cuts):
            assert view.count_between(start, end) == expected(written, start, end)
