"""The plan of a read: partitions, start and end offsets, and data loss."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import FORMATS, SCENARIOS, manifest
from log_maker import BASE_TIME, data, mark_clean, marker, plain, write_checkpoint, write_segment
from spark.in_process import offsets, reader_of, rows, splits_of
from tidelog.model import (
    ConfigError,
    DirectoryError,
    FileMissingError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write ``t-0``: offsets 100 to 300 in two segments, log start 105. A record's time is BASE_TIME + offset."""
    for base in (100, 200):
        write_segment(tmp_path / "t-0", base, [plain(base + 10 * number) for number in range(10)])
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {"t-0": 105})
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {"t-0": 250})
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": 280})
    mark_clean(tmp_path)
    return tmp_path


def span(log_dir: Path, **given: object) -> tuple[int, int] | None:
    found = offsets(log_dir, **given)
    assert found == list(range(found[0], found[-1] + 1)) if found else True
    return (found[0], found[-1] + 1) if found else None


def test_everything_from_the_log_start(root: Path) -> None:
    assert span(root) == (105, 300)


def test_offsets(root: Path) -> None:
    def by(start: int, end: int) -> tuple[int, int] | None:
        numbers = {"startingOffsets": start, "endingOffsets": end}
        return span(root, **{name: json.dumps({"t": {"0": number}}) for name, number in numbers.items()})

    assert by(-2, -1) == (105, 300)
    assert by(111, 112) == (111, 112)
    assert by(150, 150) is None
    assert by(300, 300) is None


def test_timestamps(root: Path) -> None:
    assert span(root, startingTimestamp=BASE_TIME + 150) == (150, 300)
    assert span(root, startingTimestamp=0, endingTimestamp=BASE_TIME + 210) == (105, 210)
    assert span(root, endingTimestamp=BASE_TIME + 5000) == (105, 300)
    both = {"startingOffsetsByTimestamp": 107, "endingOffsetsByTimestamp": 290}
    given = {name: json.dumps({"t": {"0": BASE_TIME + number}}) for name, number in both.items()}
    assert span(root, **given) == (107, 290)
    with pytest.raises(OffsetOutOfRangeError, match="startingOffsetsByTimestampStrategy"):
        offsets(root, startingTimestamp=BASE_TIME + 5000)
    late = {"startingTimestamp": BASE_TIME + 5000, "startingOffsetsByTimestampStrategy": "latest"}
    assert span(root, **late) is None


def test_until(root: Path) -> None:
    assert span(root, until="log_end") == (105, 300)
    assert span(root, until="high_watermark") == (105, 280)
    assert span(root, until="checkpoint") == (105, 250)


@pytest.mark.parametrize(
    ("start", "end", "found", "clause"),
    [
        (50, -1, (105, 300), "the log starts at 105"),
        (-2, 400, (105, 300), "they end at 300"),
        (200, 150, None, "the start 200 lies after the end 150"),
        (350, -1, None, "the start 350 lies after the end 300"),
    ],
)
def test_data_loss(
    root: Path, caplog: pytest.LogCaptureFixture, start: int, end: int, found: object, clause: str
) -> None:
    given = {"startingOffsets": json.dumps({"t": {"0": start}}), "endingOffsets": json.dumps({"t": {"0": end}})}
    with pytest.raises(OffsetOutOfRangeError, match=clause) as raised:
        offsets(root, **given)
    assert "failOnDataLoss" in str(raised.value)
    with caplog.at_level(logging.WARNING):
        assert span(root, failOnDataLoss="false", **given) == found
    assert clause in caplog.text


def test_what_compaction_and_transactions_leave_out_is_no_loss(tmp_path: Path) -> None:
    write_segment(
        tmp_path / "t-0", 0, [plain(3, 2), plain(40, 1), data(50, 3), marker(53, committed=False), plain(60, 1)]
    )
    assert offsets(tmp_path) == [3, 4, 40, 50, 51, 52, 60]
    assert offsets(tmp_path, kafka__isolation__level="read_committed") == [3, 4, 40, 60]
    assert offsets(tmp_path, includeControlRecords="true") == [3, 4, 40, 50, 51, 52, 53, 60]


