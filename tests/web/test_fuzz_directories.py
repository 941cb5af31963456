"""Damaged log directories never make a page fail, hang or write. A failing case names its seed and its damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import GoldenFactory
from web.damaged_walk import Walker, fingerprint, problems_of_seeds

QUICK, SLOW, SHARES = 24, 2_000, 4


@pytest.fixture(scope="module")
def walker(golden: GoldenFactory) -> Walker:
    return Walker(golden)


def test_damaged_directories(walker: Walker, tmp_path: Path) -> None:
    problems, statuses = problems_of_seeds(walker, range(QUICK), tmp_path)
    assert problems == []
    assert statuses >= {200, 404, 422}, "some damage is a clear error"


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_many_damaged_directories(walker: Walker, tmp_path: Path, share: int) -> None:
    problems, _ = problems_of_seeds(walker, range(1000 + share, 1000 + SLOW, SHARES), tmp_path)
    assert problems == [], "\n".join(problems)


def test_a_seed_is_always_the_same_damage(walker: Walker, tmp_path: Path) -> None:
    found = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        case = walker.walk(5, tmp_path / name)
        contents = {
            path.removeprefix(str(tmp_path / name)): one[3] for path, one in fingerprint(tmp_path / name).items()
        }
        found.append((case.damaged.done, contents))
    assert found[0] == found[1]
