"""The facts that retention decides by, read from log directories of brokers, of tidelog, and made by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tidelog
from conftest import GoldenFactory
from golden_sets import FLIGHTS, FORMATS, KRAFT_SETS, SCENARIOS, SETS
from log_maker import BASE_TIME, batch, mark_clean, plain, write_checkpoint, write_segment
from tidelog.inspect.retention import DeletionTrigger, PartitionRetention, survey_retention
from tidelog.inspect.retention.sentences import goes_text, offsets_text, settings_text, why_text
from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.survey.log_survey import HighWatermarkFrom, TimeFrom
from tidelog.storage.manager.survey.setting_sources import SettingSources, read_setting_sources

NOW = BASE_TIME + 1_000_000
YEAR = 365 * 24 * 3_600_000
NO_LIMITS = SettingSources(overrides={"retention.ms": "-1"})
DIRECTORIES = [(name, kind) for name in SETS for kind in (("clean", "unclean") if name in KRAFT_SETS else ("clean",))]


def survey(path: Path, sources: SettingSources | None = None, now_ms: int = NOW) -> dict[str, PartitionRetention]:
    found = survey_retention(LOCAL, path, sources or read_setting_sources(LOCAL, [path])[path], now_ms=now_ms)
    return {part.partition.directory_name: part for part in found}


def sentences(part: PartitionRetention) -> list[tuple[str, str]]:
    return [(goes_text(part, outlook), why_text(part, outlook)) for outlook in part.outlooks]


@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_every_segment_of_real_directories(golden: GoldenFactory, set_name: str, kind: str) -> None:
    directory = golden(set_name, kind)
    found = survey(directory)
    assert {part.error for part in found.values()} == {None}
    for name, part in found.items():
        assert part.state is not None
        logs = sorted((directory / name).glob("*.log"))
        assert [segment.base_offset for segment in part.state.segments] == [int(log.stem) for log in logs]
        with tidelog.open_log(directory / name, read_only=True) as log:
            ends = [segment.base_offset for segment in part.state.segments[1:]] + [log.offsets().log_end.message_offset]
            everything = log.offsets()
        assert [segment.end_offset for segment in part.state.segments] == ends
        assert part.state.log_start_offset == everything.log_start
        for segment, outlook in zip(part.state.segments, part.outlooks, strict=True):
            assert outlook.segment is segment
            assert goes_text(part, outlook)
            assert why_text(part, outlook)
        assert settings_text(part)
        assert offsets_text(part)


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_times_are_those_of_the_records(golden: GoldenFactory, kind: str) -> None:
    """A segment's largest timestamp is that of its records, whether the time index or the batches provide it."""
    directory = golden(SCENARIOS, kind)
    found = survey(directory)
    for name in ("plain-0", "txn-0", "append-time-0", "gz-0"):
        state = found[name].state
        assert state is not None
        with tidelog.open_log(directory / name, read_only=True) as log:
            stamps = {record.offset: record.timestamp for record in log.records()}
        for segment in state.segments:
            own = [stamps[offset] for offset in range(segment.base_offset, segment.end_offset) if offset in stamps]
            largest = segment.largest_timestamp_ms
            assert largest is not None
            assert largest == max(own) or (name == "txn-0" and largest >= max(own)), "markers have times too"
        sources = [found[name].times_from[segment.base_offset] for segment in state.segments]
        assert sources[-1] is TimeFrom.RECORDS
        if kind == "clean":
            assert set(sources[:-1]) == {TimeFrom.TIME_INDEX}


def test_messages_without_timestamps_have_the_time_of_the_file(golden: GoldenFactory) -> None:
    directory = golden(FORMATS)
    part = survey(directory, now_ms=4 * 10**12)["v0-gzip-0"]
    assert part.state is not None
    for segment in part.state.segments:
        assert part.times_from[segment.base_offset] is TimeFrom.FILE
        stat = (directory / "v0-gzip-0" / f"{segment.base_offset:020d}.log").stat()
        assert segment.time_ms == stat.st_mtime_ns // 1_000_000
    assert "no record has a timestamp, and its file was last changed" in sentences(part)[0][1]


def test_deleted_by_log_start(golden: GoldenFactory) -> None:
    """Kafka moved this log's start to 777 and deleted the segments below it, so this rule deletes no other."""
    sources = read_setting_sources(LOCAL, [golden(SCENARIOS)], overrides={"retention.ms": "-1"})[golden(SCENARIOS)]
    part = survey(golden(SCENARIOS), sources)["trimmed-0"]
    assert part.state is not None
    assert part.state.log_start_offset == 777
    assert {outlook.trigger for outlook in part.outlooks} == {DeletionTrigger.NEVER}
    assert sentences(part)[0] == ("never", "retention.ms and retention.bytes are -1")


def future_log(directory: Path) -> Path:
    """Write three segments. A record in the middle of the first segment's second batch has a time a year ahead."""
    ahead = batch(15, [b"a", b"b", b"c"], timestamp=NOW + YEAR)
    write_segment(directory, 0, [plain(0, 10), ahead, plain(18, 2, timestamp=BASE_TIME)])
    write_segment(directory, 20, [plain(20, 10)])
    write_segment(directory, 30, [plain(30, 10)])
    mark_clean(directory.parent)
    return directory.parent


