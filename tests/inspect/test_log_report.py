"""The report on one log: against the reports of the commands, real indexes, and logs with damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import EVERYTHING, FLIGHTS, SCENARIOS
from log_maker import batch, data, mark_clean, plain, write_checkpoint, write_segment
from tidelog.inspect.info import describe_directory
from tidelog.inspect.log.directory_files import describe_files
from tidelog.inspect.log.report import LogReport, read_log_report
from tidelog.inspect.transactions import open_transactions
from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.index import OffsetIndexReader, TimeIndexReader
from tidelog.storage.log.load.leftover_files import CleanupPlan
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions, plan_directory
from tidelog.storage.manager.survey.setting_sources import SettingSources, read_setting_sources
from tidelog.storage.producer.snapshot import format_snapshot

NOW = 1_800_000_000_000
DIRECTORIES = [(SCENARIOS, "unclean"), (SCENARIOS, "clean"), (EVERYTHING["4.4"], "unclean"), (FLIGHTS, "unclean")]


def report(directory: Path, sources: SettingSources | None = None) -> LogReport:
    view = LogView(LOCAL, directory)
    assert view.topic_partition is not None
    return read_log_report(view, view.topic_partition, sources or SettingSources(), now_ms=NOW)


@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_the_facts_are_those_of_info(golden: GoldenFactory, set_name: str, kind: str) -> None:
    path = golden(set_name, kind)
    sources = read_setting_sources(LOCAL, [path])[path]
    for info in describe_directory(LOCAL, path).partitions:
        found = report(info.directory, sources)
        assert not found.errors
        assert (found.state.log_start, found.log_end, found.topic_id) == (info.log_start, info.log_end, info.topic_id)
        assert (found.transactions.last_stable, found.last_timestamp) == (info.last_stable, info.last_timestamp)
        assert (found.heads.first_timestamp, found.heads.formats) == (info.first_timestamp, info.formats)
        assert (len(found.segments), sum(one.size for one in found.segments)) == (info.segments, info.log_bytes)
        assert sum(size for size in found.sizes.values() if size > 0) == info.bytes
        assert {file.name for file in found.files if file.is_leftover} == set(info.leftovers)
        assert (found.epochs[-1].epoch if found.epochs else None) == info.leader_epoch


def test_the_open_transactions_are_those_of_the_command(golden: GoldenFactory) -> None:
    path = golden(SCENARIOS, "unclean")
    (expected,) = open_transactions(LOCAL, path, only=[TopicPartition("txn", 0)])
    found = report(path / "txn-0")
    assert found.transactions.open == expected.open
    assert len(expected.open) == 1


def test_the_work_of_a_start_is_that_of_recover(golden: GoldenFactory) -> None:
    path = golden(SCENARIOS, "unclean")
    plans = {one.name: one for one in plan_directory(LOCAL, path, RecoverOptions(now_ms=NOW)).partitions}
    for name in ("compacted-0", "txn-0", "__cluster_metadata-0"):
        assert report(path / name, read_setting_sources(LOCAL, [path])[path]).start.plan == plans[name]


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_entries_of_indexes(golden: GoldenFactory, kind: str) -> None:
    """Preallocated indexes count their entries alone."""
    for name in ("plain-0", "txn-0", "compacted-0", "trimmed-0"):
        directory = golden(SCENARIOS, kind) / name
        found = report(directory)
        for placed, entries in zip(found.segments, found.entries, strict=True):
            stem = directory / f"{placed.base_offset:020d}"
            offsets = OffsetIndexReader(stem.with_suffix(".index").read_bytes(), placed.base_offset)
            times = TimeIndexReader(stem.with_suffix(".timeindex").read_bytes(), placed.base_offset)
            assert entries.offset == len(offsets.valid_prefix())
            assert entries.time == len(times.valid_prefix())
            aborted = stem.with_suffix(".txnindex")
            assert entries.transaction == (aborted.stat().st_size // 34 if aborted.exists() else None)


def test_places_of_offsets_are_those_of_their_batches(tmp_path: Path) -> None:
    for base in (0, 400):
        write_segment(tmp_path / "t-0", base, [plain(base + 10 * number) for number in range(40)], interval_bytes=1000)
    write_segment(tmp_path / "t-0", 800, [])
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {"t-0": 155})
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {"t-0": 633})
    mark_clean(tmp_path)
    found = report(tmp_path / "t-0")
    size = len(plain(0))
    for offset in (155, 633):
        assert abs(found.positions.of(offset) - size * offset / 10) <= 2 * size
    assert [found.positions.of(offset) for offset in (0, 400, 800, 900)] == [0, 40 * size, 80 * size, 80 * size]
    assert [(one.start, one.end) for one in found.segments] == [
        (0, 40 * size),
        (40 * size, 80 * size),
        (80 * size, 80 * size),
    ]


def damaged(tmp_path: Path) -> Path:
    """Write four segments of ten batches with ten records. The fifth batch of the second one has a wrong CRC."""
    for number in range(4):
        base = 100 * number
        write_segment(tmp_path / "t-0", base, [plain(base + 10 * row) for row in range(10)])
    log = tmp_path / "t-0" / f"{100:020d}.log"
    content = bytearray(log.read_bytes())
    content[len(plain(0)) * 4 + 80] ^= 1
    log.write_bytes(content)
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {"t-0": 100})
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": 390})
    return tmp_path / "t-0"


def test_the_records_behind_damage(tmp_path: Path) -> None:
    found = report(damaged(tmp_path))
    lost, size = found.start.lost, len(plain(0))
    assert found.log_end == 140
    assert lost is not None
    assert (lost.segments, lost.bytes) == (2, 26 * size)
    assert (lost.batches, lost.records, lost.end_offset, lost.is_complete) == (25, 250, 400, True)
    assert [segment.base_offset for segment in found.start.later] == [200, 300]
    assert "deletes the 2 segments after it" in found.start.summary


def test_a_clean_start_removes_nothing(tmp_path: Path) -> None:
    directory = damaged(tmp_path)
    mark_clean(tmp_path)
    found = report(directory)
    assert (found.start.lost, found.start.later) == (None, ())
    assert found.start.summary == "loads it as it is"


def test_a_damaged_part_leaves_the_others(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [data(0, 3), plain(3)])
    content = bytearray((directory / f"{0:020d}.log").read_bytes())
    content[-1] ^= 1
    (directory / f"{0:020d}.log").write_bytes(content)
    (directory / f"{0:020d}.snapshot").write_bytes(format_snapshot([]))
    (directory / "leader-epoch-checkpoint").write_text("0\n1\nx y\n")
    (directory / "partition.metadata").write_bytes(b"\xff\xfe")
    mark_clean(tmp_path)
    found = report(directory)
    assert {one.part for one in found.errors} == {"the open transactions", "the leader epochs", "the topic id"}
    assert (found.log_end, found.transactions.last_stable, found.epochs) == (13, 0, ())
    assert [outlook.segment.base_offset for outlook in found.retention.outlooks] == [0]


def test_meanings_of_files() -> None:
    names = (
        "00000000000000000000.log",
        "00000000000000000005.snapshot",
        "00000000000000000000.log.deleted",
        "00000000000000000007.index.cleaned",
        "00000000000000000009.log.swap",
        "00000000000000000011.index",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000123-0000000004.checkpoint",
        "quorum-state",
        "notes.txt",
    )
    cleanup = CleanupPlan(
        removals=("00000000000000000000.log.deleted", "00000000000000000011.index"),
        renames=(("00000000000000000009.log.swap", "00000000000000000009.log"),),
    )
    found = {file.name: file for file in describe_files({**dict.fromkeys(names, 5), "folder": -1}, cleanup)}
    assert list(found)[:2] == ["00000000000000000000.log.deleted", "00000000000000000007.index.cleaned"]
    assert found["00000000000000000011.index"].meaning == "an index without its segment"
    assert found["00000000000000000009.log.swap"].next_start == "it becomes 00000000000000000009.log"
    assert [name for name, file in found.items() if file.is_leftover] == sorted([*cleanup.removals, names[4]])
    assert found["folder"].size is None
    assert found["notes.txt"].meaning == "a file that brokers do not know"
    assert found[names[7]].meaning == "a snapshot of the cluster metadata"


def test_a_log_without_segments(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    mark_clean(tmp_path)
    found = report(tmp_path / "t-0")
    assert (found.segments, found.entries, found.log_end, found.positions.of(7)) == ((), (), 0, 0)
    assert not found.errors


def test_later_judgement_reads_nothing(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"a"], timestamp=NOW)])
    write_segment(tmp_path / "t-0", 1, [batch(1, [b"a"], timestamp=NOW)])
    mark_clean(tmp_path)
    sources = SettingSources(overrides={"retention.ms": "1000"})
    found = report(tmp_path / "t-0", sources).retention
    assert {outlook.deletion for outlook in found.outlooks} == {None}
    later = found.judged(NOW + 1001, sources.of_topic("t"))
    assert [outlook.deletion is not None for outlook in later.outlooks] == [True, True]
    kept = found.judged(NOW + 1001, SettingSources().of_topic("t"))
    assert {outlook.deletion for outlook in kept.outlooks} == {None}


def test_the_high_watermark_of_the_view_is_not_used(tmp_path: Path) -> None:
    """Retention takes the log end if no checkpoint has the partition, as survey_retention does."""
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    mark_clean(tmp_path)
    found = report(tmp_path / "t-0")
    assert found.high_watermark == 10
    assert LogView(LOCAL, tmp_path / "t-0").end_offset(Until.HIGH_WATERMARK) == 0
