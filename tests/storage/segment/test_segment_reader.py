"""Chunks of a segment, and positions by its index, for valid and damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import log_maker
from conftest import GoldenFactory
from golden_sets import SETS
from tidelog.kernel import Stop
from tidelog.model import FileMissingError
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.load.listing import list_partition
from tidelog.storage.segment import segment_reader
from tidelog.storage.segment.file_names import FileState
from tidelog.storage.segment.resync import next_sound_batch
from tidelog.storage.segment.segment_reader import SegmentReader


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Write 100 batches of 10 records from offset 500 on. Each batch but the first has an index entry."""
    batches = [log_maker.plain(500 + 10 * number) for number in range(100)]
    log_maker.write_segment(tmp_path / "t-0", 500, batches)
    return tmp_path / "t-0"


def test_chunks_of_any_size_hold_every_batch_of_real_segments_once(golden: GoldenFactory) -> None:
    for set_name in SETS:
        for directory in sorted(golden(set_name).iterdir()):
            if not directory.is_dir():
                continue
            for files in list_partition(LOCAL, directory).segments:
                with SegmentReader(LOCAL, directory, files.base_offset) as reader:
                    whole = reader.table()
                    assert whole.stop is Stop.END
                    assert whole.end_position == reader.size
                    assert bool(whole.crc_ok.all())
                    assert bool(whole.header_ok.all())
                    for chunk_bytes in (1, 1000, 64 * 1024):
                        chunks = list(reader.chunks(chunk_bytes=chunk_bytes))
                        positions = [row for chunk in chunks for row in chunk.table.position.tolist()]
                        assert positions == whole.position.tolist()
                        assert all(
                            bytes(chunk.buffer[:8]) == reader.read(chunk.base_position, 8).tobytes() for chunk in chunks
                        )


def test_a_range_ends_where_it_is_told(segment: Path) -> None:
    with SegmentReader(LOCAL, segment, 500) as reader:
        table = reader.table()
        third, sixth = int(table.position[3]), int(table.position[6])
        part = reader.table(third, sixth)
        assert part.base_offset.tolist() == [530, 540, 550]
        assert part.stop is Stop.END
        cut = reader.table(third, sixth + 5)
        assert (cut.stop, cut.end_position, len(cut)) == (Stop.PARTIAL, sixth, 3)
        assert len(reader.table(sixth, third)) == 0


@pytest.mark.parametrize("length", [-1, 0, 13, 48, 2**31 - 1])
def test_a_damaged_length_ends_the_walk_with_a_reason(segment: Path, length: int) -> None:
    path = segment / "00000000000000000500.log"
    with SegmentReader(LOCAL, segment, 500) as reader:
        at = int(reader.table().position[50])
    content = bytearray(path.read_bytes())
    struct.pack_into(">i", content, at + 8, length)
    path.write_bytes(content)
    with SegmentReader(LOCAL, segment, 500) as reader:
        for chunk_bytes in (100, 4096, 1 << 20):
            *_, last = reader.chunks(chunk_bytes=chunk_bytes)
            assert last.table.end_position == at
            assert last.table.stop is (Stop.PARTIAL if length > 0 and length > 48 else Stop.BAD_SIZE)


def test_a_file_that_shrinks_while_it_is_read_ends(segment: Path) -> None:
    path = segment / "00000000000000000500.log"
    with SegmentReader(LOCAL, segment, 500) as reader:
        chunks = reader.chunks(chunk_bytes=1000)
        first = next(chunks)
        with path.open("r+b") as file:
            file.truncate(first.table.end_position + 70)
        rest = list(chunks)
        assert sum(len(chunk.table) for chunk in rest) == 0
        assert [chunk.table.stop for chunk in rest] == [Stop.PARTIAL]


def test_an_open_reader_outlives_its_name(segment: Path) -> None:
    with SegmentReader(LOCAL, segment, 500) as reader:
        path = segment / "00000000000000000500.log"
        path.rename(path.with_name(path.name + ".deleted"))
        assert len(reader.table()) == 100
    with pytest.raises(FileMissingError):
        SegmentReader(LOCAL, segment, 500)
    with SegmentReader(LOCAL, segment, 500, state=FileState.DELETED) as reader:
        assert len(reader.table()) == 100


