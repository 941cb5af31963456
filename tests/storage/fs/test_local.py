"""The local file system keeps the promises of the protocol on real files."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.model import ClosedError, DirectoryError, FileMissingError, StorageError
from tidelog.storage.fs import LOCAL, FileStat, read_whole


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(bytes(range(100)))
    return path


def test_reads_end_at_the_end_of_the_file(file: Path) -> None:
    with LOCAL.open(file) as opened:
        assert opened.size == 100
        assert opened.path == file
        assert opened.pread(10, 5) == bytes(range(5, 15))
        assert opened.pread(50, 90) == bytes(range(90, 100))
        assert opened.pread(50, 100) == opened.pread(50, 5000) == b""
        buffer = bytearray(30)
        assert opened.pread_into(buffer, 80) == 20
        assert buffer == bytes(range(80, 100)) + bytes(10)
        assert opened.pread_into(memoryview(buffer)[5:15], 0) == 10
        assert buffer[5:15] == bytes(range(10))


def test_reading_leaves_no_trace(file: Path) -> None:
    os.utime(file, ns=(10**18, 10**18 + 7))
    before = (os.stat(file).st_mtime_ns, os.stat(file.parent).st_mtime_ns)
    with LOCAL.open(file) as opened:
        opened.pread(100, 0)
        opened.map(100).close()
    assert LOCAL.stat(file) == FileStat(size=100, mtime_ms=10**12, is_dir=False)
    assert LOCAL.list_names(file.parent) == ["data"]
    assert (os.stat(file).st_mtime_ns, os.stat(file.parent).st_mtime_ns) == before


def test_a_write_that_the_system_shortens_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: whole(fd, data[:3], position))
    with LOCAL.open(tmp_path / "new", create=True) as opened:
        assert opened._write_slowly(b"0123456789", 4) == 10
    assert (tmp_path / "new").read_bytes() == bytes(4) + b"0123456789"


def test_a_write_that_does_not_fit_raises(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with LOCAL.open(tmp_path / "new", create=True) as opened:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        try:
            with pytest.raises(StorageError, match="would grow past"):
                opened.pwrite(bytes(150), 0)
            assert opened.pwrite(bytes(60), 40) == 60
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_writes_extend_and_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with LOCAL.open(path, create=True) as opened:
        assert opened.pwrite(b"abc", 0) == 3
        assert opened.pwrite(memoryview(b"xyz")[1:], 5) == 2
        opened.sync()
        assert opened.pread(10, 0) == b"abc\0\0yz"
        opened.truncate(4)
        opened.allocate(2)
        assert opened.size == 4
        opened.allocate(6)
    assert read_whole(LOCAL, path) == b"abc\0\0\0"
    assert stat.S_IMODE(path.stat().st_mode) & 0o022 == 0
    with LOCAL.open(path, create=True) as opened:
        assert opened.size == 6


def test_a_mapping_shows_later_writes(tmp_path: Path) -> None:
    with LOCAL.open(tmp_path / "map", create=True) as opened:
        opened.allocate(4096)
        mapping = opened.map(4096)
        opened.pwrite(b"seen", 100)
        assert mapping[100:104] == b"seen"
        with pytest.raises(TypeError):
            mapping[0] = 1
        mapping.close()
        with pytest.raises(ValueError, match="empty"):
            opened.map(0)
        with pytest.raises(StorageError, match="4097 bytes of a file of 4096"):
            opened.map(4097)


def test_directories(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    LOCAL.make_dir(deep)
    LOCAL.make_dir(deep)
    assert LOCAL.stat(deep).is_dir
    assert LOCAL.exists(deep)
    for name in ("z", "m", "a"):
        (deep / name).touch()
    assert LOCAL.list_names(deep) == ["a", "m", "z"]
    LOCAL.rename(deep / "z", deep / "a")
    LOCAL.sync_dir(deep)
    assert LOCAL.list_names(deep) == ["a", "m"]
    with pytest.raises(DirectoryError, match="not empty"):
        LOCAL.remove_dir(deep)
    LOCAL.remove(deep / "a")
    LOCAL.remove(deep / "m")
    LOCAL.remove(deep / "m", missing_ok=True)
    LOCAL.remove_dir(deep)
    assert not LOCAL.exists(deep)


def test_sizes_beside_the_names(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"123")
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "c").mkdir()
    (tmp_path / "d").symlink_to(tmp_path / "b")
    (tmp_path / "e").symlink_to(tmp_path / "none")
    (tmp_path / "f").symlink_to("f")
    assert list(LOCAL.list_sizes(tmp_path).items()) == [("a", 0), ("b", 3), ("c", -1), ("d", 3), ("e", -1), ("f", -1)]


def test_the_directories_alone(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "b")
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    (tmp_path / "to-itself").symlink_to("to-itself")
    assert LOCAL.list_directories(tmp_path) == ["a", "b", "link"]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda path: LOCAL.open(path / "none"), FileMissingError, "cannot open: no such file or directory"),
        (lambda path: LOCAL.open(path / "none", write=True), FileMissingError, "no such file"),
        (lambda path: LOCAL.open(path), StorageError, "it is a directory"),
        (lambda path: LOCAL.open(path, write=True), StorageError, "it is a directory"),
        (lambda path: LOCAL.open(path / "file" / "below"), DirectoryError, "not a directory"),
        (lambda path: LOCAL.open(path / ("n" * 300), create=True), StorageError, "the name is too long"),
        (lambda path: LOCAL.list_names(path / "file"), DirectoryError, "not a directory"),
        (lambda path: LOCAL.list_names(path / "none"), FileMissingError, "cannot list the directory"),
        (lambda path: LOCAL.list_sizes(path / "none"), FileMissingError, "cannot list the directory"),
        (lambda path: LOCAL.list_directories(path / "file"), DirectoryError, "cannot list the directory"),
        (lambda path: LOCAL.stat(path / "none"), FileMissingError, "no such file"),
        (lambda path: LOCAL.remove(path / "none"), FileMissingError, "cannot remove"),
        (lambda path: LOCAL.rename(path / "none", path / "x"), FileMissingError, "cannot rename to x"),
        (lambda path: LOCAL.make_dir(path / "file"), StorageError, "exists already"),
        (lambda path: LOCAL.sync_dir(path / "file"), DirectoryError, "not a directory"),
        (lambda path: LOCAL.lock(path / "none" / ".lock"), FileMissingError, "cannot lock"),
    ],
)
def test_failures_say_what_and_where(
    tmp_path: Path, call: Callable[[Path], object], kind: type[StorageError], message: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(kind, match=message) as caught:
        call(tmp_path)
    assert type(caught.value) is kind
    assert str(tmp_path) in str(caught.value)
    assert caught.value.code == 56


def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(StorageError, match="not a regular file"):
        LOCAL.open(tmp_path / "fifo")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "mounted read-only"),
        (errno.EIO, "the disk reports an input/output error"),
        (errno.EMFILE, "too many open files"),
        (errno.ENOTRECOVERABLE, os.strerror(errno.ENOTRECOVERABLE)),
    ],
)
def test_errors_that_a_test_cannot_cause(file: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number), str(file))

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(StorageError, match=f"cannot open: .*{reason}") as caught:
        LOCAL.open(file)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.is_disk_failure == (number != errno.EMFILE)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the device that is always full is Linux's")
def test_a_full_disk(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LOCAL.open(file, write=True) as opened:
        full = os.open("/dev/full", os.O_RDWR)
        monkeypatch.setattr(opened, "_fd", full)
        with pytest.raises(StorageError, match="cannot write: no space left on the disk") as caught:
            opened.pwrite(b"x", 0)
        assert caught.value.path == str(file)


def test_a_read_only_descriptor_cannot_write(file: Path) -> None:
    with LOCAL.open(file) as opened:
        for write in (lambda: opened.pwrite(b"x", 0), lambda: opened.truncate(0), lambda: opened.allocate(500)):
            with pytest.raises(StorageError):
                write()
    assert file.read_bytes() == bytes(range(100))


def test_a_closed_file_refuses_every_call(file: Path) -> None:
    opened = LOCAL.open(file, write=True)
    opened.close()
    opened.close()
    for call in (
        lambda: opened.size,
        lambda: opened.pread(1, 0),
        lambda: opened.pread_into(bytearray(1), 0),
        lambda: opened.pwrite(b"x", 0),
        lambda: opened.truncate(0),
        lambda: opened.allocate(1),
        lambda: opened.sync(),
        lambda: opened.map(1),
        lambda: opened.fileno(),
    ):
        with pytest.raises(ClosedError):
            call()


def test_a_dropped_file_closes_its_descriptor(file: Path) -> None:
    descriptor = LOCAL.open(file).fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.binary(max_size=40), st.integers(0, 100)),
            st.tuples(st.just("cut"), st.just(b""), st.integers(0, 100)),
            st.tuples(st.just("grow"), st.just(b""), st.integers(0, 100)),
        ),
        max_size=12,
    ),
    st.integers(0, 150),
    st.integers(0, 150),
)
def test_as_a_bytearray(tmp_path: Path, steps: list[tuple[str, bytes, int]], length: int, position: int) -> None:
    model = bytearray()
    path = tmp_path / "model"
    path.unlink(missing_ok=True)
    with LOCAL.open(path, create=True) as opened:
        for verb, data, at in steps:
            if verb == "write" and data:
                model.extend(bytes(max(0, at + len(data) - len(model))))
                model[at : at + len(data)] = data
                opened.pwrite(data, at)
            elif verb == "cut":
                model = model[:at] + bytes(max(0, at - len(model)))
                opened.truncate(at)
            elif verb == "grow":
                model.extend(bytes(max(0, at - len(model))))
                opened.allocate(at)
        assert opened.size == len(model)
        assert opened.pread(length, position) == model[position : position + length]
