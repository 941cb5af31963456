"""Fixtures that all tests share: copies of the golden directories, which real brokers wrote."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from golden_sets import footprint, unpack
from spark_jvm import set_switches

pytest_plugins = ("skip_guard", "quick_tier", "workers")

# A busy machine must not fail a test, so an example has no deadline.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A shell ignores Ctrl-C for a suite that it starts in the background, and each child inherits that. Some tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

set_switches()

GoldenFactory = Callable[..., Path]
SLOW_SECONDS = 7200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests a long timeout, unless a test sets its own."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoldenFactory]:
    """Return ``golden(set_name, kind="clean") -> Path``. A session unpacks each directory once; tests only read it."""
    root = tmp_path_factory.mktemp("golden")
    unpacked: dict[tuple[str, str], Path] = {}
    before: dict[Path, object] = {}

    def get(set_name: str, kind: str = "clean") -> Path:
        if (set_name, kind) not in unpacked:
            path = unpack(set_name, kind, root / set_name)
            unpacked[set_name, kind] = path
            before[path] = footprint(path)
        return unpacked[set_name, kind]

    yield get
    changed = [str(path) for path, state in before.items() if footprint(path) != state]
    assert not changed, f"a test changed a shared directory: {changed}; use golden_copy, or reading wrote something"


@pytest.fixture
def golden_copy(tmp_path: Path) -> GoldenFactory:
    """Return ``golden_copy(set_name, kind="clean", name="copy") -> Path``: a private copy that the test may change."""

    def get(set_name: str, kind: str = "clean", name: str = "copy") -> Path:
        return unpack(set_name, kind, tmp_path / name)

    return get