def test_a_missing_topic_or_partition(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="u not found"):
        offsets(root, subscribe="t,u")
    with pytest.raises(UnknownTopicOrPartitionError, match="t-1, u-0 not found"):
        offsets(root, assign='{"t":[0,1],"u":[0]}')
    with caplog.at_level(logging.WARNING):
        assert span(root, subscribe="t,u", failOnDataLoss="false") == (105, 300)
        assert span(root, assign='{"t":[0,1]}', failOnDataLoss="false") == (105, 300)
    assert "t-1 not found" in caplog.text
    assert offsets(root, subscribePattern="u.*") == []


def test_a_map_names_every_partition_and_no_other(root: Path) -> None:
    write_segment(root / "t-1", 0, [plain(0)])
    for offsets_by_partition in ({"0": 110}, {"0": 110, "1": 0, "2": 0}):
        with pytest.raises(ConfigError, match="exactly the partitions that are read"):
            offsets(root, startingOffsets=json.dumps({"t": offsets_by_partition}))
    all_three = {"startingOffsets": '{"t":{"0":299,"1":9,"2":0}}', "assign": '{"t":[0,1,2]}'}
    assert offsets(root, failOnDataLoss="false", **all_three) == [299, 9]
    with pytest.raises(ConfigError):
        offsets(root, startingOffsets='{"t":{"0":299,"1":9},"u":{"0":0}}', failOnDataLoss="false")


def test_several_directories(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    write_segment(other / "t-1", 0, [plain(0)])
    both = rows(f"{root},{other}")
    assert [(row["partition"], row["offset"]) for row in both] == [(0, n) for n in range(105, 300)] + [
        (1, n) for n in range(10)
    ]
    write_segment(other / "t-0", 0, [plain(0)])
    with pytest.raises(DirectoryError, match="t-0 lies in two of the directories"):
        rows(f"{root},{other}")
    assert len(rows(f"{root},{other}", mode="segments")) == 4


def test_what_is_no_log_directory(root: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DirectoryError, match="not a Kafka log directory"):
        rows(empty)
    with pytest.raises(FileMissingError):
        rows(tmp_path / "nowhere")


def test_a_pattern_leaves_internal_topics_out(root: Path) -> None:
    for name in ("__consumer_offsets-0", "__mine-0"):
        write_segment(root / name, 0, [plain(0, 1)])
    assert {row["topic"] for row in rows(root, subscribePattern=".*")} == {"t", "__mine"}
    assert {row["topic"] for row in rows(root, subscribe="__consumer_offsets")} == {"__consumer_offsets"}


def test_bytes_behind_the_end_are_warned_of(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = root / "t-0" / f"{200:020d}.log"
    log.write_bytes(log.read_bytes() + plain(300)[:50])
    with caplog.at_level(logging.WARNING):
        assert span(root) == (105, 300)
    assert "t-0 ends at offset 300: the 50 bytes after it are no valid batch" in caplog.text


def test_the_open_transaction_ends_a_committed_read(golden: GoldenFactory) -> None:
    wanted = manifest(SCENARIOS)["txn-0"]["read_committed"]
    for kind in ("clean", "unclean"):
        found = offsets(golden(SCENARIOS, kind), subscribe="txn", kafka__isolation__level="read_committed")
        assert (len(found), found[0], found[-1]) == (wanted["count"], wanted["first"], wanted["last"])


def test_a_task_carries_little(golden: GoldenFactory) -> None:
    import pickle

    reader = reader_of(golden(SCENARIOS), subscribe="txn", kafka__isolation__level="read_committed", minPartitions=10)
    assert all(len(pickle.dumps(split)) < 4000 for split in splits_of(reader))


def test_records_without_a_time_and_without_headers(golden: GoldenFactory) -> None:
    found = rows(golden(FORMATS), subscribePattern=".*v0.*", includeHeaders="true")
    assert found
    for row in found:
        assert row["timestampType"] == -1
        assert row["timestamp"].isoformat() == "1969-12-31T23:59:59.999000+00:00"
        assert row["headers"] is None
