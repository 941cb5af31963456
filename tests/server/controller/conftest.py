from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.controller.controller_harness import ControllerHome, RemoteBroker


@pytest.fixture
def settings() -> dict[str, str]:
    """Return the settings of the controller, which a module or class may replace."""
    return {}


@pytest.fixture
def home(tmp_path: Path, settings: dict[str, str]) -> Iterator[ControllerHome]:
    with ControllerHome(tmp_path / "metadata", **settings) as home:
        yield home


@pytest.fixture
def broker(home: ControllerHome) -> Iterator[RemoteBroker]:
    with RemoteBroker(home, 1) as broker:
        yield broker


@pytest.fixture
def other(home: ControllerHome) -> Iterator[RemoteBroker]:
    with RemoteBroker(home, 2) as broker:
        yield broker
