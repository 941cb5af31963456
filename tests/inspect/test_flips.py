"""Flipped bits and bytes in golden directories: no crash, no record that was never written, findings of ``verify``.

The normal run makes 1,500 flips, the slow run 98,500 more. ``flips.try_flip(disks, seed)`` repeats the flip of a seed.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from conftest import GoldenFactory
from flips import Disk, Outcome, try_flip
from golden_sets import FORMATS, KRAFT_SETS
from tidelog.inspect.verify import Severity, verify_directory

PAGE = Path(__file__).parents[2] / "docs" / "undetectable-flips.md"
BLOCK = 250


@pytest.fixture(scope="module")
def roots(golden: GoldenFactory) -> list[Path]:
    return [*(golden(name, kind) for name in KRAFT_SETS for kind in ("clean", "unclean")), golden(FORMATS)]


def documented() -> set[tuple[str, str]]:
    """Read (file, field) from the rows of the page's table."""
    return set(re.findall(r"^\| `([^`]+)` \| ([^|]+?) \|", PAGE.read_text(), re.MULTILINE))


_disks: list[Disk] = []


def _load(roots: list[Path]) -> None:
    _disks[:] = [Disk(root) for root in roots]


def _try_block(first: int) -> list[Outcome]:
    return [try_flip(_disks, seed) for seed in range(first, first + BLOCK)]


def run(roots: list[Path], seeds: range) -> None:
    # The processes are spawned, not forked, because the test process has threads.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), initializer=_load, initargs=(roots,)) as pool:
        blocks = pool.map(_try_block, range(seeds.start, seeds.stop, BLOCK))
        outcomes = [outcome for block in blocks for outcome in block]
    assert len(outcomes) == len(seeds)
    faults = [(seed, outcome) for seed, outcome in zip(seeds, outcomes, strict=True) if outcome.fault is not None]
    assert not faults, faults[:5]
    known = documented()
    unseen = [
        (seed, outcome.flip)
        for seed, outcome in zip(seeds, outcomes, strict=True)
        if not outcome.reported and (outcome.flip.kind, outcome.flip.field) not in known
    ]
    assert not unseen, unseen[:5]
    kinds = Counter((outcome.flip.kind, outcome.flip.field) for outcome in outcomes)
    silent = Counter((outcome.flip.kind, outcome.flip.field) for outcome in outcomes if not outcome.reported)
    for kind, count in sorted(kinds.items()):
        print(f"{kind[0]:40} {kind[1]:20} {count:6} flips, {silent[kind]:5} undetectable")


def test_undamaged_directories_have_no_findings(roots: list[Path]) -> None:
    """The other tests would prove nothing if an undamaged directory had findings."""
    for disk in map(Disk, roots):
        verified = verify_directory(disk.disk, disk.root, threads=1)  # type: ignore[arg-type]
        assert [finding for finding in verified.all_findings if finding.severity is not Severity.NOTE] == []


@pytest.mark.timeout(2400)
def test_thousands_of_flips(roots: list[Path]) -> None:
    run(roots, range(1_500))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_flips(roots: list[Path]) -> None:
    run(roots, range(1_500, 100_000))
