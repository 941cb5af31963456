"""``write.format("tidelog")`` and ``writeStream.format("tidelog")`` in real Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark.write.sinks import Sink
from tidelog import open_directory, open_log
from tidelog.inspect.verify import verify_directory
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.recovery.directory_recovery import recover

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


def write(frame: DataFrame, logs: Path, **given: object) -> None:
    writer = frame.write.format("tidelog").mode("append").option("logDirs", str(logs))
    for name, value in given.items():
        writer = writer.option(name.replace("__", "."), str(value))
    writer.save()


def read(spark: SparkSession, logs: Path, topic: str) -> DataFrame:
    reader = spark.read.format("tidelog").option("logDirs", str(logs)).option("subscribe", topic)
    return reader.option("includeHeaders", "true").load()


def message(act: Callable[[], object]) -> str:
    with pytest.raises(Exception) as raised:
        act()
    return str(raised.value)


def require_sound(logs: Path) -> None:
    """Check that the directory has no findings and no staged files."""
    assert [finding for part in verify_directory(LOCAL, logs).partitions for finding in part.findings] == []
    assert Sink(logs).staged == []


class TestBatches:
    def test_what_is_written_is_read(self, spark: SparkSession, logs: Path) -> None:
        rows = spark.range(0, 1000, numPartitions=3).selectExpr(
            "concat('key ', id) as key",
            "cast(concat('value ', id) as binary) as value",
            "if(id % 2 = 0, 'even', 'odd') as topic",
            "if(id % 10 = 0, 2, null) as partition",
            "if(id % 5 = 0, array(struct('h' as key, cast('x' as binary) as value)), null) as headers",
            "id as passed_over",
        )
        write(rows, logs, numPartitions=3, kafka__compression__type="lz4")
        write(rows.drop("topic"), logs, topic="even")
        for topic, ids in (("odd", list(range(1, 1000, 2))), ("even", [*range(0, 1000, 2), *range(1000)])):
            found = read(spark, logs, topic).collect()
            assert sorted(int(row.value.decode()[6:]) for row in found) == sorted(ids)
            for row in found:
                number = int(row.value.decode()[6:])
                assert row.key == b"key %d" % number
                assert (row.headers is None) == (number % 5 != 0)
                assert row.partition == 2 or number % 10
                assert row.timestampType == 0
        placed = {
            (bytes(row.key), row.partition) for row in read(spark, logs, "even").where("value not like '%0'").collect()
        }
        assert len(placed) == len({key for key, _ in placed}) == 900  # a key has one partition
        with open_log(logs / "odd-1", read_only=True) as log:
            assert [record.offset for record in log.records()] == list(range(log.offsets().log_end.message_offset))
        require_sound(logs)

    def test_without_rows(self, spark: SparkSession, logs: Path) -> None:
        write(spark.range(0).selectExpr("cast(id as string) value"), logs, topic="t")
        assert Sink(logs).staged == []

    def test_a_task_that_fails_fails_all(self, spark: SparkSession, logs: Path) -> None:
        rows = spark.range(0, 40, numPartitions=4).selectExpr(
            "cast(id as string) value", "if(id = 39, null, 't') topic"
        )
        assert "A row has no topic: name the topic of all rows with the option 'topic'" in message(
            lambda: write(rows, logs)
        )
        recover(logs, now_ms=0)  # a task that still ran when Spark gave up leaves its file, and recovery removes it
        require_sound(logs)
        assert not (logs / "t-0").exists()

    def test_what_is_refused_before_any_task_runs(self, spark: SparkSession, logs: Path) -> None:
        rows = spark.range(10).selectExpr("cast(raise_error('a task ran') as string) as value")
        writer = rows.write.format("tidelog").option("logDirs", str(logs)).option("topic", "t")
        assert "its mode must be append, not overwrite or complete" in message(writer.mode("overwrite").save)
        assert "no column 'topic'" in message(lambda: write(rows, logs))
        assert "no column 'value'" in message(lambda: write(spark.range(10), logs, topic="t"))
        with open_directory(logs):
            said = message(lambda: write(rows, logs, topic="t", lockTimeout="10ms"))
        assert "has locked it (a broker, or tidelog, is running on it); waited 10 ms for it" in said
        assert "a task ran" in message(lambda: write(rows, logs, topic="t"))


class TestStreams:
    @pytest.fixture
    def lines(self, tmp_path: Path) -> Callable[[int], list[bytes]]:
        """Return a function that gives a query's source a file of ten lines, which makes a batch."""
        directory = tmp_path / "source"
        directory.mkdir()

        def lines(number: int) -> list[bytes]:
            made = [b"%d" % line for line in range(10 * number, 10 * number + 10)]
            (directory / f"{number}.txt").write_bytes(b"\n".join(made))
            return made

        return lines

    @pytest.fixture
    def run(self, spark: SparkSession, logs: Path, tmp_path: Path) -> Callable[[], None]:
        """Return a function that runs a query once. The query writes the lines to the topic ``copy``."""

        def run() -> None:
            source = spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "source"))
            rows = source.selectExpr("value AS key", "value")
            writer = rows.writeStream.format("tidelog").option("logDirs", str(logs)).option("topic", "copy")
            writer = writer.option("numPartitions", 3).option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = writer.start()
            try:
                query.processAllAvailable()
            finally:
                query.stop()

        return run

    def test_each_row_once_though_a_batch_is_repeated(
        self, run: Callable[[], None], lines: Callable[[int], list[bytes]], logs: Path, tmp_path: Path
    ) -> None:
        wanted = lines(0) + lines(1)
        run()
        commit = tmp_path / "checkpoint" / "commits" / "1"
        commit.unlink()
        commit.with_name(".1.crc").unlink()
        wanted += lines(2)
        run()
        found = Sink(logs).values("copy")
        assert sorted(found) == [0, 1, 2]
        assert Counter(value for values in found.values() for value in values) == Counter(wanted)
        require_sound(logs)
