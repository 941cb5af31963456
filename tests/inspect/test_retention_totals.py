"""The summary of retention has the segments of the survey, each once, and its totals add up."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import GoldenFactory
from golden_sets import EVERYTHING, FLIGHTS, SCENARIOS
from log_maker import BASE_TIME, mark_clean, plain, write_checkpoint, write_segment
from tidelog.inspect.retention import survey_retention
from tidelog.inspect.retention.summary import Keeper, LogRetention, Share, summarize_retention
from tidelog.inspect.retention.totals import (
    DAY_MS,
    Deletions,
    RetentionTotals,
    Step,
    added_up,
    by_topic,
    freed_steps,
    totals_of_log,
)
from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.survey.setting_sources import SettingSources, SourcedConfig, read_setting_sources

NOW = BASE_TIME + 3 * DAY_MS
NOTHING = SettingSources()


def summary(path: Path, now_ms: int = NOW, **settings: str) -> LogRetention:
    """Return the summary of a directory's only log, by these settings."""
    overrides = {name.replace("_", "."): text for name, text in settings.items()}
    sources = SettingSources(overrides=overrides)
    [log] = summarize_retention(LOCAL, path, sources.of_topic, TopicMetadata(), now_ms=now_ms, threads=1)
    return log


def segments(path: Path, *times: int) -> None:
    for number, time in enumerate(times):
        write_segment(path / "t-0", 10 * number, [plain(10 * number, timestamp=time)])
    mark_clean(path)


@pytest.mark.parametrize("set_name", [SCENARIOS, FLIGHTS, EVERYTHING["4.4"]])
@pytest.mark.parametrize("now_ms", [NOW, 1_800_000_000_000])
def test_each_segment_counts_once(golden: GoldenFactory, set_name: str, now_ms: int) -> None:
    path = golden(set_name)
    sources = read_setting_sources(LOCAL, [path])[path]
    logs = summarize_retention(LOCAL, path, sources.of_topic, sources.metadata, now_ms=now_ms)
    survey = survey_retention(LOCAL, path, sources, now_ms=now_ms)
    assert [log.partition for log in logs] == [part.partition for part in survey]
    for log, part in zip(logs, survey, strict=True):
        total = sum(log.kept.values(), Share())
        assert (total.count, total.bytes) == (
            len(part.outlooks),
            sum(outlook.segment.size_bytes for outlook in part.outlooks),
        )
        next_check = [outlook for outlook in part.outlooks if outlook.deletion is not None]
        assert log.kept.get(Keeper.NEXT_CHECK, Share()).count == len(next_check)
        later = log.kept.get(Keeper.TIME, Share()) + log.kept.get(Keeper.FUTURE, Share())
        assert sum(count for _, count, _ in log.goes) == later.count


def test_the_rule_that_keeps_a_segment(tmp_path: Path) -> None:
    old = BASE_TIME - 30 * DAY_MS
    segments(tmp_path, old, BASE_TIME, BASE_TIME)
    assert {keeper: share.count for keeper, share in summary(tmp_path).kept.items()} == {
        Keeper.NEXT_CHECK: 1,
        Keeper.TIME: 2,
    }
    assert set(summary(tmp_path, retention_ms="-1").kept) == {Keeper.NO_LIMIT}
    assert set(summary(tmp_path, cleanup_policy="compact").kept) == {Keeper.POLICY}
    assert set(summary(tmp_path, retention_ms="-1", retention_bytes="100000").kept) == {Keeper.SIZE}
    kept = summary(tmp_path, retention_ms="-1", retention_bytes="1").kept
    assert {keeper: share.count for keeper, share in kept.items()} == {Keeper.NEXT_CHECK: 2, Keeper.SIZE: 1}
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": 15})
    kept = summary(tmp_path, retention_ms="1").kept
    assert {keeper: share.count for keeper, share in kept.items()} == {Keeper.NEXT_CHECK: 1, Keeper.HIGH_WATERMARK: 2}


def test_a_timestamp_in_the_future_keeps_the_segments_after_it(tmp_path: Path) -> None:
    future = NOW + 400 * DAY_MS
    segments(tmp_path, BASE_TIME, future, BASE_TIME, BASE_TIME)
    log = summary(tmp_path)
    assert {keeper: share.count for keeper, share in log.kept.items()} == {Keeper.TIME: 1, Keeper.FUTURE: 3}
    week = 7 * DAY_MS
    assert [(at, count) for at, count, _ in log.goes] == [(BASE_TIME + 9 + week + 1, 1), (future + 9 + week + 1, 3)]


