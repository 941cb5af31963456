"""A worker forgets the finders of zip files, which cost a reading of the archive, and still finds their modules."""

from __future__ import annotations

import importlib
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from tidelog.spark.worker import clear_zipimport_cache


def test_modules_of_an_archive_are_found_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "shipped.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("shipped_first.py", "NAME = 'first'")
        file.writestr("shipped_second.py", "NAME = 'second'")
    monkeypatch.syspath_prepend(str(archive))
    assert importlib.import_module("shipped_first").NAME == "first"
    assert isinstance(sys.path_importer_cache[str(archive)], zipimport.zipimporter)

    clear_zipimport_cache()
    assert not any(isinstance(finder, zipimport.zipimporter) for finder in sys.path_importer_cache.values())
    importlib.invalidate_caches()
    assert importlib.import_module("shipped_second").NAME == "second"
