"""A log through the public API: appended to, read, closed, opened again, shared, refused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog import (
    ClosedError,
    DirectoryError,
    ForkError,
    Header,
    LockedError,
    LogConfig,
    OffsetOutOfRangeError,
    ReadOnlyError,
    Record,
    TimestampType,
    TopicPartition,
    UnknownTopicOrPartitionError,
)

NOW = 1_700_000_000_000


class StoppedClock:
    """A clock that starts at NOW. Sleeping moves it and calls the test's ``meanwhile``."""

    def __init__(self) -> None:
        self.now = NOW
        self.naps = 0
        self.meanwhile: Callable[[int], object] = lambda nap: None

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now

    def sleep_ms(self, duration_ms: int) -> None:
        self.now += duration_ms
        self.naps += 1
        self.meanwhile(self.naps)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "events-0"


def test_append_and_read(path: Path) -> None:
    with tidelog.open_log(path) as log:
        assert log.append(b"one") == 0
        assert log.append(None, b"key", [("h", b"1"), ("h", None)], timestamp=NOW) == 1
        records = list(log.records())
        assert [record.offset for record in records] == [0, 1]
        assert records[0].timestamp > NOW
        assert records[1] == Record(1, NOW, TimestampType.CREATE, b"key", None, (Header("h", b"1"), Header("h", None)))
        assert log.offsets().log_end.message_offset == 2
    with tidelog.open_log(path) as log:
        assert log.append(b"three") == 2
    with tidelog.open_log(path, read_only=True) as log:
        assert [record.value for record in log.records()] == [b"one", None, b"three"]


def test_records_are_immutable(path: Path) -> None:
    with tidelog.open_log(path) as log:
        log.append(b"x")
        record = next(log.records())
        with pytest.raises(AttributeError):
            record.value = b"y"  # type: ignore[misc]


def test_bulk_from_lists_and_from_arrow(path: Path) -> None:
    with tidelog.open_log(path, config=LogConfig(compression_type="zstd")) as log:
        assert log.append_batch([b"a", None, b"c"], keys=[b"1", None, b"3"], timestamps=[NOW, NOW + 1, None]) == range(
            3
        )
        table = pa.table({"value": [b"d", b"e"], "key": ["4", None], "timestamp": [NOW + 4, NOW + 5]})
        assert log.append_batch(table) == range(3, 5)
        records = list(log.records())
        assert [record.value for record in records] == [b"a", None, b"c", b"d", b"e"]
        assert [record.key for record in records] == [b"1", None, b"3", b"4", None]
        assert [record.timestamp for record in records if record.offset != 2] == [NOW, NOW + 1, NOW + 4, NOW + 5]
        read = pa.Table.from_batches(log.to_arrow())
        assert log.append_batch(read) == range(5, 10)
        again = pa.Table.from_batches(log.to_arrow(5))
        assert again.drop_columns("offset") == read.drop_columns("offset")


def test_arrow_in_bounded_chunks_and_chosen_columns(path: Path) -> None:
    with tidelog.open_log(path) as log:
        log.append_batch([b"%d" % number for number in range(10_000)])
        batches = list(log.to_arrow(100, 9_000, columns=["value", "offset"], max_rows=1_000))
        assert all(batch.num_rows <= 1_000 for batch in batches)
        assert batches[0].schema.names == ["value", "offset"]
        assert [number for batch in batches for number in batch["offset"].to_pylist()] == list(range(100, 9_000))
        assert next(log.to_arrow(columns=["timestamp"], timestamps="us"))["timestamp"].type == pa.timestamp("us", "UTC")
        with pytest.raises(ValueError, match="colour"):
            log.to_arrow(columns=["colour"])


def test_offset_for_timestamp(path: Path) -> None:
    with tidelog.open_log(path) as log:
        log.append_batch([b"x"] * 100, timestamps=[NOW + 10 * number for number in range(100)])
        assert log.offset_for_timestamp(NOW + 55) == 6
        assert log.offset_for_timestamp(NOW + 10_000) is None


