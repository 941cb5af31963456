"""A log directory that this process writes to: lock, marker and checkpoints, from opening to a crash or shutdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from log_maker import BASE_TIME, mark_clean, plain, write_checkpoint, write_segment
from tidelog.model import (
    ClosedError,
    DirectoryError,
    InvalidProducerEpochError,
    InvalidRecordError,
    LockedError,
    StorageError,
    TopicPartition,
)
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.directory.log_directory import LogDirectory
from tidelog.storage.manager.producers.producer_sessions import FIRST_PRODUCER_ID
from tidelog.storage.manager.writable.writable_directory import SingleLog, WritableDirectory
from tidelog.storage.segment.segment import LogSegment

MARKER = ".kafka_cleanshutdown"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CONFIG = LogConfig(segment_index_bytes=4096, message_timestamp_after_max_ms=2**62)


def open_directory(path: Path) -> WritableDirectory:
    return WritableDirectory(LOCAL, path, clock=SYSTEM_CLOCK, config=CONFIG)


def append(directory: WritableDirectory, name: str, count: int = 3) -> None:
    log = directory.open_log(directory.path / name)
    log.append_batch([b"x"] * count, timestamps=[BASE_TIME] * count)
    log.close()


def append_and_stop(path: Path, *names: str) -> None:
    directory = open_directory(path)
    for name in names:
        append(directory, name)
    directory.close()


def crash(directory: WritableDirectory) -> None:
    """Leave the state of a kill: logs are not closed cleanly, and the lock is free."""
    for log in directory._open.values():
        for segment in log.log._state.segments:
            segment.close_handlers()
    directory._directory.release()


def test_it_is_made_where_it_is_missing(tmp_path: Path) -> None:
    directory = open_directory(tmp_path / "a" / "b")
    append(directory, "t-0")
    directory.close()
    directory.close()
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == sorted(
        [".lock", MARKER, RECOVERY_POINT, LOG_START, HIGH_WATERMARK, "t-0"]
    )


def test_a_log_that_was_moved_in_counts_as_closed_in_order(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 5, [plain(5)])
    write_checkpoint(tmp_path, LOG_START, {"t-0": 7})
    directory = LogDirectory(LOCAL, tmp_path)
    directory.mark_open()
    directory.adopt(TopicPartition("t", 0), 6)
    directory.stop()
    assert (tmp_path / MARKER).exists()
    offsets = {name: (tmp_path / name).read_text() for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START)}
    assert offsets == {RECOVERY_POINT: "0\n1\nt 0 6\n", HIGH_WATERMARK: "0\n1\nt 0 6\n", LOG_START: "0\n0\n"}


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as caught:
        open_directory(tmp_path / "file")
    assert str(tmp_path / "file") in str(caught.value)


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    with pytest.raises(LockedError):
        open_directory(tmp_path)
    directory.close()
    open_directory(tmp_path).close()


def test_the_marker_is_there_only_after_an_orderly_stop(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    append(directory, "t-0")
    assert not (tmp_path / MARKER).exists()
    crash(directory)
    assert not (tmp_path / MARKER).exists()
    directory = open_directory(tmp_path)
    log = directory.open_log(tmp_path / "t-0")
    assert [segment.base_offset for segment in log.log.loaded.recovered] == [0]
    directory.close()
    assert CleanShutdownFile(LOCAL, tmp_path).read() == -1
    directory = open_directory(tmp_path)
    assert not (tmp_path / MARKER).exists()
    assert directory.open_log(tmp_path / "t-0").log.loaded.recovered == ()
    directory.close()


def test_the_marker_keeps_its_broker_epoch(tmp_path: Path) -> None:
    mark_clean(tmp_path)
    open_directory(tmp_path).close()
    assert CleanShutdownFile(LOCAL, tmp_path).read() == 1


def test_no_marker_while_a_partition_was_not_recovered(tmp_path: Path) -> None:
    """A killed directory gets the marker of a clean shutdown only once every partition was opened."""
    for name in ("t-0", "t-1"):
        write_segment(tmp_path / name, 0, [plain(0)])
    directory = open_directory(tmp_path)
    append(directory, "t-0")
    directory.close()
    assert not (tmp_path / MARKER).exists()
    directory = open_directory(tmp_path)
    for name in ("t-0", "t-1"):
        append(directory, name)
    directory.close()
    assert (tmp_path / MARKER).exists()


def test_checkpoints_are_written_at_a_flush_and_others_entries_stay(tmp_path: Path) -> None:
    for name in (RECOVERY_POINT, HIGH_WATERMARK):
        write_checkpoint(tmp_path, name, {"other-3": 77})
    directory = open_directory(tmp_path)
    log = directory.open_log(tmp_path / "t-0")
    log.append_batch([b"x"] * 5, timestamps=[BASE_TIME] * 5)
    log.flush()
    for name in (RECOVERY_POINT, HIGH_WATERMARK):
        assert (tmp_path / name).read_text() == "0\n2\nother 3 77\nt 0 5\n"
    assert (tmp_path / LOG_START).read_text() == "0\n0\n"
    directory.close()


def test_a_log_start_inside_a_segment_is_kept(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0), plain(10)])
    write_checkpoint(tmp_path, LOG_START, {"t-0": 7})
    mark_clean(tmp_path)
    directory = open_directory(tmp_path)
    assert directory.open_log(tmp_path / "t-0").log.log_start_offset == 7
    directory.close()
    assert (tmp_path / LOG_START).read_text() == "0\n1\nt 0 7\n"


def test_one_line_says_what_was_loaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for base in (0, 10):
        write_segment(tmp_path / "t-0", base, [plain(base)])
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("what?\n")
    write_checkpoint(tmp_path, RECOVERY_POINT, {"t-0": 10})
    with caplog.at_level("INFO", "tidelog"):
        directory = open_directory(tmp_path)
        directory.open_log(tmp_path / "t-0")
        directory.close()
    warning, line = caplog.messages
    assert "leader epochs are taken from the batches" in warning
    assert line.startswith(
        f"Loaded {tmp_path / 't-0'} with 2 segments, 1 of them recovered, log start offset 0 and log end offset 20 in "
    )


def test_unreadable_checkpoints_count_as_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    for name in (RECOVERY_POINT, LOG_START, HIGH_WATERMARK):
        (tmp_path / name).write_text("nonsense\n")
    directory = open_directory(tmp_path)
    log = directory.open_log(tmp_path / "t-0").log
    assert (log.recovery_point, log.log_start_offset, log.end_offset) == (0, 0, 10)
    assert [message.endswith("treated as empty") for message in caplog.messages] == [True] * 3
    directory.close()


def test_a_log_that_failed_leaves_no_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = open_directory(tmp_path)
    append(directory, "t-1")
    log = directory.open_log(tmp_path / "t-0")
    log.append(b"x", None, (), BASE_TIME)

    pwrite = LocalFile.pwrite

    def full(file: LocalFile, data: bytes, position: int) -> int:
        if not file.path.is_relative_to(tmp_path):
            return pwrite(file, data, position)
        raise StorageError("no space left on the disk")

    monkeypatch.setattr(LocalFile, "pwrite", full)
    with pytest.raises(StorageError, match="no space"):
        log.append(b"x", None, (), BASE_TIME)
    monkeypatch.undo()
    directory.close()
    assert not (tmp_path / MARKER).exists()
    assert not LOCAL.lock_holder(tmp_path / ".lock")


def test_a_log_whose_files_were_let_go_leaves_no_marker(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    append(directory, "t-1")
    directory.open_log(tmp_path / "t-0").log.close_handlers()
    directory.close()
    assert not (tmp_path / MARKER).exists()


def test_every_log_is_closed_although_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append_and_stop(tmp_path, "t-0", "t-1", "t-2")
    directory = open_directory(tmp_path)
    logs = [directory.open_log(tmp_path / f"t-{number}") for number in range(3)]
    for log in logs:
        log.append(b"x", None, (), BASE_TIME)
    close = LogSegment.close

    def fail_in_the_second(segment: LogSegment) -> None:
        close(segment)
        if segment.path.parent.name == "t-1":
            raise StorageError("the disk is gone", path=segment.path)

    monkeypatch.setattr(LogSegment, "close", fail_in_the_second)
    with pytest.raises(StorageError, match="the disk is gone"):
        directory.close()
    assert [log.log.is_healthy for log in logs] == [True, False, True]
    for number in range(3):
        assert (tmp_path / f"t-{number}" / f"{4:020d}.snapshot").exists()
    assert not (tmp_path / MARKER).exists()
    assert not LOCAL.lock_holder(tmp_path / ".lock")
    directory.close()


def test_refusals(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    log = directory.open_log(tmp_path / "t-0")
    with pytest.raises(LockedError, match="already open in this process"):
        directory.open_log(tmp_path / "t-0")
    with pytest.raises(DirectoryError, match="TOPIC-PARTITION"):
        directory.open_log(tmp_path / "t")
    with pytest.raises(DirectoryError, match="controllers"):
        directory.open_log(tmp_path / "__cluster_metadata-0")
    directory.close()
    for call in (lambda: directory.open_log(tmp_path / "t-1"), log.flush):
        with pytest.raises(ClosedError):
            call()


def test_arrow_data_has_its_own_columns(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    log = directory.open_log(tmp_path / "t-0")
    table = pa.table({"value": [b"a", b"b"]})
    assert log.append_batch(table) == range(2)
    every: list[dict[str, Any]] = [{"keys": [b"k"] * 2}, {"headers": [()] * 2}, {"timestamps": [BASE_TIME] * 2}]
    for columns in every:
        with pytest.raises(InvalidRecordError, match="Arrow data has its own columns"):
            log.append_batch(table, **columns)
    directory.close()


def test_producer_ids_and_epochs(tmp_path: Path) -> None:
    alone = SingleLog(LOCAL, tmp_path / "t-0", clock=SYSTEM_CLOCK, config=CONFIG)
    sessions = alone.producers
    new = [sessions.acquire(), sessions.check_out(), sessions.acquire(7), sessions.acquire(7)]
    ids = [(session.producer_id, session.epoch) for session in new]
    assert ids == [(FIRST_PRODUCER_ID, 0), (FIRST_PRODUCER_ID + 1, 0), (7, 0), (7, 1)]
    for producer_id in (0, 2**63 - 1):
        assert sessions.reuse(producer_id, 0).producer_id == producer_id
    assert sessions.reuse(7, 32_767).append(alone.log, b"x", None, (), None) == 0
    for wrong_id, epoch in ((-1, None), (2**63, None), (9, -1), (9, 32_768)):
        with pytest.raises(ValueError, match="is a number from 0 to"):
            sessions.reuse(wrong_id, epoch)
    for epoch in (None, 32_766):
        with pytest.raises(InvalidProducerEpochError):
            sessions.reuse(7, epoch)
    with pytest.raises(ValueError, match="an epoch needs a producer id"):
        sessions.acquire(epoch=0)
    with pytest.raises(InvalidProducerEpochError, match="the largest producer id is in use"):
        sessions.acquire()
    alone.close()


def test_a_log_alone_releases_the_lock_whatever_happens(tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    write_segment(log, 0, []).write_bytes(plain(2**31 + 5) + plain(7))
    with pytest.raises(StorageError, match="31 bits"):
        SingleLog(LOCAL, log, clock=SYSTEM_CLOCK, config=CONFIG)
    assert LOCAL.lock_holder(tmp_path / ".lock") is None
