"""The state of each compacted log and the reason for it, from made logs: one for each rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from log_maker import BASE_TIME, data, mark_clean, marker, plain, write_checkpoint, write_segment
from tidelog.inspect.compaction.segment_parts import CleaningPart, segment_parts
from tidelog.inspect.compaction.sentences import CleaningState, holding_transaction, reason_text, state_of
from tidelog.model import TopicPartition
from tidelog.runtime.clock import FixedClock
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook, CompactOptions, check_logs, plan_compaction
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.survey.setting_sources import SettingSources

NOW = BASE_TIME + 10_000_000
TP = TopicPartition("t", 0)


def outlook(path: Path, *, replicas: int = 1, **settings: str) -> CompactionOutlook:
    metadata = TopicMetadata(replicas={TP: tuple(range(replicas))})
    overrides = {"cleanup.policy": "compact"} | {name.replace("_", "."): text for name, text in settings.items()}
    sources = SettingSources(metadata=metadata, overrides=overrides)
    plan = plan_compaction(LOCAL, path, CompactOptions(sources=sources, clock=FixedClock(NOW), threads=1))
    [log] = check_logs(LOCAL, plan, threads=1, advance=lambda _bytes: None).logs
    return log


def segments(path: Path, count: int) -> None:
    for number in range(count):
        write_segment(path / "t-0", 10 * number, [plain(10 * number)])


def test_due_by_its_dirty_ratio(tmp_path: Path) -> None:
    segments(tmp_path, 3)
    mark_clean(tmp_path)
    assert reason_text(outlook(tmp_path)) == "due: dirty ratio 1.00 > 0.5"


def test_not_due(tmp_path: Path) -> None:
    segments(tmp_path, 5)
    write_checkpoint(tmp_path, "cleaner-offset-checkpoint", {"t-0": 30})
    mark_clean(tmp_path)
    assert reason_text(outlook(tmp_path)) == "not due: dirty ratio 0.25 < 0.5"
    assert reason_text(outlook(tmp_path, min_cleanable_dirty_ratio="0.25")) == "not due: dirty ratio 0.25 = 0.25"
    assert reason_text(outlook(tmp_path, min_cleanable_dirty_ratio="0.2501")) == "not due: dirty ratio 0.2500 < 0.2501"


def test_waits_for_a_roll(tmp_path: Path) -> None:
    segments(tmp_path, 1)
    mark_clean(tmp_path)
    assert reason_text(outlook(tmp_path)) == (
        "waits: the records from offset 0 on are in the active segment, which must roll first"
    )


def test_waits_for_an_open_transaction(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [data(0, 10, producer_id=7)])
    write_segment(tmp_path / "t-0", 10, [plain(10)])
    write_segment(tmp_path / "t-0", 20, [plain(20)])
    log = outlook(tmp_path)
    assert reason_text(log) == "waits: an open transaction of producer 7 holds back the records from offset 0 on"
    assert state_of(log) is CleaningState.WAITS


def test_waits_for_the_high_watermark(tmp_path: Path) -> None:
    segments(tmp_path, 3)
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": 5})
    mark_clean(tmp_path)
    log = outlook(tmp_path, replicas=3)
    assert reason_text(log) == "waits: the high watermark is 5, and no record above it may be compacted"
    assert holding_transaction(log) is None


def test_an_open_transaction_above_the_high_watermark_holds_nothing(tmp_path: Path) -> None:
    segments(tmp_path, 2)
    write_segment(tmp_path / "t-0", 20, [data(20, 10, producer_id=7)])
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": 5})
    log = outlook(tmp_path, replicas=3)
    assert log.unstable is not None
    assert reason_text(log) == "waits: the high watermark is 5, and no record above it may be compacted"


def test_waits_for_the_replication_of_a_marker(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [data(0, 10, producer_id=7), marker(10, True, producer_id=7)])
    write_segment(tmp_path / "t-0", 11, [plain(11)])
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": 10})
    log = outlook(tmp_path, replicas=3)
    assert "a transaction of producer 7 holds back the records from offset 0 on, because its marker" in reason_text(log)


def test_lags(tmp_path: Path) -> None:
    segments(tmp_path, 4)
    mark_clean(tmp_path)
    assert reason_text(outlook(tmp_path, min_compaction_lag_ms="86400000")) == (
        "waits: the records from offset 0 on are younger than min.compaction.lag.ms, 1 day"
    )
    found = reason_text(outlook(tmp_path, max_compaction_lag_ms="3600000", min_cleanable_dirty_ratio="1"))
    assert found == "due: records have been waiting 1 hour 46 minutes longer than max.compaction.lag.ms, 1 hour"


def test_a_damaged_batch(tmp_path: Path) -> None:
    segments(tmp_path, 3)
    log = tmp_path / "t-0" / f"{10:020d}.log"
    content = bytearray(log.read_bytes())
    content[80] ^= 1
    log.write_bytes(content)
    mark_clean(tmp_path)
    text = reason_text(outlook(tmp_path))
    assert text.startswith("uncleanable: the CRC of a batch does not match")
    assert text.endswith("at position 0 of 00000000000000000010.log (offset 10)")


def test_nothing_to_compact_and_nothing_to_read(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [])
    mark_clean(tmp_path)
    assert reason_text(outlook(tmp_path)) == "clean: there is nothing to compact"
    (tmp_path / "t-0" / f"{0:020d}.log").unlink()
    (tmp_path / "t-0" / f"{0:020d}.log").mkdir()
    assert state_of(outlook(tmp_path)) is CleaningState.UNREADABLE


@pytest.mark.parametrize(
    ("clean_to", "parts"),
    [
        (0, ["dirty", "dirty", "dirty", "not cleanable"]),
        (10, ["clean", "dirty", "dirty", "not cleanable"]),
        (15, ["clean", "clean and dirty", "dirty", "not cleanable"]),
        (30, ["clean", "clean", "clean", "not cleanable"]),
    ],
)
def test_the_parts_of_segments(tmp_path: Path, clean_to: int, parts: list[str]) -> None:
    segments(tmp_path, 4)
    write_checkpoint(tmp_path, "cleaner-offset-checkpoint", {"t-0": clean_to})
    mark_clean(tmp_path)
    plan = outlook(tmp_path).plan
    assert plan is not None
    found = segment_parts(plan, LOCAL.list_sizes(tmp_path / "t-0"))
    assert [part.part.value for part in found] == parts
    dirty = sum(part.size_bytes for part in found if part.part in (CleaningPart.DIRTY, CleaningPart.BOTH))
    clean = sum(part.size_bytes for part in found if part.part in (CleaningPart.CLEAN, CleaningPart.BOTH))
    assert (dirty, clean) == (plan.dirty_bytes, plan.clean_bytes)
    groups = [part.group for part in found]
    assert groups == ([0, 0, 0, None] if clean_to < 30 else [None] * 4)
    assert found[-1].is_active


def test_segments_that_do_not_fit_into_one(tmp_path: Path) -> None:
    segments(tmp_path, 4)
    mark_clean(tmp_path)
    plan = outlook(tmp_path).plan
    assert plan is not None
    size = plan.facts.segments[0].size_bytes
    config = replace(plan.facts.config, segment_bytes=2 * size)
    plan = replace(plan, facts=replace(plan.facts, config=config))
    assert [part.group for part in segment_parts(plan, {})] == [0, 0, 1, None]


def test_a_log_without_segments(tmp_path: Path) -> None:
    """A log start above all records leaves no segment, as after a start."""
    segments(tmp_path, 1)
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {"t-0": 50})
    mark_clean(tmp_path)
    log = outlook(tmp_path)
    assert log.plan is not None
    assert segment_parts(log.plan, {}) == []
    assert state_of(log) is CleaningState.CLEAN
