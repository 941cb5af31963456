"""A small log directory for tests in which the content of logs does not matter, and Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from log_maker import plain, write_segment
from web.chromium import chromium
from web.harness import CHROMIUM


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("this machine has no Chromium: scripts/prerequisites.sh --browser installs it")
    with chromium() as started:
        yield started


@pytest.fixture
def small_dir(tmp_path: Path) -> Path:
    """Write a log directory with one partition, ``orders-0``, of 100 records."""
    path = tmp_path / "disk"
    (path / "orders-0").mkdir(parents=True)
    (path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=cluster-of-tests\n")
    write_segment(path / "orders-0", 0, [plain(number * 10, 10) for number in range(10)])
    return path
