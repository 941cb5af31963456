"""The survey of partition directories finds the same as the loader's own reads, or nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_maker import batch, write_segment
from storage.fs.test_record_lock import another_process
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.fs import LOCAL, ReadOnlyFileSystem
from tidelog.storage.log.load.leftover_files import read_end_offset
from tidelog.storage.log.load.listing import PartitionListing, SegmentFiles, list_with_sizes
from tidelog.storage.log.load.load_plan import corrupt_indexes, plan_recovery
from tidelog.storage.log.load.survey import survey
from tidelog.storage.segment.file_names import FileKind, segment_file
from tidelog.storage.segment.segment_reader import SegmentReader

MOST_BYTES = 4096
TAIL_BYTES = 64 * 1024
METADATA = "partition.metadata"
LOG, INDEX, TIME_INDEX, SNAPSHOT = (f"{7:020d}.{kind}" for kind in ("log", "index", "timeindex", "snapshot"))
EARLIER = [f"{6:020d}.log", f"{6:020d}.index"]
NAMES = [LOG, INDEX, TIME_INDEX, SNAPSHOT, *EARLIER, METADATA, LEADER_EPOCH_CHECKPOINT, "x"]


def surveyed(directory: Path) -> PartitionListing:
    (found,) = survey(LOCAL, [directory], index_ends=True)
    assert found is not None
    return found


def require_equal(directory: Path) -> PartitionListing:
    """Compare a survey with the plain reads. Unread files and an unknown end are allowed."""
    found, plain = surveyed(directory), list_with_sizes(LOCAL, directory)
    for name in PartitionListing.__dataclass_fields__:
        if name not in ("contents", "end_offset", "index_ends"):
            assert getattr(found, name) == getattr(plain, name), name
    for name, content in found.contents.items():
        assert content == (directory / name).read_bytes()
    for name, ends in found.index_ends.items():
        assert ends == ends_of((directory / name).read_bytes(), 8 if name.endswith(".index") else 12)
    indexes = {FileKind.INDEX, FileKind.TIME_INDEX}
    assert found.index_ends.keys() == {
        segment_file(directory, segment.base_offset, kind).name
        for segment in (*plain.segments, *(SegmentFiles(base_offset=one.offset, sizes={}) for one in plain.orphans))
        for kind in indexes
        if segment_file(directory, segment.base_offset, kind).is_file()
    }
    assert corrupt(directory, plain, found.index_ends) == corrupt(directory, plain, {})
    if found.end_offset >= 0:
        with SegmentReader(LOCAL, directory, plain.base_offsets[-1]) as reader:
            assert found.end_offset == read_end_offset(reader)
    return found


def ends_of(data: bytes, entry_size: int) -> bytes:
    """Return the first entry, and the last one with a partial entry after it."""
    tail = entry_size + len(data) % entry_size
    return data if len(data) <= tail else data[:entry_size] + data[-tail:]


def corrupt(directory: Path, listing: PartitionListing, ends: Mapping[str, bytes]) -> dict[int, frozenset[FileKind]]:
    kinds = frozenset({FileKind.INDEX, FileKind.TIME_INDEX})
    regular = [one for one in listing.segments if all(one.path(directory, kind).is_file() for kind in one.kinds)]
    return corrupt_indexes(LOCAL, directory, regular, kinds, ends)


def batches(first: int, count: int, size: int) -> list[bytes]:
    return [batch(first + 2 * number, [b"x" * size, None]) for number in range(count)]


def test_a_usual_directory(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batches(0, 3, 10))
    write_segment(tmp_path, 7, batches(7, 40, 9000))  # its end is found by the index
    for name in (f"{6:020d}.snapshot", SNAPSHOT, LEADER_EPOCH_CHECKPOINT, METADATA):
        (tmp_path / name).write_bytes(name.encode())
    found = require_equal(tmp_path)
    assert (tmp_path / LOG).stat().st_size > 2 * TAIL_BYTES
    assert found.contents.keys() == {SNAPSHOT, LEADER_EPOCH_CHECKPOINT, METADATA}
    assert found.end_offset == 87


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / METADATA).write_bytes(bytes(MOST_BYTES))
    (tmp_path / LEADER_EPOCH_CHECKPOINT).write_bytes(bytes(MOST_BYTES + 1))
    assert require_equal(tmp_path).contents.keys() == {METADATA}


def test_names_of_any_kind(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / METADATA).mkdir()
    os.mkfifo(tmp_path / LEADER_EPOCH_CHECKPOINT)
    (tmp_path / SNAPSHOT).symlink_to("nothing")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / LOG).symlink_to("directory")
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff\xfe")).write_bytes(b"123")
    found = require_equal(tmp_path)
    assert not found.contents
    assert found.end_offset == -1


def test_a_directory_that_cannot_be_listed(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batches(0, 1, 10))
    first, second, third = survey(LOCAL, [tmp_path / "missing", tmp_path, tmp_path / LOG], index_ends=True)
    assert (first, third) == (None, None)
    assert second is not None
    assert second.end_offset == 2


def test_another_file_system_is_not_surveyed() -> None:
    assert survey(ReadOnlyFileSystem(LOCAL), [Path("/a"), Path("/b")], index_ends=True) == [None, None]


def test_indexes_are_checked_by_their_ends(tmp_path: Path) -> None:
    """The plan of a recovery opens no index: each survey is planned with the files of the other one."""
    write_segment(tmp_path, 7, batches(7, 40, 9000))
    write_segment(tmp_path, 87, batches(87, 1, 10))
    index = tmp_path / INDEX
    sound = index.read_bytes()
    damaged = sound[:-8] + (-1).to_bytes(4, "big", signed=True) + sound[-4:]  # the last offset is below the base offset
    for surveyed_bytes, other_bytes, expected in ((sound, damaged, [87]), (damaged, sound, [7, 87])):
        index.write_bytes(surveyed_bytes)
        listing = surveyed(tmp_path)
        index.write_bytes(other_bytes)
        plan = plan_recovery(LOCAL, tmp_path, listing, clean_shutdown=False, recovery_point=87)
        assert [part.base_offset for part in plan.recover] == expected


def test_an_empty_segment_ends_at_its_base_offset(tmp_path: Path) -> None:
    write_segment(tmp_path, 7, [])
    assert require_equal(tmp_path).end_offset == 7


@pytest.mark.parametrize("damage", [b"\0", batch(9, [b"x"])[:-1], batch(9, [b"x"])[:30], batch(3, [b"x"])])
def test_another_end_is_unknown(tmp_path: Path, damage: bytes) -> None:
    write_segment(tmp_path, 7, batches(7, 1, 10))
    with (tmp_path / LOG).open("ab") as log:
        log.write(damage)
    assert require_equal(tmp_path).end_offset == -1


def test_an_index_that_leads_to_an_invalid_batch_is_not_trusted(tmp_path: Path) -> None:
    write_segment(tmp_path, 7, batches(7, 40, 9000))
    position = int.from_bytes((tmp_path / INDEX).read_bytes()[-4:], "big")
    with (tmp_path / LOG).open("r+b") as log:
        log.seek(position + 100)
        log.write(b"!")
    assert require_equal(tmp_path).end_offset == -1


def test_a_held_lock_stays_held(tmp_path: Path) -> None:
    """The kernel releases a lock when any descriptor of its file is closed, also one of another name."""
    lock = LOCAL.lock(tmp_path / ".lock")
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / METADATA).hardlink_to(tmp_path / ".lock")
    assert not surveyed(tmp_path / "t-0").contents
    assert another_process(tmp_path / ".lock")[1].startswith("LockedError")
    lock.release()


@given(
    files=st.dictionaries(
        st.sampled_from(NAMES),
        st.binary(max_size=40) | st.integers(0, 12).map(lambda count: b"".join(batches(7, count, 7000))),
    ),
    flip=st.none() | st.tuples(st.integers(0, 200_000), st.integers(1, 255)),
)
@settings(deadline=None)
def test_any_files(files: dict[str, bytes], flip: tuple[int, int] | None) -> None:
    with tempfile.TemporaryDirectory() as name:
        for file, data in files.items():
            changed = bytearray(data)
            if flip is not None and changed:
                changed[flip[0] % len(changed)] ^= flip[1]
            (Path(name) / file).write_bytes(changed)
        require_equal(Path(name))
