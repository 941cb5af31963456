"""Recovery's effect outside the partitions' own files: the metadata log, high watermarks, topic settings."""

from __future__ import annotations

import shutil

import pytest

from conftest import GoldenFactory
from golden_sets import KRAFT_SETS, SCENARIOS
from tidelog.model import TopicPartition
from tidelog.storage.checkpoint import OffsetCheckpoint
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.recovery.directory_recovery import recover, recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions, plan_directory

NOW_MS = 1_795_218_000_000
"""The evening when the sets were written. A day later, a broker would have expired idle producers."""
METADATA = "__cluster_metadata-0"


@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_metadata_log_is_cut_to_whole_batches(golden_copy: GoldenFactory, set_name: str) -> None:
    directory = golden_copy(set_name, "unclean")
    log = directory / METADATA / "00000000000000000000.log"
    before = log.read_bytes()
    with log.open("ab") as file:
        file.write(bytes(100))
    recover(directory, now_ms=NOW_MS)
    assert log.read_bytes() == before
    assert (directory / METADATA / "quorum-state").exists()
    assert METADATA[:-2] not in (directory / "recovery-point-offset-checkpoint").read_text()


def test_high_watermarks_stay_within_the_log(golden_copy: GoldenFactory) -> None:
    """A stored high watermark is only limited to the log, because recovery does not know the replicas."""
    directory = golden_copy(SCENARIOS, "unclean")
    shutil.rmtree(directory / METADATA)
    path = directory / "replication-offset-checkpoint"
    stored = {TopicPartition("plain", 0): 5000, TopicPartition("trimmed", 0): 3, TopicPartition("txn", 0): 440}
    OffsetCheckpoint.write(LOCAL, path, stored)
    recover(directory, now_ms=NOW_MS)
    assert OffsetCheckpoint.read(LOCAL, path) == {
        TopicPartition("plain", 0): 1000,
        TopicPartition("trimmed", 0): 777,
        TopicPartition("txn", 0): 440,
    }


def test_only_replica_is_known_to_be_replicated(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(SCENARIOS, "unclean")
    path = directory / "replication-offset-checkpoint"
    OffsetCheckpoint.write(LOCAL, path, {TopicPartition("plain", 0): 7})
    recover(directory, now_ms=NOW_MS)
    watermarks = OffsetCheckpoint.read(LOCAL, path)
    assert watermarks == OffsetCheckpoint.read(LOCAL, directory / "recovery-point-offset-checkpoint")


def test_settings_come_from_the_cluster_metadata_unless_told(golden: GoldenFactory) -> None:
    directory = golden(SCENARIOS, "unclean")

    def intervals(options: RecoverOptions) -> dict[str, int]:
        plan = plan_directory(LOCAL, directory, options)
        return {partition.name: partition.config.index_interval_bytes for partition in plan.partitions}

    known = intervals(RecoverOptions(now_ms=NOW_MS))
    assert (known["plain-0"], known["__consumer_offsets-0"]) == (512, 4096)
    told = intervals(RecoverOptions(now_ms=NOW_MS, topic_settings={"plain": {"index.interval.bytes": "77"}}))
    assert (told["plain-0"], told["gz-0"]) == (77, 512)
    assert set(intervals(RecoverOptions(now_ms=NOW_MS, use_cluster_metadata=False)).values()) == {4096}


def test_settings_decide_the_bytes_of_an_index(golden: GoldenFactory, golden_copy: GoldenFactory) -> None:
    directory = golden_copy(SCENARIOS, "unclean")
    recover_directory(LOCAL, directory, RecoverOptions(now_ms=NOW_MS, use_cluster_metadata=False))
    name = "txn-0/00000000000000000435.index"
    assert 0 < (directory / name).stat().st_size < (golden(SCENARIOS, "clean") / name).stat().st_size
