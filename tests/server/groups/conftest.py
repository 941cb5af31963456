"""A broker for tests of groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.groups.group_broker import GroupBroker, group_broker


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[GroupBroker]:
    with group_broker(tmp_path / "data") as groups:
        yield groups
