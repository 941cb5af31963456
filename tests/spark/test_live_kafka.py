"""A read of a live Kafka's directory keeps to its plan, whatever the broker does before the tasks run.

Each test plans, lets the broker make one change, waits until the files show it, and runs the tasks in this process as
Spark's workers do. A deletion is data loss by the rules of Spark's Kafka source. A roll and compaction are not.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from real_kafka.broker import PATIENCE_S, Broker
from spark.differential.scene import COMPACTED, PROPERTIES, Scene
from spark.in_process import reader_of, rows_of, splits_of
from spark.jvm.row_printer import printer
from tidelog.model import FileMissingError, OffsetOutOfRangeError

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("row_reader")]

SEGMENTS = {"internal.segment.bytes": "4096", "file.delete.delay.ms": "0"}
RECORDS = 400


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    root = tmp_path_factory.mktemp("kafka")
    busy = PROPERTIES | {"log.retention.check.interval.ms": "100"}
    with Broker(root / "data", work=root / "work", properties=busy) as broker:
        broker.format()
        broker.start()
        yield Scene(broker)


def write(scene: Scene, topic: str, numbers: range) -> None:
    """Write a record for each number, in batches that fit into a segment. Its key is one of ten."""
    scene.send(topic, [(b"%06d" % number + b"v" * 50, b"%d" % (number % 10)) for number in numbers], batch=20)


def logs(scene: Scene, topic: str) -> list[Path]:
    return sorted((scene.directory / f"{topic}-0").glob("*.log"))


def offsets_of(values: list[dict[str, object]]) -> list[int]:
    """Check that each record was written at its offset, and return the offsets."""
    for row in values:
        value = row["value"]
        assert isinstance(value, bytes)
        assert int(value[:6]) == row["offset"]
    return [int(str(row["offset"])) for row in values]


def test_rolled_meanwhile(scene: Scene, row_reader: str) -> None:
    topic = f"rolled-{row_reader}"
    scene.create(topic, 1, SEGMENTS)
    write(scene, topic, range(RECORDS))
    scene.settle()
    reader = reader_of(scene.directory, subscribe=topic, splitBytes=1)
    splits = splits_of(reader)
    before = logs(scene, topic)
    write(scene, topic, range(RECORDS, 2 * RECORDS))
    scene.wait_for("rolls", lambda: len(logs(scene, topic)) > len(before))
    assert len(splits) > 5
    assert offsets_of(rows_of(reader, splits)) == list(range(RECORDS))
    assert offsets_of(rows_of(reader))[:RECORDS] == list(range(RECORDS))


def test_compacted_meanwhile(scene: Scene, row_reader: str) -> None:
    """The records that the cleaner keeps are read once each, and the removed records are no data loss."""
    topic = f"compacted-{row_reader}"
    scene.create(topic, 1, COMPACTED | {"min.cleanable.dirty.ratio": "1.0"})
    write(scene, topic, range(RECORDS))
    scene.settle()
    reader = reader_of(scene.directory, subscribe=topic, splitBytes=1)
    splits = splits_of(reader)
    configure(scene, topic, "min.cleanable.dirty.ratio", "0.01")
    scene.wait_for("compaction", lambda: scene.is_compacted(topic))
    assert len(splits) > 5
    found = offsets_of(rows_of(reader, splits))
    again = offsets_of(rows(scene, topic))
    assert found == again
    assert {offset % 10 for offset in found} == set(range(10))
    assert len(found) < RECORDS


@pytest.mark.parametrize("fail", [True, False])
def test_deleted_meanwhile(scene: Scene, caplog: pytest.LogCaptureFixture, row_reader: str, fail: bool) -> None:
    topic = f"deleted-{row_reader}-{fail}".lower()
    scene.create(topic, 1, SEGMENTS)
    write(scene, topic, range(RECORDS))
    scene.settle()
    reader = reader_of(scene.directory, subscribe=topic, splitBytes=1, failOnDataLoss=fail)
    splits = splits_of(reader)
    configure(scene, topic, "retention.bytes", "1")
    scene.wait_for("retention", lambda: len(logs(scene, topic)) == 1)
    if fail:
        with pytest.raises(OffsetOutOfRangeError, match="records were deleted while they were read"):
            rows_of(reader, splits)
        return
    with caplog.at_level(logging.WARNING):
        found = offsets_of(rows_of(reader, splits))
    (left,) = logs(scene, topic)
    assert found == list(range(int(left.stem), RECORDS))
    warned = printer().warnings if row_reader == "jvm" else caplog.text
    assert re.search(f"records were deleted while they were read: .*/{topic}-0", warned)


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_deleted_meanwhile(scene: Scene, row_reader: str, fail: bool) -> None:
    topic = f"gone-{row_reader}-{fail}".lower()
    scene.create(topic, 1, SEGMENTS)
    write(scene, topic, range(RECORDS))
    scene.settle()
    reader = reader_of(scene.directory, subscribe=topic, failOnDataLoss=fail)
    splits = splits_of(reader)
    scene.delete(topic)
    if fail:
        with pytest.raises(FileMissingError):
            rows_of(reader, splits)
    else:
        assert rows_of(reader, splits) == []


def rows(scene: Scene, topic: str) -> list[dict[str, object]]:
    return rows_of(reader_of(scene.directory, subscribe=topic))


def configure(scene: Scene, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    scene.broker.admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
