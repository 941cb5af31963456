"""A guard for CI: if the variable ``CI`` is set, a test that needs Kafka or Spark fails instead of being skipped.

A run that silently left out the comparison with real Kafka would look like a pass. A module that skips itself at
import (``pytest.importorskip``) fails too, because its markers are not known yet.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

GUARDED = ("kafka", "spark")


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and in_ci() and any(item.get_closest_marker(name) for name in GUARDED):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not be skipped in CI: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and in_ci():
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} may not skip itself in CI: {report.longrepr}"
    return report