def test_an_empty_active_segment_and_the_metadata(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [])
    mark_clean(tmp_path)
    assert set(summary(tmp_path).kept) == {Keeper.EMPTY}
    (tmp_path / "t-0").rename(tmp_path / "__cluster_metadata-0")
    assert set(summary(tmp_path).kept) == {Keeper.SNAPSHOTS}


def test_a_segment_of_the_metadata_below_the_log_start_goes_with_the_next_check(tmp_path: Path) -> None:
    segments(tmp_path, BASE_TIME, BASE_TIME, BASE_TIME)
    (tmp_path / "t-0").rename(tmp_path / "__cluster_metadata-0")
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {"__cluster_metadata-0": 10})
    kept = summary(tmp_path).kept
    assert {keeper: share.count for keeper, share in kept.items()} == {Keeper.NEXT_CHECK: 1, Keeper.SNAPSHOTS: 2}


def test_files_without_a_keeper(tmp_path: Path) -> None:
    segments(tmp_path, BASE_TIME)
    for name, size in (("log.deleted", 700), ("index.deleted", 30), ("log.cleaned", 50), ("timeindex.cleaned", 5)):
        (tmp_path / "t-0" / f"{7:020d}.{name}").write_bytes(bytes(size))
    log = summary(tmp_path)
    assert (log.deleted_files, log.unfinished_files) == (Share(2, 730), Share(2, 55))


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    segments(tmp_path, BASE_TIME)
    file = tmp_path / "t-0" / f"{0:020d}.log"
    file.unlink()
    file.mkdir()
    log = summary(tmp_path)
    assert log.error is not None
    assert not log.kept


def made(number: int, goes: list[tuple[int, int, int]], next_bytes: int = 0, topic: str = "t") -> RetentionTotals:
    log = LogRetention(
        partition=TopicPartition(topic, number),
        directory=Path("/x"),
        settings=SourcedConfig(config=NOTHING.of_topic("").config, origins={}),
        kept={Keeper.NEXT_CHECK: Share(1, next_bytes)} if next_bytes else {},
        goes=tuple(goes),
    )
    return totals_of_log(log, NOW)


def test_a_day_and_a_week() -> None:
    totals = made(0, [(NOW + DAY_MS, 2, 20), (NOW + DAY_MS + 1, 1, 5), (NOW + 7 * DAY_MS + 1, 1, 1)], next_bytes=100)
    assert (totals.next_check, totals.day, totals.week) == (Share(1, 100), Share(3, 120), Share(4, 125))
    assert totals.first_goes_at_ms == NOW + DAY_MS


def test_topics_that_free_most_come_first() -> None:
    found = by_topic(
        [made(0, [(NOW + 1, 1, 10)], topic="a"), made(0, [], 1, "b"), made(1, [(NOW + 2, 1, 10)], topic="a")]
    )
    assert [(one.topic, one.day) for one in found] == [("b", Share(1, 1)), ("a", Share(2, 20))]


moments = st.lists(st.tuples(st.integers(NOW, NOW + 10 * DAY_MS), st.integers(1, 3), st.integers(0, 99)), max_size=40)


@settings(max_examples=40)
@given(st.lists(moments, min_size=1, max_size=4), st.integers(0, 50), st.integers(2, 30))
def test_steps_add_up(parts: list[list[tuple[int, int, int]]], next_bytes: int, most: int) -> None:
    totals = added_up([made(number, sorted(goes), next_bytes) for number, goes in enumerate(parts)])
    horizon = 7 * DAY_MS
    steps = freed_steps(totals, NOW, horizon, most)
    assert len(steps) <= most
    assert [step.at_ms for step in steps] == sorted(step.at_ms for step in steps)
    running = 0
    for step in steps:
        running += step.bytes
        assert step.total == running
    wanted = [one for goes in parts for one in goes if one[0] <= NOW + horizon]
    checked = len(parts) if next_bytes else 0
    assert sum(step.segments for step in steps) == sum(count for _, count, _ in wanted) + checked
    assert running == sum(size for _, _, size in wanted) + next_bytes * len(parts)
    assert totals.deletions.until(NOW + horizon).bytes == running - next_bytes * len(parts)


def test_equal_moments_are_one() -> None:
    deletions = Deletions.concat([Deletions.of([(5, 1, 2), (7, 1, 1)]), Deletions.of([(5, 2, 3)])])
    assert [column.tolist() for column in deletions] == [[5, 7], [3, 1], [5, 1]]
    assert Deletions.concat([]).until(10) == Share()
    assert freed_steps(made(0, [(NOW + 1, 1, 4)], 2), NOW, 10, 300) == [Step(NOW, 1, 2, 2), Step(NOW + 1, 1, 4, 6)]
