"""A broker with topics for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.data.data_home import DataHome, data_home


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataHome]:
    with data_home(tmp_path / "data") as made:
        yield made
