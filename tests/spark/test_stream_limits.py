"""The pure parts of the stream source: offsets as JSON, limits of a batch, data loss, options."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.in_process import options_of
from tidelog.model import ConfigError, OffsetOutOfRangeError, TopicPartition
from tidelog.spark.read.option_text import parse_time_ms
from tidelog.spark.read.options import EARLIEST, LATEST, ReadOptions, Use, option_warnings
from tidelog.spark.stream.data_loss import batch_ranges, new_partitions
from tidelog.spark.stream.stream_offsets import from_json, to_json
from tidelog.spark.stream.stream_options import Pacing, StreamOptions, TriggerLimits, shared_out

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.text("ab-_.", min_size=1, max_size=3), st.integers(0, 20)), st.integers(0, 2**62)
)


def test_offsets_are_written_as_sparks_kafka_source_writes_them() -> None:
    written = json.dumps(to_json({B0: 5, A1: 0, A0: 23, TopicPartition("a", 10): 7}), separators=(",", ":"))
    assert written == '{"a":{"0":23,"1":0,"10":7},"b":{"0":5}}'


@given(OFFSETS)
def test_offsets_come_back(offsets: dict[TopicPartition, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@given(OFFSETS, st.randoms(use_true_random=False))
def test_equal_offsets_are_equal_texts(offsets: dict[TopicPartition, int], order: object) -> None:
    items = list(offsets.items())
    order.shuffle(items)  # type: ignore[attr-defined]
    assert json.dumps(to_json(dict(items))) == json.dumps(to_json(offsets))


@pytest.mark.parametrize(
    "value", [None, [], "a", {"a": 1}, {"a": {"x": 1}}, {"a": {"0": -1}}, {"a": {"0": 1.5}}, {"a": {"0": True}}]
)
def test_offsets_of_another_source_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="checkpoint"):
        from_json(value)


def test_a_limit_is_shared_out_by_what_waits() -> None:
    latest = {A0: 1000, A1: 100, B0: 10}
    start = {A0: 0, A1: 0, B0: 0}
    # 200 × 1000/1110 = 180.2, 200 × 100/1110 = 18.02, 200 × 10/1110 = 1.8
    assert shared_out(200, start, latest) == {A0: 180, A1: 18, B0: 1}
    # A share below one is rounded up, so that no partition starves. The sum then exceeds the limit.
    assert shared_out(1, start, latest) == {A0: 1, A1: 1, B0: 1}
    assert shared_out(2000, start, latest) == latest


def test_a_partition_without_anything_waiting_keeps_its_end() -> None:
    assert shared_out(10, {A0: 50, A1: 0}, {A0: 50, A1: 100}) == {A0: 50, A1: 10}
    assert shared_out(10, {A0: 50}, {A0: 50}) == {A0: 50}
    assert shared_out(10, {A0: 60, A1: 0}, {A0: 50, A1: 100}) == {A0: 50, A1: 10}


@given(
    st.integers(1, 10**6),
    st.dictionaries(st.sampled_from([A0, A1, B0]), st.tuples(st.integers(0, 10**9), st.integers(0, 10**9))),
)
def test_a_limited_batch_goes_on_and_never_too_far(most: int, logs: dict[TopicPartition, tuple[int, int]]) -> None:
    start = {partition: first for partition, (first, _) in logs.items()}
    latest = {partition: first + waiting for partition, (first, waiting) in logs.items()}
    ends = shared_out(most, start, latest)
    assert ends.keys() == latest.keys()
    for partition, (_, waiting) in logs.items():
        assert start[partition] + min(waiting, 1) <= ends[partition] <= latest[partition]
    assert sum(ends[partition] - start[partition] for partition in logs) <= most + len(logs)


def test_a_batch_waits_for_enough_but_not_for_ever() -> None:
    pacing = Pacing(TriggerLimits(min_offsets=100, max_delay_ms=1000))
    start = {A0: 0}
    assert not pacing.waits(start, {A0: 1}, 5000)  # the first batch of a run
    assert pacing.waits(start, {A0: 99}, 5999)
    assert not pacing.waits(start, {A0: 1}, 6000)
    assert not pacing.waits(start, {A0: 100}, 6001)
    assert not pacing.waits(start, {A0: 60, A1: 40}, 6002)
    assert pacing.waits(start, {A0: 60}, 6003)
    assert not Pacing(TriggerLimits(max_offsets=1)).waits(start, start, 0)


def test_what_counts_as_lost() -> None:
    assert new_partitions({A0: 1}, {A0: 2, A1: 1}) == {A1}
    batch = batch_ranges({A0: 5, A1: 7}, {A0: 9, A1: 7, B0: 3}, {B0: 0})
    assert batch.ranges == {A0: (5, 9), B0: (0, 3)}
    assert not batch.losses
    batch = batch_ranges({A0: 5, A1: 7}, {A1: 6, B0: 3, TopicPartition("c", 0): 4}, {B0: 2})
    assert batch.ranges == {B0: (2, 3)}
    assert batch.losses == (
        "a-0 is gone",
        "the offset of a-1 went back from 7 to 6",
        "b-0 is new and begins at offset 2 instead of 0",
        "c-0 was new and is gone",
    )
    with pytest.raises(OffsetOutOfRangeError, match=r"a-0 is gone; .*c-0 was new and is gone\. .*failOnDataLoss"):
        batch.report(fail=True, warn=pytest.fail)
    said: list[str] = []
    batch.report(fail=False, warn=said.append)
    assert len(said) == 4


def test_a_first_batch_that_is_read_again_loses_nothing() -> None:
    batch = batch_ranges({A0: 130, A1: 0, B0: 0}, {A0: 100, A1: 4}, {}, replay=True)
    assert batch.ranges == {A1: (0, 4)}
    assert not batch.losses


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500", 500),
        ("500ms", 500),
        ("50s", 50_000),
        ("15m", 900_000),
        ("15min", 900_000),
        (" 2H ", 7_200_000),
        ("1d", 86_400_000),
        ("2500us", 2),
        ("0", 0),
    ],
)
def test_times(text: str, milliseconds: int) -> None:
    assert parse_time_ms(text, "maxTriggerDelay") == milliseconds


@pytest.mark.parametrize("text", ["", "m", "-1s", "1.5s", "15 m", "1w", "9" * 30])
def test_bad_times(text: str) -> None:
    with pytest.raises(ConfigError, match="maxTriggerDelay"):
        parse_time_ms(text, "maxTriggerDelay")


def test_options_of_a_stream() -> None:
    options = StreamOptions.parse(options_of("d"))
    assert options.read.starting.everywhere == LATEST
    assert options.limits == TriggerLimits()
    options = StreamOptions.parse(
        options_of(
            "d", startingOffsets="earliest", MAXOFFSETSPERTRIGGER=10, minOffsetsPerTrigger=10, maxTriggerDelay="1m"
        )
    )
    assert options.read.starting.everywhere == EARLIEST
    assert options.limits == TriggerLimits(max_offsets=10, min_offsets=10, max_delay_ms=60_000)
    named = StreamOptions.parse(options_of("d", startingOffsets='{"t":{"0":-1,"1":-2}}')).read.starting.offsets
    assert named == {TopicPartition("t", 0): LATEST, TopicPartition("t", 1): EARLIEST}


@pytest.mark.parametrize(
    ("given", "clause"),
    [
        ({"endingOffsets": "latest"}, "'endingOffsets' is not allowed in a stream"),
        ({"endingTimestamp": 5}, "'endingTimestamp' is not allowed in a stream"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":5}}'}, "'endingOffsetsByTimestamp' is not allowed in a stream"),
        ({"minOffsetsPerTrigger": 11, "maxOffsetsPerTrigger": 10}, "is higher than"),
        ({"maxOffsetsPerTrigger": 0}, "'maxOffsetsPerTrigger' takes a whole number from 1"),
        ({"maxTriggerDelay": "soon"}, "'maxTriggerDelay' takes a time"),
        ({"mode": "batches"}, "a stream reads only records"),
    ],
)
def test_mistakes_in_a_stream(given: dict[str, object], clause: str) -> None:
    with pytest.raises(ConfigError, match=clause):
        StreamOptions.parse(options_of("d", **given))


def test_the_table_does_not_depend_on_how_it_is_read() -> None:
    for bound in ({"startingOffsets": "latest"}, {"endingOffsets": "earliest"}):
        assert ReadOptions.parse(options_of("d", **bound), Use.TABLE).log_dirs


def test_limits_give_a_warning_in_a_batch_only() -> None:
    options = {"maxOffsetsPerTrigger": "5", "colour": "red"}
    assert len(option_warnings(options)) == 2
    assert len(option_warnings(options, Use.STREAM)) == 1
