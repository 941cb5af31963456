"""Deliberate faults: the simulation finds each of them, and reports a broken invariant, within 2,000 seeds."""

from __future__ import annotations

import pytest

from simulation.cluster import run
from simulation.faults import FAULTS, applied
from simulation.plan import plan_of

_SEEDS = 2_000


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    with applied(name):
        assert any(run(plan_of(seed)).problem for seed in range(_SEEDS)), FAULTS[name].rule