def test_every_offset_is_found_behind_its_position(segment: Path) -> None:
    with SegmentReader(LOCAL, segment, 500) as reader:
        table = reader.table()
        for offset in range(490, 1510):
            position = reader.position_of(offset)
            batch = max(0, min(99, (offset - 500) // 10))
            # An entry names a batch's last offset, so a lookup inside a batch finds the entry before it.
            exact = batch if offset % 10 == 9 or offset >= 1500 else max(0, batch - 1)
            assert position == (0 if offset < 519 else int(table.position[exact]))


def test_a_preallocated_index_ends_at_its_zeros(segment: Path) -> None:
    index = segment / "00000000000000000500.index"
    content = index.read_bytes()
    times = segment / "00000000000000000500.timeindex"
    with SegmentReader(LOCAL, segment, 500) as reader:
        expected, expected_times = reader.offset_hints, reader.time_hints
    index.write_bytes(content + bytes(10 * 1024 * 1024 - len(content)))
    times.write_bytes(times.read_bytes() + bytes(200_000))
    with SegmentReader(LOCAL, segment, 500) as reader:
        assert len(reader.offset_hints) == 99
        assert reader.offset_hints.positions.tolist() == expected.positions.tolist()
        assert reader.time_hints.timestamps.tolist() == expected_times.timestamps.tolist()
    index.write_bytes(bytes(1000))
    times.write_bytes(bytes(1200))
    with SegmentReader(LOCAL, segment, 500) as reader:
        assert (len(reader.offset_hints), len(reader.time_hints), reader.position_of(1200)) == (0, 0, 0)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.integers(490, 1600))
def test_no_index_makes_a_reader_miss_a_record(tmp_path_factory: pytest.TempPathFactory, index: bytes, at: int) -> None:
    directory = tmp_path_factory.mktemp("segment")
    log_maker.write_segment(directory, 500, [log_maker.plain(500 + 10 * number) for number in range(100)])
    (directory / "00000000000000000500.index").write_bytes(index)
    (directory / "00000000000000000500.timeindex").write_bytes(index)
    with SegmentReader(LOCAL, directory, 500) as reader:
        assert len(reader.time_hints) <= len(index) // 12
        table = reader.table(reader.position_of(at))
        assert bool(table.crc_ok.all())
        assert table.base_offset[0] <= max(at, 500)


def test_a_lying_index_is_found_out(segment: Path) -> None:
    """The entries ascend and point to batch boundaries, but to later batches than they name."""
    with SegmentReader(LOCAL, segment, 500) as reader:
        positions = reader.table().position.tolist()
    entries = [struct.pack(">ii", 10 * number + 9, positions[number + 20]) for number in range(1, 60)]
    (segment / "00000000000000000500.index").write_bytes(b"".join(entries))
    with SegmentReader(LOCAL, segment, 500) as reader:
        assert reader.position_of(700) == 0


def test_the_next_good_batch_is_found_behind_damage(segment: Path) -> None:
    path = segment / "00000000000000000500.log"
    with SegmentReader(LOCAL, segment, 500) as reader:
        positions = reader.table().position.tolist()
    content = bytearray(path.read_bytes())
    content[positions[3] + 8 : positions[5] + 30] = b"\x00\x00\x00\x02" * ((positions[5] + 22 - positions[3]) // 4)
    path.write_bytes(content[: len(path.read_bytes())])
    with SegmentReader(LOCAL, segment, 500) as reader:
        found = next_sound_batch(reader, positions[3], None, 530, 10_000)
        assert found is not None
        assert reader.table(found).base_offset[0] == 560
        assert next_sound_batch(reader, positions[3], None, 5000, 10_000) is None
        assert next_sound_batch(reader, positions[3], positions[4], 530, 10_000) is None


@given(
    sizes=st.lists(st.integers(0, 900), max_size=12),
    end=st.sampled_from([b"", b"x", bytes(40), log_maker.plain(9000)[:-1], log_maker.plain(9000)[:-1] + b"!"]),
    block_bytes=st.integers(1, 1000),
    table_bytes=st.integers(1, 3000),
)
@settings(deadline=None)
def test_tables_have_all_valid_batches_once(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], end: bytes, block_bytes: int, table_bytes: int
) -> None:
    """Blocks and tables are small here, so batches are larger than a block, and tables end inside one."""
    batches = [log_maker.batch(10 * number, [bytes(size)]) for number, size in enumerate(sizes)]
    directory = tmp_path_factory.mktemp("t-0")
    (directory / f"{0:020d}.log").write_bytes(b"".join([*batches, end]))
    with SegmentReader(LOCAL, directory, 0) as reader, pytest.MonkeyPatch.context() as patch:
        whole = reader.table()
        patch.setattr(segment_reader, "_BLOCK_BYTES", block_bytes)
        patch.setattr(segment_reader, "_TABLE_BYTES", table_bytes)
        tables = list(reader.tables())
    assert [row for table in tables for row in table.position.tolist()] == whole.position.tolist()
    assert [row for table in tables for row in table.crc_ok.tolist()] == whole.crc_ok.tolist()
    assert all(len(table) for table in tables[:-1])


@given(
    sizes=st.lists(st.integers(0, 900), max_size=12),
    end=st.sampled_from([b"", b"x", bytes(40), log_maker.plain(9000)[:-1], log_maker.plain(9000)[:-1] + b"!"]),
    chunk_bytes=st.integers(1, 3000),
)
@settings(deadline=None)
def test_headers_are_those_of_all_complete_batches(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], end: bytes, chunk_bytes: int
) -> None:
    """Batches are larger than a chunk here."""
    batches = [log_maker.batch(10 * number, [bytes(size)]) for number, size in enumerate(sizes)]
    directory = tmp_path_factory.mktemp("t-0")
    (directory / f"{0:020d}.log").write_bytes(b"".join([*batches, end]))
    with SegmentReader(LOCAL, directory, 0) as reader, pytest.MonkeyPatch.context() as patch:
        whole = reader.table(verify_crc=False)
        patch.setattr(segment_reader, "CHUNK_BYTES", chunk_bytes)
        tables = list(reader.headers(0, reader.size))
    assert [row for table in tables for row in table.position.tolist()] == whole.position.tolist()
    assert [row for table in tables for row in table.max_timestamp.tolist()] == whole.max_timestamp.tolist()
    assert sum(table.end_position for table in tables[-1:]) == whole.end_position


def test_tables_end_in_a_file_that_shrinks_while_it_is_read(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "_BLOCK_BYTES", 1000)
    monkeypatch.setattr(segment_reader, "_TABLE_BYTES", 1000)
    with SegmentReader(LOCAL, segment, 500) as reader:
        tables = reader.tables()
        first = next(tables)
        with (segment / f"{500:020d}.log").open("r+b") as file:
            file.truncate(first.end_position + 30)
        assert sum(map(len, tables)) == 0
