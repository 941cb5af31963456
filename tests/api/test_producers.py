"""Idempotent producers through the public API: sequences, repeated appends, epochs, fencing, ids, processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog import (
    ClosedError,
    ForkError,
    InvalidProducerEpochError,
    InvalidRecordError,
    LogConfig,
    OutOfOrderSequenceError,
    ReadOnlyError,
    RecordTooLargeError,
    StorageError,
)
from tidelog.kernel import BatchTable, scan_batches
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.manager.producers.producer_sessions import FIRST_PRODUCER_ID

NOW = 1_700_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "events-0"


def batches(path: Path) -> BatchTable:
    return scan_batches(b"".join(file.read_bytes() for file in sorted(path.glob("*.log"))))


def values(log: tidelog.Log) -> list[bytes | None]:
    return [record.value for record in log.records()]


class TestBatches:
    @pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    def test_they_are_what_a_kafka_producer_sends(self, path: Path, codec: str) -> None:
        with tidelog.open_log(path, config=LogConfig(compression_type=codec)) as log, log.producer() as producer:
            log.append(b"somebody else's")
            assert producer.append(b"one", b"k", [("h", b"1")], timestamp=NOW) == 1
            assert producer.append_batch([b"two", None, b"four"], keys=[None, b"k", b""]) == range(2, 5)
            assert producer.append_batch(pa.table({"value": [b"five"], "timestamp": [NOW]})) == range(5, 6)
            assert producer.append_batch([]) == range(6, 6)
            assert producer.next_sequence == 5
            assert [record.value for record in log.records(1)] == [b"one", b"two", None, b"four", b"five"]
        table = batches(path)
        assert table.base_offset.tolist() == [0, 1, 2, 5]
        assert table.base_sequence.tolist() == [-1, 0, 1, 4]
        assert table.producer_id.tolist() == [-1, *[FIRST_PRODUCER_ID] * 3]
        assert table.producer_epoch.tolist() == [-1, 0, 0, 0]
        assert table.leader_epoch.tolist() == [0] * 4
        assert not table.is_transactional.any()
        assert set(table.codec.tolist()) == {("uncompressed", "gzip", "snappy", "lz4", "zstd").index(codec)}

    def test_many_records_are_few_batches(self, path: Path) -> None:
        with tidelog.open_log(path, config=LogConfig(max_message_bytes=4_000)) as log, log.producer() as producer:
            assert producer.append_batch([b"%04d" % number for number in range(1_000)]) == range(1_000)
            assert values(log) == [b"%04d" % number for number in range(1_000)]
        table = batches(path)
        assert 2 < len(table) < 6
        assert table.size.max() <= 4_000
        assert table.base_sequence.tolist() == table.base_offset.tolist()

    def test_others_in_between_show_in_the_offsets(self, path: Path) -> None:
        with tidelog.open_log(path, config=LogConfig(max_message_bytes=200)) as log, log.producer() as producer:
            first = producer.append_batch([b"x" * 50, b"y" * 50])
            log.append(b"between")
            offsets = producer.append_batch([b"x" * 50, b"y" * 50, b"z" * 50, b"new" * 20], sequence=0)
            assert list(first) == [0, 1]
            assert list(offsets) == [0, 1, 3, 4]

    def test_a_refused_append_takes_no_sequence(self, path: Path) -> None:
        config = LogConfig(max_message_bytes=1_000, cleanup_policy=frozenset({"compact"}))
        with tidelog.open_log(path, config=config) as log, log.producer() as producer:
            with pytest.raises(InvalidRecordError):
                producer.append(b"no key")
            with pytest.raises(RecordTooLargeError):
                producer.append(b"x" * 2_000, b"key")
            assert producer.next_sequence == 0
            assert producer.append(b"x", b"key") == 0
            with pytest.raises(RecordTooLargeError):
                producer.append_batch([b"small", b"y" * 2_000], keys=[b"a", b"b"])
            assert producer.next_sequence == 2
            assert values(log) == [b"x", b"small"]


class TestRepeating:
    def test_what_is_there_is_answered_with_its_first_offsets(self, path: Path) -> None:
        with tidelog.open_log(path) as log, log.producer() as producer:
            for number in range(5):
                producer.append_batch([b"%d" % number] * 2)
            log.append(b"other")
            for number in range(5):
                again = producer.append_batch([b"%d" % number] * 2, sequence=2 * number)
                assert again == range(2 * number, 2 * number + 2)
            assert producer.append(b"next") == 11
            assert len(values(log)) == 12

    def test_what_is_too_old_or_differs_or_leaps_is_refused(self, path: Path) -> None:
        with tidelog.open_log(path) as log, log.producer() as producer:
            for number in range(6):
                producer.append(b"%d" % number)
            for sequence, count in ((0, 1), (3, 2), (7, 1)):
                with pytest.raises(OutOfOrderSequenceError, match="6 was expected") as caught:
                    producer.append_batch([b"x"] * count, sequence=sequence)
                assert "the log has the records before next_sequence" in str(caught.value)
                assert (caught.value.code, caught.value.offset, caught.value.path) == (45, 6, str(path))
            for sequence in (-1, 2**31):
                with pytest.raises(ValueError, match="a sequence is"):
                    producer.append(b"x", sequence=sequence)
            assert producer.append(b"5", sequence=5) == 5
            assert producer.append(b"6", sequence=6) == 6

    def test_sequences_go_around(self, path: Path) -> None:
        """The sequences of a producer that the log does not know may begin anywhere."""
        with tidelog.open_log(path) as log, log.producer() as producer:
            assert producer.append_batch([b"a", b"b"], sequence=2**31 - 3) == range(2)
            assert producer.append_batch([b"c", b"d"]) == range(2, 4)
            assert producer.next_sequence == 1
            assert producer.append_batch([b"c", b"d"], sequence=2**31 - 1) == range(2, 4)
            assert producer.append(b"e") == 4

    def test_a_write_that_failed_half_way(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The log accepts no further writes. After it is opened again, the producer knows how many records it has."""
        config = LogConfig(max_message_bytes=1_000)
        records = [b"%04d" % number for number in range(400)]
        log = tidelog.open_log(path, config=config)
        producer = log.producer()
        begun = producer.next_sequence
        writes, whole = iter(range(100)), LocalFile.pwrite

        def failing(file: LocalFile, data: bytes, position: int) -> int:
            if file.path.suffix == ".log" and next(writes) == 3:
                raise StorageError("the disk is full")
            return whole(file, data, position)

        with monkeypatch.context() as patched:
            patched.setattr(LocalFile, "pwrite", failing)
            with pytest.raises(StorageError, match="full"):
                producer.append_batch(records)
        assert producer.next_sequence > 0
        with pytest.raises(StorageError):
            producer.append_batch(records, sequence=begun)
        log.close()
        with tidelog.open_log(path, config=config) as log:
            again = log.producer(producer.producer_id, epoch=producer.epoch)
            done = again.next_sequence - begun
            assert 0 < done < 400
            with pytest.raises(OutOfOrderSequenceError):
                again.append_batch(records, sequence=begun)  # its first batch is no longer in the producer's cache
            assert again.append_batch(records[done:]) == range(done, 400)
            assert values(log) == records

    def test_a_killed_process_is_gone_on_from(self, path: Path) -> None:
        """The sequences are line numbers, so the next process continues where the killed one stopped."""
        script = f"""
import os, signal, tidelog
log = tidelog.open_log({str(path)!r})
producer = log.producer(7, epoch=0)
for line in range(100):
    producer.append(b"%d" % line)
    if line == 41:
        os.kill(os.getpid(), signal.SIGKILL)
"""
        done = subprocess.run([sys.executable, "-c", script], timeout=200)
        assert done.returncode == -signal.SIGKILL
        with tidelog.open_log(path) as log, log.producer(7, epoch=0) as producer:
            assert producer.next_sequence == 42
            assert producer.append(b"41", sequence=41) == 41
            producer.append_batch([b"%d" % line for line in range(producer.next_sequence, 100)])
            assert values(log) == [b"%d" % line for line in range(100)]


