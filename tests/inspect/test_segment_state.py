"""The state of a segment in one word, for every rule that keeps or deletes it."""

from __future__ import annotations

import pytest

from tidelog.inspect.retention import PartitionRetention
from tidelog.inspect.retention.explain import explain_retention
from tidelog.inspect.retention.segment_state import SegmentState, segment_states
from tidelog.model import TopicPartition
from tidelog.storage.log.change.retention import RetentionSegment, RetentionState
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.survey.setting_sources import SourcedConfig
from tidelog.web.svg.ribbon_items import STYLES

NOW = 1_000_000
OLD, YOUNG, AHEAD = NOW - 500, NOW - 50, NOW + 500
COMPACT, EMPTY = frozenset({"compact"}), frozenset[str]()


def states(
    *times: int, config: LogConfig, topic: str = "t", high_watermark: int = 1000, log_start: int = 0
) -> list[str]:
    """Return the states of segments with ten records and ten bytes each. The last one is active."""
    segments = tuple(
        RetentionSegment(
            base_offset=10 * number,
            end_offset=10 * number + 10,
            size_bytes=10,
            largest_timestamp_ms=time,
            modified_ms=time,
        )
        for number, time in enumerate(times)
    )
    state = RetentionState(
        segments=segments, config=config, log_start_offset=log_start, high_watermark=high_watermark, now_ms=NOW
    )
    found = PartitionRetention(
        partition=TopicPartition(topic, 0),
        settings=SourcedConfig(config=config, origins={}),
        state=state,
        outlooks=explain_retention(state),
    )
    return [one.value for one in segment_states(found)]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LogConfig(retention_ms=100), "time"),
        (LogConfig(retention_ms=-1, retention_bytes=100), "size"),
        (LogConfig(retention_ms=100, retention_bytes=100), "time_and_size"),
        (LogConfig(retention_ms=-1), "unlimited"),
        (LogConfig(cleanup_policy=COMPACT), "compaction"),
        (LogConfig(cleanup_policy=EMPTY), "no_policy"),
        (LogConfig(retention_ms=10), "deleted_by_time"),
        (LogConfig(retention_ms=100, retention_bytes=10), "deleted_by_size"),
    ],
)
def test_by_the_settings(config: LogConfig, expected: str) -> None:
    assert states(YOUNG, NOW, config=config) == [expected, "active"]


def test_below_the_log_start() -> None:
    assert states(YOUNG, YOUNG, NOW, config=LogConfig(), log_start=10) == ["deleted_by_log_start", "time", "active"]


def test_blocked_by_the_high_watermark() -> None:
    found = states(OLD, OLD, YOUNG, NOW, config=LogConfig(retention_ms=100), high_watermark=15)
    assert found == ["deleted_by_time", "high_watermark", "time", "active"]


def test_behind_a_timestamp_in_the_future() -> None:
    found = states(AHEAD, OLD, YOUNG, NOW, config=LogConfig(retention_ms=100))
    assert found == ["future", "waits", "waits", "active"]


def test_a_young_segment_behind_a_slightly_younger_one_is_kept_by_time() -> None:
    assert states(YOUNG + 5, YOUNG, OLD, NOW, config=LogConfig(retention_ms=100)) == ["time", "time", "waits", "active"]


def test_the_metadata_log_is_kept_by_snapshots() -> None:
    found = states(OLD, OLD, NOW, config=LogConfig(retention_ms=-1), topic="__cluster_metadata", log_start=10)
    assert found == ["deleted_by_log_start", "snapshot", "active"]


def test_the_active_segment_may_be_deleted_too() -> None:
    assert states(OLD, OLD, config=LogConfig(retention_ms=100)) == ["deleted_by_time", "deleted_by_time"]


def test_each_state_has_a_style_of_its_own() -> None:
    assert {state.value for state in SegmentState} <= STYLES.keys()
    assert len({style.letter for style in STYLES.values()}) == len(STYLES)
    assert len({(style.fill, style.pattern) for style in STYLES.values()}) == len(STYLES)
