"""Object storage without a service: fsspec's store in memory."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from tidelog.model import ReadOnlyError
from tidelog.storage.fs import path_of, read_whole
from tidelog.storage.fs.objects import ObjectFileSystem


def test_an_object_is_read_and_not_written() -> None:
    store, fs = fsspec.filesystem("memory"), ObjectFileSystem()
    store.pipe("/small/t-0/0.log", b"content")
    path = path_of("memory://small/t-0/0.log")
    with fs.open(path) as file:
        assert (file.size, file.pread(3, 4)) == (7, b"ent")
    for options in ({"write": True}, {"create": True}):
        with pytest.raises(ReadOnlyError, match="does not write there"):
            fs.open(path, **options)
    assert read_whole(fs, path) == b"content"
    assert isinstance(path, Path)
