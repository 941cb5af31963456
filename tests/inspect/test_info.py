"""``info`` on the golden directories, and on a directory with every kind of error."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import FORMATS, KRAFT_SETS, SCENARIOS, SETS, manifest
from tidelog.inspect.info import PartitionInfo, describe_directory
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.directory_state import DirectoryCondition

DIRECTORIES = [(name, kind) for name in SETS for kind in (("clean", "unclean") if name in KRAFT_SETS else ("clean",))]


def partitions(directory: Path) -> dict[str, PartitionInfo]:
    return {str(part.partition): part for part in describe_directory(LOCAL, directory).partitions}


@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_offsets_and_sizes(golden: GoldenFactory, set_name: str, kind: str) -> None:
    directory = golden(set_name, kind)
    found = partitions(directory)
    assert {part.error for part in found.values()} == {None}
    for name, levels in manifest(set_name).items():
        part, everything = found[name], levels["read_uncommitted"]
        assert (part.log_start, part.log_end) == (everything["low"], everything["high"])
        assert part.last_stable == levels.get("read_committed", everything)["high"]
        files = [path for path in (directory / name).iterdir() if path.is_file()]
        assert part.bytes == sum(path.stat().st_size for path in files)
        assert part.log_bytes == sum(path.stat().st_size for path in files if path.suffix == ".log")
        assert part.segments == sum(path.suffix == ".log" for path in files)


def test_a_directory_in_order(golden: GoldenFactory) -> None:
    found = describe_directory(LOCAL, golden(SCENARIOS))
    assert found.condition is DirectoryCondition.CLEAN
    assert found.meta is not None
    assert (found.meta.node_id, found.meta.cluster_id) == (1, "PPHkimXOT_2-xjXVnSwxdg")
    assert found.broker_epoch == 288
    assert not found.warnings
    assert not found.passing
    assert describe_directory(LOCAL, golden(SCENARIOS, "unclean")).condition is DirectoryCondition.UNCLEAN


def test_formats_times_and_left_overs(golden: GoldenFactory) -> None:
    old = partitions(golden(FORMATS))
    assert old["v0-lz4-0"].formats == ("v0 none", "v0 lz4")
    assert old["v0-lz4-0"].first_timestamp is None
    assert old["v1-gzip-0"].formats == ("v1 gzip",)
    assert old["v1-gzip-0"].last_timestamp == 1_500_000_698_523
    killed = partitions(golden(SCENARIOS, "unclean"))
    assert len(killed["compacted-0"].leftovers) == 180
    assert killed["compacted-0"].leader_epoch == 0
    assert killed["empty-0"].formats == ()
    assert killed["plain-0"].topic_id == partitions(golden(SCENARIOS))["plain-0"].topic_id


def test_what_is_wrong_is_said_and_the_rest_shown(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(SCENARIOS)
    (directory / "meta.properties").write_text("version=9\n")
    (directory / "log-start-offset-checkpoint").write_text("rubbish")
    (directory / "plain-1" / "partition.metadata").write_text("rubbish")
    (directory / "plain-2").rename(directory / f"plain-2.{'a' * 32}-stray")
    found = describe_directory(LOCAL, directory)
    assert found.meta is None
    assert len(found.warnings) == 2
    assert found.passing == (f"plain-2.{'a' * 32}-stray",)
    broken = {str(part.partition): part for part in found.partitions if part.error is not None}
    assert set(broken) == {"plain-1"}
    assert "partition.metadata" in str(broken["plain-1"].error)
