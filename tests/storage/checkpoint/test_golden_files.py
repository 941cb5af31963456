"""Every small text file of real brokers is read, and written again with the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import FORMATS, KRAFT_SETS, SETS
from tidelog.storage.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    QUORUM_STATE_FILE,
    CleanShutdownFile,
    MetaProperties,
    OffsetCheckpoint,
    PartitionMetadata,
    QuorumState,
)
from tidelog.storage.checkpoint.clean_shutdown import format_broker_epoch, parse_broker_epoch
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCache, LeaderEpochCheckpoint
from tidelog.storage.fs import LOCAL

DIRECTORIES = [(name, "clean") for name in SETS] + [(name, "unclean") for name in KRAFT_SETS]

SAME_BYTES: dict[str, Callable[[bytes], bytes]] = {
    PARTITION_METADATA_FILE: lambda data: PartitionMetadata.parse(data).to_bytes(),
    QUORUM_STATE_FILE: lambda data: QuorumState.parse(data).to_bytes(),
    META_PROPERTIES_FILE: lambda data: MetaProperties.parse(data).to_bytes(),
    LEADER_EPOCH_CHECKPOINT: lambda data: LeaderEpochCheckpoint.format(
        LeaderEpochCache(LeaderEpochCheckpoint.parse(data)).entries
    ),
    CLEAN_SHUTDOWN_FILE: lambda data: format_broker_epoch(parse_broker_epoch(data) or -1),
}


@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
@pytest.mark.parametrize("name", SAME_BYTES)
def test_same_bytes(golden: GoldenFactory, set_name: str, kind: str, name: str) -> None:
    found = list(golden(set_name, kind).rglob(name))
    absent = (kind, name) == ("unclean", CLEAN_SHUTDOWN_FILE) or (set_name, name) == (FORMATS, QUORUM_STATE_FILE)
    assert len(found) > 0 or absent
    for path in found:
        assert SAME_BYTES[name](path.read_bytes()) == path.read_bytes(), path


@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_the_same_lines_in_any_order(golden: GoldenFactory, tmp_path: Path, set_name: str, kind: str) -> None:
    found = list(golden(set_name, kind).glob("*-offset-checkpoint"))
    assert len(found) == 4
    for path in found:
        offsets = OffsetCheckpoint.read(LOCAL, path)
        OffsetCheckpoint.write(LOCAL, tmp_path / path.name, offsets)
        written = (tmp_path / path.name).read_text().splitlines()
        assert written[2:] == sorted(written[2:], key=lambda line: (line.split()[0], int(line.split()[1])))
        if path.stat().st_size:
            assert sorted(written) == sorted(path.read_text().splitlines())
        else:
            assert (offsets, written) == ({}, ["0", "0"])
        assert OffsetCheckpoint.read(LOCAL, tmp_path / path.name) == offsets


def test_what_they_say(golden: GoldenFactory) -> None:
    kraft = MetaProperties.read(LOCAL, golden(KRAFT_SETS[0]) / META_PROPERTIES_FILE)
    assert kraft is not None
    assert (kraft.version, kraft.node_id) == (1, 1)
    assert kraft.directory_id is not None
    zookeeper = MetaProperties.read(LOCAL, golden(FORMATS) / META_PROPERTIES_FILE)
    assert zookeeper is not None
    assert (zookeeper.version, zookeeper.node_id, zookeeper.directory_id) == (0, 7, None)
    assert CleanShutdownFile(LOCAL, golden(KRAFT_SETS[0])).read() == 241
    assert CleanShutdownFile(LOCAL, golden(FORMATS)).read() == -1
    unclean = CleanShutdownFile(LOCAL, golden(KRAFT_SETS[0], "unclean"))
    assert not unclean.exists()
    assert unclean.read() is None
