"""Atomic replacement of files: the sequence of steps, and the state that each interrupted step leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidelog.model import StorageError
from tidelog.storage.fs import LOCAL, read_whole, write_atomically


class Interrupted:
    """A file system that allows the first ``allowed`` changing calls, then fails."""

    def __init__(self, inner: Any, allowed: list[int], calls: list[str]) -> None:
        self._inner, self._allowed, self._calls = inner, allowed, calls

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._inner, name)
        if name not in ("open", "truncate", "pwrite", "sync", "rename", "sync_dir"):
            return inner

        def call(*args: Any, **options: Any) -> Any:
            if self._allowed[0] == 0:
                raise StorageError("the power is gone")
            self._allowed[0] -= 1
            self._calls.append(name)
            result = inner(*args, **options)
            return Interrupted(result, self._allowed, self._calls) if name == "open" else result

        return call

    def __enter__(self) -> Interrupted:
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.close()


STEPS = ["open", "truncate", "pwrite", "sync", "rename", "sync_dir"]


def test_the_steps(tmp_path: Path) -> None:
    calls: list[str] = []
    write_atomically(Interrupted(LOCAL, [100], calls), tmp_path / "file", b"new")
    assert calls == STEPS
    assert read_whole(LOCAL, tmp_path / "file") == b"new"
    assert LOCAL.list_names(tmp_path) == ["file"]


def test_a_link_in_the_place_of_the_temporary_file_is_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"somebody else's")
    (tmp_path / "file.tmp").symlink_to(other)
    write_atomically(LOCAL, tmp_path / "file", b"new")
    assert other.read_bytes() == b"somebody else's"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()


@pytest.mark.parametrize("done", range(len(STEPS)))
def test_an_interruption_leaves_the_old_or_the_new(tmp_path: Path, done: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old contents")
    with pytest.raises(StorageError, match="power"):
        write_atomically(Interrupted(LOCAL, [done], []), path, b"new")
    assert path.read_bytes() == (b"new" if done > STEPS.index("rename") else b"old contents")
    write_atomically(LOCAL, path, b"newer")
    assert path.read_bytes() == b"newer"
    assert LOCAL.list_names(tmp_path) == ["file"]


def test_a_longer_leftover_does_not_show_through(tmp_path: Path) -> None:
    (tmp_path / "file.tmp").write_bytes(b"x" * 1000)
    write_atomically(LOCAL, tmp_path / "file", b"short")
    assert read_whole(LOCAL, tmp_path / "file") == b"short"