def test_everything_over_many_segments(path: Path) -> None:
    config = LogConfig(segment_bytes=16_384, segment_index_bytes=4096)
    with tidelog.open_log(path, config=config) as log:
        for first in range(0, 5_000, 50):
            log.append_batch([b"%06d" % number for number in range(first, first + 50)])
        log.flush()
        assert len(list(path.glob("*.log"))) > 3
        assert [int(record.value or b"") for record in log.records()] == list(range(5_000))
        assert [record.offset for record in log.records(4_990)] == list(range(4_990, 5_000))


class TestFollow:
    def test_new_records_arrive(self, path: Path) -> None:
        clock = StoppedClock()
        with tidelog.open_log(path, clock=clock) as log:
            log.append(b"0")
            clock.meanwhile = lambda nap: log.append(b"%d" % nap)
            values = [record.value for record, _ in zip(log.records(follow=True), range(5), strict=False)]
        assert values == [b"0", b"1", b"2", b"3", b"4"]

    def test_it_ends_at_an_end(self, path: Path) -> None:
        clock = StoppedClock()
        with tidelog.open_log(path, clock=clock) as log:
            clock.meanwhile = lambda nap: log.append_batch([b"x"] * nap)
            assert [record.offset for record in log.records(end=7, follow=True)] == list(range(7))
            assert clock.naps == 4

    def test_over_rolls_and_in_another_reader(self, path: Path) -> None:
        """The reader sees records up to the high watermark that the owner has checkpointed."""
        clock = StoppedClock()
        config = LogConfig(segment_bytes=1_000, segment_index_bytes=1_000)
        with tidelog.open_log(path, config=config) as log:
            log.append(b"first")
            log.flush()
            reader = tidelog.open_log(path, read_only=True, clock=clock)

            def meanwhile(nap: int) -> None:
                log.append_batch([b"%d" % nap] * 20)
                log.flush()

            clock.meanwhile = meanwhile
            offsets = [record.offset for record in reader.records(end=200, follow=True)]
        assert offsets == list(range(200))

    def test_closing_ends_it(self, path: Path) -> None:
        clock = StoppedClock()
        log = tidelog.open_log(path, clock=clock)
        clock.meanwhile = lambda nap: log.close()
        with pytest.raises(ClosedError):
            next(log.records(follow=True))


class TestRefusals:
    def test_nothing_goes_on_a_closed_log(self, path: Path) -> None:
        log = tidelog.open_log(path)
        log.append(b"x")
        log.close()
        log.close()
        for call in (
            lambda: log.append(b"x"),
            lambda: log.append_batch([b"x"]),
            log.records,
            log.to_arrow,
            log.offsets,
            lambda: log.offset_for_timestamp(0),
            log.flush,
            log.__enter__,
        ):
            with pytest.raises(ClosedError) as caught:
                call()
            assert caught.value.path == str(path)

    def test_a_reader_does_not_write(self, path: Path) -> None:
        with tidelog.open_log(path) as log:
            log.append(b"x")
        with tidelog.open_log(path, read_only=True) as log:
            for call in (lambda: log.append(b"x"), lambda: log.append_batch([b"x"]), log.flush):
                with pytest.raises(ReadOnlyError):
                    call()

    def test_two_owners(self, path: Path) -> None:
        with tidelog.open_log(path):
            with pytest.raises(LockedError):
                tidelog.open_log(path)
            with pytest.raises(LockedError):
                tidelog.open_directory(path.parent)
            script = (
                f"import tidelog\ntry: tidelog.open_log({str(path)!r})\nexcept tidelog.LockedError: print('locked')"
            )
            done = subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=200
            )
            assert done.stdout == "locked\n"
        tidelog.open_log(path).close()

    @pytest.mark.parametrize(("start", "code"), [(-1, 1), (3, 1)])
    def test_offsets_that_are_not_there(self, path: Path, start: int, code: int) -> None:
        with tidelog.open_log(path) as log:
            log.append_batch([b"x"] * 2)
            with pytest.raises(OffsetOutOfRangeError) as caught:
                log.records(start)
            assert (caught.value.offset, caught.value.code, caught.value.path) == (start, code, str(path))
            assert list(log.records(2)) == []

    def test_words_that_mean_nothing(self, path: Path) -> None:
        with tidelog.open_log(path) as log:
            with pytest.raises(ValueError, match="read_quickly"):
                log.records(isolation="read_quickly")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="tomorrow"):
                log.records(until="tomorrow")  # type: ignore[arg-type]

    def test_a_name_that_is_no_partition(self, tmp_path: Path) -> None:
        with pytest.raises(DirectoryError):
            tidelog.open_log(tmp_path / "events")
        assert list(tmp_path.iterdir()) == []


