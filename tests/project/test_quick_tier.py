"""The list of ``tests/quick_tier.py``: each entry exists, and most tests are quick."""

from __future__ import annotations

from project.tree import ROOT
from quick_tier import HEAVY


def test_every_heavy_path_and_test_exists() -> None:
    for entry in HEAVY:
        path, _, test = entry.partition("::")
        assert (ROOT / path).exists(), entry
        assert not test or f"def {test}(" in (ROOT / path).read_text(), entry


def test_the_list_has_an_order() -> None:
    assert list(HEAVY) == sorted(HEAVY)
