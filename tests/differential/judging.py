"""The test of a list, which fails with the first difference of the shortest list that has it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from differential.comparison import run_both
from differential.kafka_side import KafkaSide
from differential.operations import Scenario, source
from differential.shrinking import shrink


def assert_same(scenario: Scenario, kafka: KafkaSide, directory: Path) -> None:
    """Fail with the difference and the source of the list."""
    numbers = itertools.count()

    def difference(candidate: Scenario, kind: str | None = None) -> str | None:
        found = run_both(candidate, kafka, directory / str(next(numbers)))
        return None if found is None or kind not in (None, found.kind) else found.text

    found = run_both(scenario, kafka, directory / "whole")
    if found is not None:
        short = shrink(scenario, lambda candidate: difference(candidate, found.kind) is not None)
        pytest.fail(f"{difference(short, found.kind) or found.text}\n{source(short)}", pytrace=False)
