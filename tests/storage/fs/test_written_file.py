"""Whole files that the kernel reads and writes: bytes and errors as by single calls, and the sequence of its calls."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.fs.test_record_lock import another_process
from tidelog.model import ClosedError, LockedError, StorageError
from tidelog.storage.fs import LOCAL, FileSystem, LocalFileSystem, read_small, write_atomically, write_whole


class SingleCalls(LocalFileSystem):
    """The file system of this machine, which writes files by single calls as any other file system does."""


BOTH = pytest.mark.parametrize("fs", [LOCAL, SingleCalls()], ids=["kernel", "single calls"])
OLD = st.none() | st.binary(max_size=300)
REPLACE = ["pwrite file.tmp", "fsync file.tmp", "rename file.tmp"]


@given(old=OLD, leftover=OLD, new=st.binary(max_size=300))
def test_both_ways_leave_the_same_files(old: bytes | None, leftover: bytes | None, new: bytes) -> None:
    left = []
    for fs in (LOCAL, SingleCalls()):
        for write in (write_whole, write_atomically):
            with tempfile.TemporaryDirectory() as name:
                path = Path(name) / "file"
                for file, data in ((path, old), (Path(name) / "file.tmp", leftover)):
                    if data is not None:
                        file.write_bytes(data)
                write(fs, path, new)
                assert path.read_bytes() == new
                left.append({file.name: (file.read_bytes(), file.stat().st_mode) for file in Path(name).iterdir()})
    assert left[:2] == left[2:]


@BOTH
@pytest.mark.parametrize("write", [write_whole, write_atomically])
def test_the_path_is_no_file(tmp_path: Path, fs: FileSystem, write: Callable[[FileSystem, Path, bytes], None]) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    os.mkfifo(tmp_path / "file.tmp")
    (tmp_path / "directory.tmp").mkdir()
    for name in ("directory", "missing/file", *(["fifo"] if write is write_whole else ["file"])):
        with pytest.raises(StorageError) as error:
            write(fs, tmp_path / name, b"new")
        assert error.value.message == f"cannot open: {REASONS[name]}"


REASONS = {
    "directory": "it is a directory, a file was expected",
    "missing/file": "no such file or directory",
    "fifo": "it is not a regular file, a file was expected",
    "file": "it is not a regular file, a file was expected",
}


@given(data=st.binary(max_size=300), size=st.integers(0, 300))
def test_a_small_file_is_read_if_it_has_its_size(data: bytes, size: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file"
        path.write_bytes(data)
        read = read_small(LOCAL, path, size)
        assert (read is None) == (size != len(data))
        exact = read_small(LOCAL, path, len(data))
        assert exact is not None
        with exact, LOCAL.open(path) as file:
            assert (exact.path, exact.size, exact.pread(300, 0)) == (path, len(data), data)
            for position in (0, size, len(data)):
                assert exact.pread(7, position) == file.pread(7, position)
                buffers = bytearray(9), bytearray(9)
                assert exact.pread_into(buffers[0], position) == file.pread_into(buffers[1], position)
                assert buffers[0] == buffers[1]


def test_files_that_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(bytes(600_000))
    for name, size in (("missing", 0), ("fifo", 0), (".", 0), ("large", 600_000), ("large", -1)):
        assert read_small(LOCAL, tmp_path / name, size) is None
    (tmp_path / "file").write_bytes(b"data")
    assert read_small(SingleCalls(), tmp_path / "file", 4) is None


def test_a_held_lock_is_not_read(tmp_path: Path) -> None:
    """The kernel releases a lock when any descriptor of its file is closed."""
    lock = LOCAL.lock(tmp_path / ".lock")
    assert read_small(LOCAL, tmp_path / ".lock", 0) is None
    assert another_process(tmp_path / ".lock")[1].startswith("LockedError")
    lock.release()
    assert read_small(LOCAL, tmp_path / ".lock", 0) is not None


@BOTH
@pytest.mark.parametrize("write", [write_whole, write_atomically])
def test_a_held_lock_is_not_written(
    tmp_path: Path, fs: FileSystem, write: Callable[[FileSystem, Path, bytes], None]
) -> None:
    """The file, or its temporary one, is another name of the lock."""
    lock = LOCAL.lock(tmp_path / ".lock")
    (tmp_path / ("file" if write is write_whole else "file.tmp")).hardlink_to(tmp_path / ".lock")
    with pytest.raises(LockedError):
        write(fs, tmp_path / "file", b"new")
    assert another_process(tmp_path / ".lock")[1].startswith("LockedError")
    lock.release()
    assert (tmp_path / ".lock").read_bytes() == b""


def test_a_closed_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    read = read_small(LOCAL, tmp_path / "file", 4)
    assert read is not None
    read.close()
    read.close()
    for call in (lambda: read.size, lambda: read.pread(1, 0), lambda: read.pread_into(bytearray(1), 0)):
        with pytest.raises(ClosedError):
            call()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that watches the calls of a process."""
    built = tmp_path_factory.mktemp("library") / "watched_calls.so"
    source = Path(__file__).with_name("watched_calls.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True)
    return built


def calls_of(library: Path, directory: Path, code: str, *, failing: str = "") -> tuple[list[str], str]:
    """Run ``code`` in a process, with ``path`` in the directory. Return the calls that change it, and the output."""
    listed = directory.parent / f"{directory.name}.calls"
    listed.write_text("")
    imports = "from pathlib import Path; from tidelog.storage.fs import LOCAL, write_atomically, write_whole"
    run = subprocess.run(
        [sys.executable, "-c", f"{imports}; path = Path({str(directory / 'file')!r}); {code}"],
        env=os.environ
        | {"LD_PRELOAD": str(library), "WATCHED": str(directory), "CALLS": str(listed)}
        | ({"FAILING": failing, "ERRNO": str(errno.EIO)} if failing else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    return listed.read_text().splitlines(), run.stderr


def test_the_calls_of_a_replacement(library: Path, tmp_path: Path) -> None:
    """The new bytes are synced before their file gets its name, and the directory after it."""
    assert calls_of(library, tmp_path, "write_atomically(LOCAL, path, b'new')")[0] == [
        *REPLACE,
        f"fsync {tmp_path.name}",
    ]
    assert calls_of(library, tmp_path, "write_atomically(LOCAL, path, b'new', syncs_name=False)")[0] == REPLACE
    (tmp_path / "file.tmp").write_bytes(b"longer")
    calls, _ = calls_of(library, tmp_path, "write_atomically(LOCAL, path, b'new', syncs_name=False)")
    assert calls == [REPLACE[0], "ftruncate file.tmp", *REPLACE[1:]]


def test_the_calls_of_a_write(library: Path, tmp_path: Path) -> None:
    """Neither a new file nor a growing one is truncated: ext4 flushes a file at its close that was made empty."""
    for data in ("b'new'", "b'newer'"):
        assert calls_of(library, tmp_path, f"write_whole(LOCAL, path, {data})")[0] == ["pwrite file"]
    assert calls_of(library, tmp_path, "write_whole(LOCAL, path, b'new')")[0] == ["pwrite file", "ftruncate file"]


@pytest.mark.parametrize(
    ("failing", "calls", "action"),
    [("pwrite", REPLACE[:1], "write"), ("fsync", REPLACE[:2], "sync"), ("rename", REPLACE, "rename to file")],
)
def test_a_call_fails(library: Path, tmp_path: Path, failing: str, calls: list[str], action: str) -> None:
    """No later call is made, and none is made again: after a failed sync a second one may report success."""
    (tmp_path / "file").write_bytes(b"old")
    made, output = calls_of(library, tmp_path, "write_atomically(LOCAL, path, b'new')", failing=failing)
    assert made == calls
    assert f"cannot {action}: the disk reports an input/output error (file {tmp_path}/file.tmp)" in output
    assert (tmp_path / "file").read_bytes() == b"old"
