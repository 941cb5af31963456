"""The fixtures that hand out golden sets to other tests, and the completeness of the sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from golden_sets import FORMATS, KRAFT_SETS, SCENARIOS, SETS, footprint, manifest, manifest_entries


@pytest.mark.parametrize("set_name", SETS)
def test_every_partition_of_a_manifest_is_in_its_clean_directory(golden: Callable[..., Path], set_name: str) -> None:
    names = {path.name for path in golden(set_name, "clean").iterdir() if path.is_dir()}
    assert set(manifest(set_name)) <= names


@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_a_killed_broker_left_no_marker_and_an_orderly_one_did(golden: Callable[..., Path], set_name: str) -> None:
    assert not (golden(set_name, "unclean") / ".kafka_cleanshutdown").exists()
    assert (golden(set_name, "clean") / ".kafka_cleanshutdown").exists()
    assert list(golden(set_name, "dump-clean").glob("*.txt"))


def test_every_entry_names_both_isolation_levels_but_the_old_formats() -> None:
    levels = {name: {level for entry, _, level in manifest_entries() if entry == name} for name in SETS}
    assert levels[FORMATS] == {"read_uncommitted"}
    assert all(levels[name] == {"read_uncommitted", "read_committed"} for name in KRAFT_SETS)


def test_a_copy_may_be_changed_and_the_shared_one_is_another(
    golden: Callable[..., Path], golden_copy: Callable[..., Path]
) -> None:
    shared = golden(SCENARIOS, "clean")
    copy = golden_copy(SCENARIOS, "clean")
    assert footprint(shared / "txn-0").keys() == footprint(copy / "txn-0").keys()
    (copy / "meta.properties").unlink()
    assert (shared / "meta.properties").exists()