class TestEpochs:
    def test_a_new_holder_fences_the_one_before(self, path: Path) -> None:
        with tidelog.open_log(path) as log:
            old = log.producer()
            old.append(b"old")
            new = log.producer(old.producer_id)
            assert (new.producer_id, new.epoch, new.next_sequence) == (old.producer_id, 1, 0)
            for call in (lambda: old.append(b"late"), lambda: old.append_batch([]), lambda: old.next_sequence):
                with pytest.raises(
                    InvalidProducerEpochError, match="a newer producer uses the id with epoch 1"
                ) as caught:
                    call()
                assert caught.value.code == 47
            old.close()
            assert new.append(b"new") == 1
            newest = log.producer(old.producer_id)
            newer = log.producer(old.producer_id, epoch=7)
            assert (newest.epoch, newer.epoch) == (2, 7)
            assert newer.append(b"newer") == 2
            with pytest.raises(InvalidProducerEpochError):
                log.producer(old.producer_id, epoch=6)
            assert newer.append(b"still") == 3
        assert batches(path).producer_epoch.tolist() == [0, 1, 7, 7]
        assert batches(path).base_sequence.tolist() == [0, 0, 0, 1]

    def test_the_same_epoch_goes_on_and_leaves_one_holder(self, path: Path) -> None:
        with tidelog.open_log(path) as log:
            old = log.producer()
            old.append_batch([b"a", b"b"])
            new = log.producer(old.producer_id, epoch=0)
            assert new.next_sequence == 2
            assert new.append_batch([b"a", b"b"], sequence=0) == range(2)
            with pytest.raises(InvalidProducerEpochError):
                old.append(b"c")

    def test_after_the_last_epoch_a_new_id(self, path: Path) -> None:
        with tidelog.open_log(path) as log:
            producer = log.producer(5, epoch=2**15 - 1)
            producer.append(b"x")
            with pytest.raises(InvalidProducerEpochError, match="use a new id, or continue with epoch="):
                log.producer(5)
            assert producer.append(b"y") == 1
            assert log.producer(5, epoch=2**15 - 1).append(b"z") == 2

    @pytest.mark.parametrize(("producer_id", "epoch"), [(-1, None), (2**63, None), (1, -1), (1, 2**15), (None, 0)])
    def test_numbers_that_are_none(self, path: Path, producer_id: int | None, epoch: int | None) -> None:
        with tidelog.open_log(path) as log, pytest.raises(ValueError, match=r"epoch|producer id"):
            log.producer(producer_id, epoch=epoch)

    @pytest.mark.parametrize("killed", [False, True])
    def test_after_opening_again(self, path: Path, killed: bool) -> None:
        with tidelog.open_log(path) as log:
            producer = log.producer()
            producer.append_batch([b"a", b"b", b"c"])
        if killed:
            (path.parent / ".kafka_cleanshutdown").unlink()
            for snapshot in path.glob("*.snapshot"):
                snapshot.unlink()
        with tidelog.open_log(path) as log:
            same = log.producer(producer.producer_id, epoch=0)
            assert same.append_batch([b"a", b"b", b"c"], sequence=0) == range(3)
            assert same.append(b"d") == 3
            assert log.producer().producer_id == producer.producer_id + 1
            bumped = log.producer(producer.producer_id)
            assert (bumped.epoch, bumped.append(b"e")) == (1, 4)
            with pytest.raises(ClosedError):
                producer.append(b"of the closed log")