class TestForkAndThreads:
    def test_a_forked_child_may_read_and_not_write(self, path: Path) -> None:
        log = tidelog.open_log(path)
        log.append(b"parent")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            result = b""
            try:
                log.append(b"child")
            except ForkError:
                result += b"refused "
            result += b"%d" % len(list(log.records()))
            log.close()
            os.write(writing, result)
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 100) == b"refused 1"
        os.close(reading)
        os.close(writing)
        assert log.append(b"parent again") == 1
        with pytest.raises(LockedError):
            tidelog.open_log(path)
        log.close()

    def test_threads_share_a_log(self, path: Path) -> None:
        with tidelog.open_log(path, config=LogConfig(segment_bytes=20_000, segment_index_bytes=4096)) as log:
            failures: list[BaseException] = []

            def write(name: int) -> None:
                for number in range(200):
                    log.append(b"%d" % number, b"%d" % name)

            def read() -> None:
                try:
                    for _ in range(20):
                        offsets = [record.offset for record in log.records()]
                        assert offsets == list(range(len(offsets)))
                except BaseException as error:
                    failures.append(error)

            threads = [threading.Thread(target=write, args=(name,)) for name in range(3)]
            threads += [threading.Thread(target=read) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failures == []
            by_writer: dict[bytes | None, list[int]] = {}
            for record in log.records():
                by_writer.setdefault(record.key, []).append(int(record.value or b""))
            assert by_writer == {b"%d" % name: list(range(200)) for name in range(3)}


class TestDirectory:
    def test_logs_are_made_and_found_again(self, tmp_path: Path) -> None:
        with tidelog.open_directory([tmp_path / "a", tmp_path / "b"]) as directory:
            assert directory.topics() == []
            for partition in range(4):
                directory.log("events", partition).append(b"%d" % partition)
            directory.log("other", 0)
            assert directory.log("events", 1) is directory.log("events", 1)
            assert directory.topics() == ["events", "other"]
        assert {path.name for path in (tmp_path / "a").iterdir() if path.is_dir()} | {
            path.name for path in (tmp_path / "b").iterdir() if path.is_dir()
        } == {"events-0", "events-1", "events-2", "events-3", "other-0"}
        with tidelog.open_directory([tmp_path / "a", tmp_path / "b"], read_only=True) as directory:
            assert directory.partitions("events") == [TopicPartition("events", number) for number in range(4)]
            assert [next(directory.log(*found).records()).value for found in directory.partitions("events")] == [
                b"0",
                b"1",
                b"2",
                b"3",
            ]
            with pytest.raises(UnknownTopicOrPartitionError) as caught:
                directory.log("events", 9)
            assert caught.value.code == 3
            with pytest.raises(UnknownTopicOrPartitionError):
                directory.partitions("nothing")

    def test_a_partition_that_is_there_twice(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / name / "events-0").mkdir(parents=True)
        for read_only in (True, False):
            with pytest.raises(DirectoryError, match="Duplicate log directories found"):
                tidelog.open_directory([tmp_path / "a", tmp_path / "b"], read_only=read_only)
        assert not (tmp_path / "a" / ".lock").exists()
        with pytest.raises(DirectoryError, match="given twice"):
            tidelog.open_directory([tmp_path / "a", tmp_path / "b" / ".." / "a"], read_only=True)

    def test_a_closed_directory_closes_its_logs(self, tmp_path: Path) -> None:
        directory = tidelog.open_directory(tmp_path)
        log = directory.log("events", 0)
        directory.close()
        with pytest.raises(ClosedError):
            log.append(b"x")
        with pytest.raises(ClosedError):
            directory.topics()
        assert (tmp_path / ".kafka_cleanshutdown").exists()

    def test_no_directory(self, tmp_path: Path) -> None:
        with pytest.raises(tidelog.FileMissingError):
            tidelog.open_directory(tmp_path / "gone", read_only=True)
        with pytest.raises(DirectoryError):
            tidelog.open_directory([])
        with pytest.raises(DirectoryError, match="not a Kafka log directory"):
            tidelog.open_directory(tmp_path, read_only=True)
