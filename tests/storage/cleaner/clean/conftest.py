"""Fixtures of the tests of cleaning one log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.cleaner.clean_home import CleanHome


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CleanHome]:
    made = CleanHome(tmp_path / "t-0")
    yield made
    made.close()
