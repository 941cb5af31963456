"""The read-only file system refuses every writing call and passes on the others."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tidelog.model import LockedError, ReadOnlyError, StorageError
from tidelog.storage.fs import LOCAL, FileSystem, ReadOnlyFileSystem, read_whole

READING = {"open", "list_names", "list_directories", "list_sizes", "stat", "exists", "lock_holder"}


def test_every_call_is_either_passed_on_or_refused(tmp_path: Path) -> None:
    """A call added to the protocol must be added here to one of the two lists."""
    calls = {name for name, _ in inspect.getmembers(FileSystem, inspect.isfunction) if not name.startswith("_")}
    fs = ReadOnlyFileSystem(LOCAL)
    (tmp_path / "file").write_bytes(b"data")
    before = tmp_path.stat().st_mtime_ns
    other = tmp_path / "other"
    further: dict[str, list[Path | int]] = {"rename": [other], "link": [other], "set_mtime": [0]}
    for name in sorted(calls - READING):
        with pytest.raises(ReadOnlyError, match="opened for reading only"):
            getattr(fs, name)(tmp_path / "file", *further.get(name, []))
    for options in ({"write": True}, {"create": True}):
        with pytest.raises(ReadOnlyError):
            fs.open(tmp_path / "new", **options)
    assert tmp_path.stat().st_mtime_ns == before
    assert fs.list_names(tmp_path) == ["file"]
    assert fs.exists(tmp_path / "file")
    assert fs.stat(tmp_path / "file").size == 4
    assert fs.lock_holder(tmp_path / "file") is None
    assert read_whole(fs, tmp_path / "file") == b"data"
    with fs.open(tmp_path / "file") as file, pytest.raises(StorageError):
        file.pwrite(b"x", 0)


def test_it_reads_while_the_directory_is_locked(tmp_path: Path) -> None:
    lock = LOCAL.lock(tmp_path / ".lock")
    fs = ReadOnlyFileSystem(LOCAL)
    assert fs.list_names(tmp_path) == [".lock"]
    with pytest.raises(LockedError):
        fs.open(tmp_path / ".lock")
    lock.release()


def test_wrappers_of_wrappers_read_the_innermost_directly(tmp_path: Path) -> None:
    """A view is renewed from the view before it, with each look at the log of a running broker."""
    (tmp_path / "file").write_bytes(b"data")
    fs = ReadOnlyFileSystem(ReadOnlyFileSystem(LOCAL))
    assert fs._inner is LOCAL
    assert read_whole(fs, tmp_path / "file") == b"data"
    with pytest.raises(ReadOnlyError):
        fs.open(tmp_path / "file", write=True)
