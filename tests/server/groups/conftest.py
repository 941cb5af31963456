"""A broker for tests of groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.groups.group_home import GroupHome, group_home


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[GroupHome]:
    with group_home(tmp_path / "data") as home:
        yield home
