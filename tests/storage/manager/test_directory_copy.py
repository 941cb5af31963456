"""The copy of a log directory that compaction into another place makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.model import CancelledError
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.compact.directory_copy import DirectoryCopy


def test_a_copy_stops_within_a_file(tmp_path: Path) -> None:
    (tmp_path / "data" / "t-0").mkdir(parents=True)
    (tmp_path / "data" / "t-0" / "0.log").write_bytes(b"x" * 100)
    checks = []

    def check() -> None:
        checks.append(1)
        raise CancelledError("cancelled")

    with DirectoryCopy(LOCAL, tmp_path / "data", tmp_path / "copy", check=check) as copy:
        with pytest.raises(CancelledError):
            copy.copy_directory("t-0")
        with pytest.raises(CancelledError):
            copy.finish()
    assert (checks, list(tmp_path.iterdir())) == ([1], [tmp_path / "data"])


def test_a_copy_is_whole(tmp_path: Path) -> None:
    (tmp_path / "data" / "t-0").mkdir(parents=True)
    (tmp_path / "data" / "t-0" / "0.log").write_bytes(b"x" * 100)
    (tmp_path / "data" / "meta.properties").write_text("version=1\n")
    checks: list[int] = []
    with DirectoryCopy(LOCAL, tmp_path / "data", tmp_path / "copy", check=lambda: checks.append(1)) as copy:
        copy.copy_rest([])
        copy.finish()
    assert (tmp_path / "copy" / "t-0" / "0.log").read_bytes() == b"x" * 100
    assert (tmp_path / "copy" / "meta.properties").read_text() == "version=1\n"
    assert len(checks) == 2
