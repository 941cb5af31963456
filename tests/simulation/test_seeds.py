"""Seeds of the simulation: every invariant holds after every step. ``make sim SEEDS=…`` runs others."""

from __future__ import annotations

import pytest

from simulation.soak import run_seeds

_QUICK = range(150)
_FULL = range(150, 1_200)
_SOAK = range(1_200, 100_000)
_CHUNK = 250


def _chunks(seeds: range) -> list[range]:
    return [seeds[at : at + _CHUNK] for at in range(0, len(seeds), _CHUNK)]


def _check(seeds: range) -> None:
    result = run_seeds(seeds)
    assert result.acknowledged > len(seeds)
    assert result.steps >= 200 * len(seeds)
    assert [(found.seed, found.problem) for found in result.findings] == []


def test_the_first_seeds_break_no_invariant() -> None:
    _check(_QUICK)


@pytest.mark.parametrize("seeds", _chunks(_FULL), ids=str)
def test_more_seeds_break_no_invariant(seeds: range) -> None:
    _check(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", _chunks(_SOAK), ids=str)
def test_a_soak_breaks_no_invariant(seeds: range) -> None:
    _check(seeds)
