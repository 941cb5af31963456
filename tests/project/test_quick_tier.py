"""The list of ``tests/quick_tier.py``: each entry exists, and most tests are quick."""

from __future__ import annotations

from project.tree import ROOT
from quick_tier import HEAVY


def test_every_heavy_path_exists() -> None:
    assert not [path for path in HEAVY if not (ROOT / path).exists()]


def test_the_list_has_an_order() -> None:
    assert list(HEAVY) == sorted(HEAVY)
