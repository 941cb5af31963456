"""Open transactions in a real broker's log directories, and in random lists of batches."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog
from conftest import GoldenFactory
from golden_sets import FLIGHTS, FORMATS, SCENARIOS, manifest
from log_maker import BASE_TIME, data, mark_clean, marker, plain, write_checkpoint, write_segment
from tidelog.inspect.count import count_directory
from tidelog.inspect.transactions import OpenTransaction, open_transactions
from tidelog.model import CorruptRecordError, Record, TimestampType, TopicPartition
from tidelog.record.build import build_batch, build_end_transaction_batch
from tidelog.record.control import EndTransactionMarker
from tidelog.storage.fs import LOCAL

TXN = TopicPartition("txn", 0)


def found_in(root: Path) -> list[OpenTransaction]:
    parts = open_transactions(LOCAL, root)
    assert all(part.error is None for part in parts)
    return [transaction for part in parts for transaction in part.open]


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_the_one_that_a_real_producer_left_open(golden: GoldenFactory, kind: str) -> None:
    (found,) = found_in(golden(SCENARIOS, kind))
    assert (found.partition, found.producer_id, found.producer_epoch, found.coordinator_epoch) == (TXN, 2, 0, None)
    assert (found.start_offset, found.last_offset, found.records) == (516, 520, 5)
    assert found.start_timestamp == found.last_timestamp == 1_795_216_675_766
    levels = manifest(SCENARIOS)["txn-0"]
    assert found.last_stable == found.start_offset == levels["read_committed"]["high"]
    (count,) = count_directory(LOCAL, golden(SCENARIOS, kind), only=[TXN])
    assert found.held_back_records == count.held_back
    assert found.held_back_offsets == found.log_end - 516 == 45


@pytest.mark.parametrize("set_name", [FLIGHTS, FORMATS])
def test_where_all_are_ended(golden: GoldenFactory, set_name: str) -> None:
    assert found_in(golden(set_name)) == []
    if set_name == FLIGHTS:
        assert found_in(golden(set_name, "unclean")) == []


class Step(NamedTuple):
    kind: str
    producer: int
    records: int
    wait_ms: int


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["data", "data", "data", "plain", "commit", "abort"]),
        st.integers(1, 4),
        st.integers(1, 5),
        st.integers(-50, 1000),
    ),
    min_size=1,
    max_size=30,
)


class Model:
    """A list of batches, and the state of each producer."""

    def __init__(self, start_ms: int) -> None:
        self.batches: list[tuple[int, bytes, int]] = []
        """The offset, bytes and number of data records of each batch."""
        self.open: dict[int, dict[str, Any]] = {}
        self.coordinator_epochs: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.end = 0
        self.now = start_ms

    def run(self, step: Step) -> None:
        self.now += step.wait_ms
        if step.kind in ("commit", "abort"):
            self._end(step)
            return
        timestamps = [self.now + number for number in range(step.records)]
        records = [Record(0, timestamp, TimestampType.CREATE, None, b"v") for timestamp in timestamps]
        if step.kind == "plain":
            self._add(build_batch(records, base_offset=self.end), step.records, step.records)
            return
        epoch = self.epochs.setdefault(step.producer, 0)
        built = build_batch(
            records,
            base_offset=self.end,
            producer_id=step.producer,
            producer_epoch=epoch,
            base_sequence=self.sequences.get(step.producer, 0),
            transactional=True,
        )
        self.sequences[step.producer] = self.sequences.get(step.producer, 0) + step.records
        found = self.open.setdefault(
            step.producer,
            {"start_offset": self.end, "start_timestamp": timestamps[0], "records": 0, "bytes": 0},
        )
        found["producer_epoch"] = epoch
        found["last_offset"] = self.end + step.records - 1
        found["last_timestamp"] = timestamps[-1]
        found["records"] += step.records
        found["bytes"] += len(built)
        self._add(built, step.records, step.records)

    def _end(self, step: Step) -> None:
        coordinator_epoch = self.coordinator_epochs.get(step.producer, 2) + step.records
        self.coordinator_epochs[step.producer] = coordinator_epoch
        built = build_end_transaction_batch(
            EndTransactionMarker(committed=step.kind == "commit", coordinator_epoch=coordinator_epoch),
            base_offset=self.end,
            timestamp=self.now,
            producer_id=step.producer,
            producer_epoch=self.epochs.setdefault(step.producer, 0),
        )
        self.open.pop(step.producer, None)
        if step.records > 2:  # since KIP-890 the next transaction of a producer may have a new epoch
            self.epochs[step.producer] += 1
            self.sequences[step.producer] = 0
        self._add(built, 1, 0)

    def _add(self, content: bytes | bytearray, offsets: int, records: int) -> None:
        self.batches.append((self.end, bytes(content), records))
        self.end += offsets

    def expected(self) -> list[dict[str, Any]]:
        rows = []
        for producer, known in self.open.items():
            behind = [part for part in self.batches if part[0] >= known["start_offset"]]
            rows.append(
                known
                | {
                    "producer_id": producer,
                    "coordinator_epoch": self.coordinator_epochs.get(producer),
                    "held_back_records": sum(records for _, _, records in behind),
                    "held_back_offsets": self.end - known["start_offset"],
                    "held_back_bytes": sum(len(content) for _, content, _ in behind),
                    "log_end": self.end,
                    "last_stable": min(each["start_offset"] for each in self.open.values()),
                }
            )
        return sorted(rows, key=lambda row: row["start_offset"])

    def write(self, directory: Path, roll_every: int) -> None:
        for first in range(0, len(self.batches), roll_every):
            part = self.batches[first : first + roll_every]
            write_segment(directory, part[0][0], [content for _, content, _ in part])


@settings(max_examples=40)
@given(steps, st.integers(1, 8), st.data())
def test_as_a_list_of_batches(
    tmp_path_factory: pytest.TempPathFactory, run: list[Step], roll_every: int, data: st.DataObject
) -> None:
    """The result is right after an unclean shutdown, after a clean one, and for a tail that follows a snapshot."""
    root = tmp_path_factory.mktemp("transactions")
    model = Model(int(time.time() * 1000) - 100_000)  # a producer that is long idle would expire
    cut = data.draw(st.integers(1, len(run)))
    for step in run[:cut]:
        model.run(step)
    model.write(root / "t-0", roll_every)
    check(root, model)
    tidelog.open_log(root / "t-0").close()
    check(root, model)
    # After the clean shutdown the log grows and is killed, so that a tail follows the snapshot.
    end = model.end
    for step in run[cut:]:
        model.run(step)
    behind = [content for offset, content, _ in model.batches if offset >= end]
    if behind:
        write_segment(root / "t-0", end, behind)
        (root / ".kafka_cleanshutdown").unlink()
        check(root, model)


def check(root: Path, model: Model) -> None:
    rows = model.expected()
    names = rows[0].keys() if rows else ()
    assert [{name: asdict(found)[name] for name in names} for found in found_in(root)] == rows


def test_a_beginning_that_was_deleted(tmp_path: Path) -> None:
    """The log start offset passes an open transaction, and the rest of the transaction is still found."""
    write_segment(tmp_path / "t-0", 0, [plain(0, 10), data(10, 10), data(20, 5), plain(25, 5)])
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {"t-0": 14})
    (found,) = found_in(tmp_path)
    assert (found.start_offset, found.log_start, found.last_offset) == (10, 14, 24)
    assert (found.records, found.held_back_records, found.held_back_offsets) == (11, 16, 16)
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {"t-0": 20})
    (found,) = found_in(tmp_path)
    assert (found.start_timestamp, found.records, found.held_back_records) == (None, 5, 10)


def test_log_append_time(tmp_path: Path) -> None:
    """The broker's append time counts, not the producer's timestamp."""
    records = [Record(0, BASE_TIME + number, TimestampType.CREATE, None, b"v") for number in range(3)]
    built = build_batch(
        records,
        timestamp_type=TimestampType.LOG_APPEND,
        append_time_ms=BASE_TIME + 77,
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    write_segment(tmp_path / "t-0", 0, [bytes(built)])
    (found,) = found_in(tmp_path)
    assert found.start_timestamp == found.last_timestamp == BASE_TIME + 77


def test_a_damaged_partition_is_an_error_beside_the_others(tmp_path: Path) -> None:
    for name in ("a-0", "b-0"):
        path = write_segment(tmp_path / name, 0, [data(0, 3), marker(3, committed=True), data(4, 2)])
        path.with_suffix(".snapshot").write_bytes(b"")  # unreadable, so the log must be scanned
    mark_clean(tmp_path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    first, second = open_transactions(LOCAL, tmp_path)
    assert [transaction.start_offset for transaction in first.open] == [4]
    assert isinstance(second.error, CorruptRecordError)
    assert second.error.path == str(path)


def test_progress_tells_the_bytes_that_were_counted(golden: GoldenFactory) -> None:
    read: list[int] = []
    parts = open_transactions(LOCAL, golden(SCENARIOS), only=[TXN], advance=read.append)
    assert sum(read) == parts[0].open[0].held_back_bytes