def test_a_record_from_the_future_is_named(tmp_path: Path) -> None:
    part = survey(future_log(tmp_path / "t-0"), SettingSources(overrides={"retention.ms": "1000"}))["t-0"]
    assert part.future[0] == (NOW + YEAR + 2, 17), "of a batch's records the one with the largest timestamp"
    (goes, why), (later, behind), _ = sentences(part)
    assert goes == later == "2024-11-13T22:30:01.003Z"
    assert why.startswith(
        "future timestamp: the record at offset 17 is dated 2024-11-13T22:30:00.002Z, 1 year from now"
    )
    assert behind == "segments are deleted oldest first, and segment 0 stays until then"


def test_the_record_from_the_future_is_found_without_a_time_index_too(tmp_path: Path) -> None:
    directory = future_log(tmp_path / "t-0")
    for kind in ("index", "timeindex"):
        (directory / "t-0" / f"{0:020d}.{kind}").unlink()
    part = survey(directory, SettingSources(overrides={"retention.ms": "1000"}))["t-0"]
    assert part.times_from[0] is TimeFrom.RECORDS
    assert part.future[0] == (NOW + YEAR + 2, 17)


def test_a_damaged_batch_from_the_future_is_told_without_its_offset(tmp_path: Path) -> None:
    directory = future_log(tmp_path / "t-0")
    log = directory / "t-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[len(plain(0, 10)) + 70] ^= 1
    log.write_bytes(data)
    part = survey(directory, SettingSources(overrides={"retention.ms": "1000"}))["t-0"]
    assert part.error is None
    assert sentences(part)[0][1].startswith("future timestamp: a record is dated 2024-11-13T22:30:00.002Z, 1 year from")


def test_only_the_time_index_is_missing(tmp_path: Path) -> None:
    """A broker creates an empty time index, and from then on uses the file's modification time."""
    directory = future_log(tmp_path / "t-0")
    (directory / "t-0" / f"{0:020d}.timeindex").unlink()
    os.utime(directory / "t-0" / f"{0:020d}.log", ns=(BASE_TIME * 10**6, BASE_TIME * 10**6))
    part = survey(directory, SettingSources(overrides={"retention.ms": "1000"}))["t-0"]
    assert part.times_from[0] is TimeFrom.FILE_WITHOUT_INDEX
    clause = (
        "its .timeindex is missing, so a broker uses the time of its file,"
        " which was last changed 16 minutes 40 seconds ago"
    )
    assert sentences(part)[0] == (
        "next check",
        f"time: {clause}, retention.ms is 1 second",
    )
    late = survey(directory, SettingSources(overrides={"retention.ms": "1000"}), now_ms=BASE_TIME - 60_000)["t-0"]
    assert "which was last changed 2023-11-14T22:13:20.000Z, 1 minute from now" in sentences(late)[0][1]


def test_high_watermarks(tmp_path: Path) -> None:
    future_log(tmp_path / "t-0")
    due = {"retention.ms": "1000"}
    part = survey(tmp_path, SettingSources(overrides=due), now_ms=NOW + 2 * YEAR)["t-0"]
    assert part.high_watermark_from is HighWatermarkFrom.LOG_END
    assert [goes for goes, _ in sentences(part)] == ["next check"] * 3
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": 25})
    part = survey(tmp_path, SettingSources(overrides=due), now_ms=NOW + 2 * YEAR)["t-0"]
    assert part.high_watermark_from is HighWatermarkFrom.CHECKPOINT
    assert sentences(part)[1] == (
        "with the high watermark at 30",
        "it ends at 30, above the high watermark 25",
    )
    young = survey(tmp_path, SettingSources(overrides={"retention.ms": str(YEAR)}))["t-0"]
    assert sentences(young)[2][0].endswith("Z, and the high watermark at 40")
    metadata = TopicMetadata(replicas={TopicPartition("t", 0): (1,)})
    alone = survey(tmp_path, SettingSources(overrides=due, metadata=metadata), now_ms=NOW + 2 * YEAR)["t-0"]
    assert alone.high_watermark_from is HighWatermarkFrom.ONLY_REPLICA
    assert offsets_text(alone) == "log [0, 40), high watermark 40 (the only replica)"


def test_a_directory_that_tidelog_wrote(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=400)
    with tidelog.open_log(tmp_path / "own-0", config=config) as log:
        for number in range(12):
            log.append(b"x" * 100, timestamp=NOW - 50_000 + 1000 * number)
    part = survey(tmp_path, SettingSources(overrides={"retention.ms": "46000", "retention.bytes": "1500"}))["own-0"]
    assert part.state is not None
    sizes = {segment.base_offset: segment.size_bytes for segment in part.state.segments}
    assert sizes == {int(path.stem): path.stat().st_size for path in (tmp_path / "own-0").glob("*.log")}
    assert [outlook.deletion.rule if outlook.deletion else None for outlook in part.outlooks] == [
        "size",
        "time",
        *[None] * (len(sizes) - 2),
    ]


def test_what_a_kill_left_behind_the_log_end_does_not_count(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", 0, [plain(0, 10), plain(10, 10)])
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\0" * 100)
    part = survey(tmp_path, NO_LIMITS)["t-0"]
    assert part.state is not None
    assert part.state.segments[0].size_bytes == whole
    assert part.log_end == 20


def test_a_partition_that_cannot_be_read_is_told(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    (directory / "airports-0").chmod(0)
    if os.access(directory / "airports-0", os.R_OK):  # root can read it despite the mode
        (directory / "airports-0").chmod(0o700)
        (directory / "airports-0" / "leader-epoch-checkpoint").unlink()
        for path in (directory / "airports-0").glob("*.log"):
            path.unlink()
            path.mkdir()
    found = survey(directory)
    (directory / "airports-0").chmod(0o700)
    assert found["airports-0"].error is not None
    assert found["flights-0"].error is None