class TestIds:
    def test_new_ones_are_above_all_that_are_known(self, tmp_path: Path) -> None:
        with tidelog.open_directory(tmp_path) as directory:
            a, b = directory.log("a", 0), directory.log("b", 0)
            ids = [a.producer(), b.producer(), directory.producer()]
            assert [one.producer_id - FIRST_PRODUCER_ID for one in ids] == [0, 1, 2]
            directory.producer(FIRST_PRODUCER_ID + 40).append(b, b"x")
            a.producer(12).append(b"an id of Kafka's")
        for _ in range(2):
            with tidelog.open_log(tmp_path / "a-0") as log:
                assert log.producer().producer_id == FIRST_PRODUCER_ID + 41
            with tidelog.open_directory(tmp_path) as directory:
                assert directory.producer().producer_id == FIRST_PRODUCER_ID + 41
            (tmp_path / ".kafka_cleanshutdown").unlink(missing_ok=True)

    def test_over_several_directories(self, tmp_path: Path) -> None:
        paths = [tmp_path / "a", tmp_path / "b"]
        with tidelog.open_directory(paths) as directory:
            logs = [directory.log("t", number) for number in range(2)]
            assert {log.path.parent for log in logs} == set(paths)
            with directory.producer() as producer:
                for log in logs:
                    assert producer.append_batch(log, [b"x", b"y"]) == range(2)
                    assert producer.append(log, b"y", sequence=2) == 2
                    assert producer.next_sequence(log) == 3
            with pytest.raises(ClosedError):
                producer.append(logs[0], b"x")
        with tidelog.open_directory(paths) as directory:
            assert directory.producer().producer_id == producer.producer_id + 1
            assert directory.producer(producer.producer_id).epoch == 1

    def test_a_partition_that_cannot_be_read_is_passed_over(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with tidelog.open_directory(tmp_path) as directory:
            directory.log("a", 0).append(b"x")
            directory.log("b", 0).producer().append(b"x")
        for snapshot in (tmp_path / "b-0").glob("*.snapshot"):
            snapshot.rename(snapshot.with_name("00000000000000000000.snapshot"))
            (tmp_path / "b-0" / "00000000000000000000.snapshot").write_bytes(b"not one")
        log_file = tmp_path / "b-0" / "00000000000000000000.log"
        log_file.write_bytes(log_file.read_bytes()[:-1] + b"!")
        with tidelog.open_log(tmp_path / "a-0") as log:
            assert log.producer().producer_id >= FIRST_PRODUCER_ID

    def test_logs_of_others(self, tmp_path: Path) -> None:
        with tidelog.open_directory(tmp_path / "a") as directory, tidelog.open_log(tmp_path / "b" / "t-0") as other:
            producer = directory.producer()
            with pytest.raises(ValueError, match="was not opened by"):
                producer.append(other, b"x")
            log = directory.log("t", 0)
            log.close()
            with pytest.raises(ClosedError):
                producer.append(log, b"x")
            assert producer.append(directory.log("t", 0), b"x") == 0


class TestWhoMay:
    def test_not_a_reader(self, path: Path) -> None:
        with tidelog.open_log(path) as log:
            log.append(b"x")
        with tidelog.open_log(path, read_only=True) as log:
            for call in (log.producer, log.transaction):
                with pytest.raises(ReadOnlyError):
                    call()
        with tidelog.open_directory(path.parent, read_only=True) as directory:
            for begin in (directory.producer, directory.transaction):
                with pytest.raises(ReadOnlyError):
                    begin()
        with pytest.raises(ClosedError):
            log.producer()
        with pytest.raises(ClosedError):
            directory.producer()

    def test_not_a_forked_child(self, path: Path) -> None:
        log = tidelog.open_log(path)
        producer = log.producer()
        producer.append(b"parent")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (
                lambda: producer.append(b"child"),
                lambda: producer.next_sequence,
                log.producer,
                lambda: log.producer(producer.producer_id),
                lambda: log.transaction().__enter__(),
            ):
                try:
                    call()
                except ForkError:
                    refused += 1
            producer.close()
            log.close()
            os.write(writing, b"%d" % refused)
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 100) == b"5"
        os.close(reading)
        os.close(writing)
        assert producer.append(b"parent again") == 1
        log.close()

    def test_threads_share_a_producer(self, path: Path) -> None:
        config = LogConfig(segment_bytes=20_000, segment_index_bytes=4096)
        with tidelog.open_log(path, config=config) as log, log.producer() as producer:

            def write(name: int) -> None:
                for number in range(150):
                    producer.append(b"%d" % number, b"%d" % name)

            threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert producer.next_sequence == 600
            for name in range(4):
                mine = [int(record.value or b"") for record in log.records() if record.key == b"%d" % name]
                assert mine == list(range(150))
        assert batches(path).base_sequence.tolist() == list(range(600))
