"""Fixtures of the tests of the cleaner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.cleaner.cleaner_home import CleanerHome


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CleanerHome]:
    made = CleanerHome(tmp_path)
    yield made
    made.close()
