"""Fixtures of the tests of partition logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.log.log_harness import LogHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LogHarness]:
    made = LogHarness(tmp_path / "t-0")
    yield made
    made.close()
