"""`tidelog retention` compared with a real broker: its forecast of the next check equals the result of the check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from golden_sets import SCENARIOS
from real_kafka.conftest import BrokerFactory
from real_kafka.directories import METADATA
from tidelog.inspect.retention import DeletionTrigger, PartitionRetention, survey_retention
from tidelog.model import TopicPartition
from tidelog.storage.checkpoint import LOG_START_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.survey.setting_sources import read_setting_sources

pytestmark = pytest.mark.kafka

CHECKING = {"log.initial.task.delay.ms": "300", "log.retention.check.interval.ms": "500"}
WRITTEN_MS = 1_795_218_000_000
"""The wall clock when the golden sets were written."""
AMONG_RECORDS_MS = 1_700_000_260_000
"""A time after some of the records with times of November 2023, and before others."""
SLOW_MS = 20_000
"""The longest wait for a broker's check, in ms."""

CASES = {
    "time": (WRITTEN_MS, {}),
    "size": (WRITTEN_MS, {"log.retention.hours": "-1", "log.retention.bytes": "40000"}),
    "size-and-time": (WRITTEN_MS, {"log.retention.bytes": "30000", "log.retention.minutes": "30"}),
    "nothing": (WRITTEN_MS, {"log.retention.ms": "-1"}),
    "future": (AMONG_RECORDS_MS, {"log.retention.ms": "28000"}),
}
LOG_STARTS = {TopicPartition("gz", 0): 1000, TopicPartition("txn", 0): 292}


@pytest.mark.parametrize(("now_ms", "properties"), CASES.values(), ids=CASES)
def test_the_next_check_leaves_what_was_said(
    golden_copy: Callable[..., Path], new_broker: BrokerFactory, now_ms: int, properties: Mapping[str, str]
) -> None:
    directory = golden_copy(SCENARIOS)
    checkpoint = directory / LOG_START_CHECKPOINT
    OffsetCheckpoint.write(LOCAL, checkpoint, {**OffsetCheckpoint.read(LOCAL, checkpoint), **LOG_STARTS})
    later = kept_segments(directory, properties, now_ms + SLOW_MS)
    said = {name: kept for name, kept in kept_segments(directory, properties, now_ms).items() if kept == later[name]}
    assert len(said) > 15, "a case that hangs on seconds"
    broker = new_broker(directory, properties={**CHECKING, **properties}, now_ms=now_ms)
    broker.start()
    deadline = time.monotonic() + SLOW_MS / 1000
    while live_segments(directory, said) != said and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(1.2)  # two checks more change nothing
    assert live_segments(directory, said) == said
    live = kept_segments(directory, properties, now_ms)
    assert {name: live[name] for name in said} == said, "under the broker: the next check finds no more"
    broker.stop()


def kept_segments(directory: Path, properties: Mapping[str, str], now_ms: int) -> dict[str, list[int]]:
    """Return the base offsets of each partition after a check."""
    (sources,) = read_setting_sources(LOCAL, [directory], file=properties, file_name="server.properties").values()
    found = survey_retention(LOCAL, directory, sources, now_ms=now_ms)
    return {part.partition.directory_name: kept(part) for part in found if part.partition.directory_name != METADATA}


def kept(part: PartitionRetention) -> list[int]:
    """Return the base offsets that a check keeps. A log that would lose every segment rolls first."""
    assert part.error is None
    offsets = [
        outlook.segment.base_offset for outlook in part.outlooks if outlook.trigger is not DeletionTrigger.NEXT_CHECK
    ]
    return offsets or [part.log_end]


def live_segments(directory: Path, names: Iterable[str]) -> dict[str, list[int]]:
    return {name: sorted(int(log.stem) for log in (directory / name).glob("*.log")) for name in names}
