"""A clean that writes nothing finds the numbers of the real clean that follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog
from dirty_directory import make_dirty
from log_maker import batch, mark_clean, plain, write_checkpoint, write_segment
from tidelog import LogConfig
from tidelog.inspect.compaction.tombstones import SegmentTombstones, count_tombstones, total_of
from tidelog.inspect.compaction.trial_clean import TrialClean, map_keys, try_clean
from tidelog.runtime.clock import FixedClock
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.manager.compact.compact import compact_directory
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook, CompactOptions, plan_compaction
from tidelog.storage.manager.survey.setting_sources import SettingSources

NOW = 1_700_001_000_000
DAY = 86_400_000
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "4096", "min.cleanable.dirty.ratio": "0"}
SMALL_MAP = CleanerSettings(threads=1, dedupe_buffer_bytes=24 * 20)


def options(now_ms: int = NOW, cleaner: CleanerSettings | None = None) -> CompactOptions:
    return CompactOptions(
        sources=SettingSources(overrides=SETTINGS),
        clock=FixedClock(now_ms),
        cleaner=cleaner or CleanerSettings(),
        threads=1,
    )


def outlooks(path: Path, now_ms: int = NOW) -> tuple[CompactionOutlook, ...]:
    return plan_compaction(LOCAL, path, options(now_ms)).logs


def trial(path: Path, log: CompactionOutlook, now_ms: int = NOW, cleaner: CleanerSettings | None = None) -> TrialClean:
    view = LogView(LOCAL, path / log.name)
    return try_clean(view, log, cleaner or CleanerSettings(), now_ms=now_ms, advance=lambda _bytes: None)


def tombstones(path: Path, name: str, now_ms: int) -> SegmentTombstones:
    view = LogView(LOCAL, path / name)
    found, skipped = count_tombstones(view, view.log_end, now_ms=now_ms, advance=lambda _bytes: None)
    assert not skipped
    return total_of(found)


def test_the_bytes_of_the_real_clean(tmp_path: Path) -> None:
    """Three times, with transactions, tombstones and two codecs: the last two cleans remove tombstones and markers."""
    path = make_dirty(tmp_path / "data", partitions=3, batches=40)
    for round_ in range(3):
        now_ms = NOW + 2 * DAY * round_
        write_checkpoint(path, "cleaner-offset-checkpoint", {})  # all records are dirty again
        found = {log.name: trial(path, log, now_ms) for log in outlooks(path, now_ms)}
        done = compact_directory(LOCAL, path, options(now_ms))
        assert len(done.logs) == 3
        assert {log.name: log.bytes_before - log.bytes for log in done.logs} == {
            name: one.bytes_freed for name, one in found.items()
        }
        assert all(one.keys <= 40 and one.stopped_by is None for one in found.values())


def test_the_last_batch_of_a_producer_stays(tmp_path: Path) -> None:
    """A clean keeps its header, although a later record replaced its only one."""
    config = LogConfig(segment_bytes=400, cleanup_policy=frozenset({"compact"}))
    with tidelog.open_log(tmp_path / "t-0", config=config) as log:
        with log.transaction() as transaction:
            transaction.append_batch([b"old"], keys=[b"a"], timestamps=[NOW - 1000])
        for _ in range(8):
            log.append_batch([b"x" * 90], keys=[b"a"], timestamps=[NOW - 500])
    [found] = outlooks(tmp_path)
    tried = trial(tmp_path, found)
    [done] = compact_directory(LOCAL, tmp_path, options()).logs
    assert tried.bytes_freed == done.bytes_before - done.bytes
    assert (tried.segments[0].records_kept, tried.segments[0].bytes_kept) == (0, 61)


def test_a_full_map_ends_the_clean(tmp_path: Path) -> None:
    path = make_dirty(tmp_path / "data", partitions=1)
    [log] = outlooks(path)
    found = trial(path, log, cleaner=SMALL_MAP)
    assert found.keys == found.map_keys == map_keys(SMALL_MAP) == 18
    assert log.plan is not None
    assert log.plan.first_dirty_offset < found.next_dirty_offset < log.plan.end_offset
    assert found.segments[-1].base_offset < found.next_dirty_offset <= log.plan.end_offset
    assert map_keys(CleanerSettings()) == 5_033_164, "Kafka logs this number for its default buffer"


def test_tombstones_get_a_horizon_and_go(tmp_path: Path) -> None:
    path = make_dirty(tmp_path / "data", partitions=1)
    before = tombstones(path, "t-0", NOW)
    assert before.count == before.without_horizon > 0
    compact_directory(LOCAL, path, options(NOW))
    after = tombstones(path, "t-0", NOW)
    cleaned = after.count - after.without_horizon
    assert cleaned > 0
    assert (after.first_horizon_ms, after.last_horizon_ms) == (NOW + DAY, NOW + DAY)
    assert after.passed == 0
    late = NOW + DAY
    assert tombstones(path, "t-0", late).passed == cleaned
    write_checkpoint(path, "cleaner-offset-checkpoint", {})
    compact_directory(LOCAL, path, options(late))
    assert tombstones(path, "t-0", late).passed == 0


@pytest.mark.parametrize("position", [20, 70, 120])
def test_a_damaged_batch_stops_the_trial(tmp_path: Path, position: int) -> None:
    log = write_segment(tmp_path / "t-0", 0, [plain(0), plain(10)])
    write_segment(tmp_path / "t-0", 20, [plain(20)])
    mark_clean(tmp_path)
    data = bytearray(log.read_bytes())
    data[position] ^= 1
    log.write_bytes(data)
    [found] = outlooks(tmp_path)
    stop = trial(tmp_path, found).stopped_by
    assert stop is not None
    assert (stop.path, stop.position, stop.offset) == (log, 0, 0)
    assert trial(tmp_path, found).segments == ()


def test_records_without_a_key(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0), batch(10, [b"a", b"b"], key=None)])
    write_segment(tmp_path / "t-0", 12, [plain(12)])
    mark_clean(tmp_path)
    [log] = outlooks(tmp_path)
    assert [segment.keyless for segment in trial(tmp_path, log).segments] == [2]
