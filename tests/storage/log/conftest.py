"""Fixtures of the tests of partition logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.log.log_home import LogHome


@pytest.fixture
def home(tmp_path: Path) -> Iterator[LogHome]:
    made = LogHome(tmp_path / "t-0")
    yield made
    made.close()
