"""A segment that is written next to a log, and then replaces other segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_maker import plain
from tidelog.kernel import scan_batches
from tidelog.model import OffsetOverflowError, StorageError
from tidelog.storage.fs import LOCAL
from tidelog.storage.index import AbortedTxn, TransactionIndexReader
from tidelog.storage.segment.cleaned_segment import CleanedSegment
from tidelog.storage.segment.limits import MAX_SEGMENT_BYTES

REACH = 2**31 - 1


def cleaned_segment(directory: Path, base_offset: int = 0) -> CleanedSegment:
    return CleanedSegment(LOCAL, directory, base_offset, index_interval_bytes=0)


def add(made: CleanedSegment, *batches: bytes) -> None:
    data = b"".join(batches)
    made.append(data, scan_batches(data))


def names(directory: Path) -> list[str]:
    return sorted(path.name[20:] for path in directory.iterdir())


def test_its_files(tmp_path: Path) -> None:
    made, batches = cleaned_segment(tmp_path), [plain(0), plain(10), plain(25)]
    add(made, *batches[:2])
    add(made)
    add(made, batches[2])
    transaction = AbortedTxn(7, 0, 10, 11)
    made.append_aborted(transaction)
    made.finish(mtime_ms=1_234_000)
    assert names(tmp_path) == [".index.cleaned", ".log.cleaned", ".timeindex.cleaned", ".txnindex.cleaned"]
    assert made.path.read_bytes() == b"".join(batches)
    assert made.size == len(b"".join(batches))
    index = made.path.with_name(made.path.name.replace(".log", ".index")).read_bytes()
    sizes = [len(content) for content in batches]
    assert [int.from_bytes(index[at : at + 4], "big") for at in range(0, len(index), 4)] == [
        19,
        sizes[0],
        34,
        sizes[0] + sizes[1],
    ]
    aborted = made.path.with_name(made.path.name.replace(".log", ".txnindex")).read_bytes()
    assert [*TransactionIndexReader(aborted, 0)] == [transaction]
    assert {LOCAL.stat(path).mtime_ms for path in tmp_path.iterdir() if ".txn" not in path.name} == {1_234_000}


def test_an_empty_one(tmp_path: Path) -> None:
    cleaned_segment(tmp_path).finish(mtime_ms=0)
    assert names(tmp_path) == [".index.cleaned", ".log.cleaned", ".timeindex.cleaned"]
    assert {path.stat().st_size for path in tmp_path.iterdir()} == {0}


def test_leftovers_are_replaced(tmp_path: Path) -> None:
    for suffix in (".log", ".index", ".txnindex"):
        (tmp_path / f"{0:020d}{suffix}.cleaned").write_bytes(b"left over")
    made = cleaned_segment(tmp_path)
    add(made, plain(0))
    made.finish(mtime_ms=0)
    assert made.path.read_bytes() == plain(0)
    assert ".txnindex.cleaned" not in names(tmp_path)


@pytest.mark.parametrize("finished", [False, True])
def test_nothing_is_left_of_one_that_is_discarded(tmp_path: Path, finished: bool) -> None:
    made = cleaned_segment(tmp_path)
    add(made, plain(0))
    if finished:
        made.finish(mtime_ms=0)
    made.discard()
    made.discard()
    assert names(tmp_path) == []


def test_offsets_out_of_reach(tmp_path: Path) -> None:
    made = cleaned_segment(tmp_path, 5)
    add(made, plain(5 + REACH, 1))
    with pytest.raises(OffsetOverflowError, match="31 bits above"):
        add(made, plain(6 + REACH, 1))
    assert made.path.read_bytes() == plain(5 + REACH, 1)
    made.discard()


def test_more_than_two_gib(tmp_path: Path) -> None:
    made = cleaned_segment(tmp_path)
    made.size = MAX_SEGMENT_BYTES - 10
    with pytest.raises(StorageError, match="2 GiB"):
        add(made, plain(0))
    made.discard()
