"""The staged files of a task, and the records in the logs after the commit."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from conftest import GoldenFactory
from golden_sets import SCENARIOS
from log_maker import BASE_TIME
from spark.in_process import rows
from spark.write.sinks import Sink, records
from tidelog.kernel import scan_batches
from tidelog.model import (
    InvalidRecordError,
    RecordTooLargeError,
    TidelogError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from tidelog.spark.write import staging
from tidelog.spark.write.topic_layout import TopicLayout, TopicLayouts
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.adopt.staged_segment import read_staged
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing import ManualClock

CLOCK = ManualClock(BASE_TIME)


def test_all_of_a_record_arrives(tmp_path: Path) -> None:
    given: list[dict[str, Any]] = [
        {"note": 7, "key": b"k", "value": b"v", "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]},
        {"note": 8, "key": None, "value": None, "headers": []},
        {"note": 9, "key": b"", "value": b"", "headers": None},
    ]
    Sink(tmp_path / "new" / "logs", clock=CLOCK).write(given)
    found = rows(tmp_path / "new" / "logs", includeHeaders=True)
    assert [(row["key"], row["value"], row["headers"]) for row in found] == [
        (b"k", b"v", given[0]["headers"]),
        (None, None, None),
        (b"", b"", None),
    ]
    assert {(row["timestamp"].timestamp() * 1000, row["timestampType"]) for row in found} == {(BASE_TIME, 0)}


def test_tasks_follow_each_other_in_each_partition(tmp_path: Path) -> None:
    sink = Sink(tmp_path, numPartitions=3)
    sink.write(records(300), [], records(200, first=300))
    found = sink.values()
    assert sorted(found) == [0, 1, 2]
    assert all(values == sorted(values, key=lambda value: int((value or b"")[6:])) for values in found.values())
    assert len(list(chain.from_iterable(found.values()))) == 500
    sink.write(records(100, first=500), batch=1)
    assert {number: values[: len(found[number])] for number, values in sink.values().items()} == found


def test_a_new_topic_gets_all_its_partitions(tmp_path: Path) -> None:
    sink = Sink(tmp_path, numPartitions=4)
    sink.write(records(1))
    assert sorted(path.name for path in tmp_path.glob("t-*")) == ["t-0", "t-1", "t-2", "t-3"]
    Sink(tmp_path).write([{"partition": 3, "value": b"v"}], batch=1)
    assert sink.values()[3][-1] == b"v"


def test_partitions_that_a_crash_has_kept_from_being_made_are_counted(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    Sink(tmp_path, numPartitions=3).write([{"partition": 2, "value": b"v"}])
    assert sorted(path.name for path in tmp_path.glob("t-*")) == ["t-0", "t-1", "t-2"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_have_the_codec_and_the_size_that_was_asked_for(tmp_path: Path, codec: str) -> None:
    given: dict[str, Any] = {"kafka.compression.type": codec, "kafka.batch.size": 4096}
    sink = Sink(tmp_path, **given)
    sink.write(records(2000))
    table = scan_batches((tmp_path / "t-0" / f"{0:020}.log").read_bytes())
    names = {batch["compression"] for batch in rows(tmp_path, mode="batches")}
    assert names == {codec}
    assert len(table) > 10
    assert table.size.max() <= 4096
    assert sink.values() == {0: [row["value"] for row in records(2000)]}


def test_rows_are_gathered_over_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_GATHERED_BYTES", 2000)
    sink = Sink(tmp_path, numPartitions=2)
    parts = [records(100, first=first) for first in range(0, 1000, 100)]
    sink.write(*parts)
    assert sorted(len(values) for values in sink.values().values())[0] > 400


class TestSettingsOfRealTopics:
    """Topics whose segments have 16 KiB by the cluster metadata."""

    def test_files_are_cut_to_segments(self, golden_copy: GoldenFactory) -> None:
        sink = Sink(golden_copy(SCENARIOS), topic="plain")
        before = sink.values("plain")
        (report,) = sink.stage(records(6000))
        files = {str(partition): len(files) for partition, files in report.files.items()}
        assert set(files) == {"plain-0", "plain-1", "plain-2"}
        assert min(files.values()) > 2
        assert max(file.size for files in report.files.values() for file in files) <= 16384
        sink.commits.commit("q", 0, [report])
        after = sink.values("plain")
        assert sum(map(len, after.values())) == sum(map(len, before.values())) + 6000

    def test_partitions_of_other_brokers_are_refused(self, golden_copy: GoldenFactory) -> None:
        sink = Sink(golden_copy(SCENARIOS), topic="plain")
        properties = sink.path / "meta.properties"
        properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
        with pytest.raises(UnknownTopicOrPartitionError, match="on other brokers than the one whose"):
            sink.stage(records(1))

    def test_the_brokers_time_and_codec(self, golden_copy: GoldenFactory) -> None:
        directory = golden_copy(SCENARIOS)
        for topic, kind, codec in (("append-time", 1, "none"), ("broker-lz4", 0, "lz4")):
            Sink(directory, topic=topic, clock=CLOCK, query=topic).write(records(10))
            last = rows(directory, subscribe=topic, includeBatchMetadata=True)[-1]
            assert (last["timestampType"], last["compression"]) == (kind, codec)
            assert last["timestamp"].timestamp() * 1000 == BASE_TIME

    @pytest.mark.parametrize("interval", [0, 1, 512])
    def test_files_are_cut_to_indexes(self, tmp_path: Path, interval: int) -> None:
        config = LogConfig(segment_index_bytes=240, index_interval_bytes=interval)
        layouts = TopicLayouts(known={}, new=TopicLayout(partition_count=1, config=config))
        given: dict[str, Any] = {"kafka.batch.size": 100}
        sink = Sink(tmp_path, **given)
        (report,) = sink.stage(records(500), layouts=layouts)
        files = report.files[TopicPartition("t", 0)]
        assert len(files) > 1
        for file in files:
            assert read_staged(LOCAL, tmp_path / file.name, config).size == file.size

    @pytest.mark.parametrize(
        ("topic", "row", "kind"),
        [
            ("compacted", {"value": b"v"}, InvalidRecordError),
            ("plain", {"value": b"v" * 17_000}, RecordTooLargeError),
            ("plain", {"value": b"v", "partition": 3}, UnknownTopicOrPartitionError),
        ],
    )
    def test_what_a_topic_does_not_take(
        self, golden_copy: GoldenFactory, topic: str, row: dict[str, Any], kind: type[TidelogError]
    ) -> None:
        sink = Sink(golden_copy(SCENARIOS), topic=topic)
        with pytest.raises(kind):
            sink.stage([row])
        assert sink.staged == []


def test_a_task_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_GATHERED_BYTES", 1)
    sink = Sink(tmp_path)
    with pytest.raises(InvalidRecordError, match="a header has no key"):
        sink.stage([{"value": b"v", "headers": None}, {"value": b"v", "headers": [{"key": None, "value": b"1"}]}])
    assert sink.staged == []


def test_what_is_staged_is_no_part_of_the_log(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    sink.write(records(5))
    sink.stage(records(10), batch=1)
    assert len(sink.staged) == 1
    table = scan_batches((tmp_path / sink.staged[0]).read_bytes())
    assert (table.base_offset[0], bool(table.crc_ok.all()), int(table.record_count.sum())) == (0, True, 10)
    assert sink.values() == {0: [row["value"] for row in records(5)]}
