"""The plain way of an append, compiled, leaves the same bytes and the same state as the general way."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from append_cases import all_appends
from log_maker import batch
from storage.log.log_harness import NOW, LogHarness, read
from tidelog.model import ForkError, StorageError, TidelogError
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.partition_log import PartitionLog

CASES = sorted(all_appends().items())
Step = tuple[str, dict[str, Any]]


class GeneralWayOnly:
    def append(self, *_arguments: object) -> None:
        return None


class Counted:
    """The plain way, with the number of batches that it took."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self.count = 0

    def append(self, *arguments: Any) -> AppendResult | None:
        result: AppendResult | None = self._plain.append(*arguments)
        self.count += result is not None
        return result


class TwoLogs:
    """Two logs: the first appends by both ways, the second by the general way only."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.harnesses = [LogHarness(root / name / "t-0") for name in ("both", "general")]
        self.marks: list[list[int]] = [[], []]
        self.logs: list[PartitionLog] = []
        self.options = options
        self.open()

    def open(self) -> None:
        self.logs = [harness.open(**self.options) for harness in self.harnesses]
        for log, marks in zip(self.logs, self.marks, strict=True):
            log._state.offsets.on_high_watermark = marks.append
        self.counted = Counted(self.logs[0].plain_appends)
        self.logs[0].__dict__["plain_appends"] = self.counted
        self.logs[1].__dict__["plain_appends"] = GeneralWayOnly()

    def reopen(self) -> None:
        for log in self.logs:
            log.close()
        self.require_equal_files()
        self.open()

    def step(self, name: str, arguments: dict[str, Any]) -> None:
        """Do the same with both logs, and compare everything that can be seen."""
        if name == "reopen":
            self.reopen()
            return
        first, second = (outcome(log, name, dict(arguments)) for log in self.logs)
        assert first == second
        assert state_of(self.logs[0]) == state_of(self.logs[1])
        assert self.marks[0] == self.marks[1]

    def require_equal_files(self) -> None:
        first, second = (
            {path.name: path.read_bytes() for path in harness.directory.iterdir()} for harness in self.harnesses
        )
        assert first == second


@contextmanager
def two_logs(**options: Any) -> Iterator[TwoLogs]:
    with tempfile.TemporaryDirectory() as root:
        logs = TwoLogs(Path(root), **options)
        yield logs
        for harness in logs.harnesses:
            harness.close()
        logs.require_equal_files()


def outcome(log: PartitionLog, name: str, arguments: dict[str, Any]) -> object:
    try:
        match name:
            case "append":
                buffer = bytearray(arguments.pop("data"))
                arguments.setdefault("leader_epoch", log._state.epochs.latest_epoch or 0)
                return log.append_as_leader(buffer, **arguments), bytes(buffer)
            case "watermark":
                return log.update_high_watermark(log.end_offset * arguments["percent"] // 100)
            case "truncate":
                return log.truncate_to(log.end_offset * arguments["percent"] // 100)
            case "empty":
                log.truncate_fully_and_start_at(log.end_offset + 5)
            case "epoch":
                log.assign_epoch(arguments["epoch"], log.end_offset)
            case _:
                return getattr(log, name)()
    except (TidelogError, ValueError) as error:
        return type(error), str(error).replace("/both/", "/general/")
    return None


def state_of(log: PartitionLog) -> object:
    state = log._state
    producers = state.producers.state
    return (
        state.offset_snapshot(),
        (state.offsets.recovery_point, state.offsets.synced),
        [(one.base_offset, one.size, one.max_timestamp, one.roll_timestamp) for one in state.segments],
        state.epochs.entries,
        state.dirty,
        (producers.snapshot(), producers.map_end_offset, list(producers.producers.values())),
    )


def produced(producer_id: int, sequence: int, count: int, **fields: Any) -> bytes:
    values = [b"%d" % number for number in range(count)]
    return batch(0, values, producer_id=producer_id, sequence=sequence, **({"timestamp": NOW} | fields))


appended = st.builds(
    lambda data, flip, epoch, is_replicated: (
        "append",
        {"data": flipped(data, flip), "leader_epoch": epoch, "is_replicated": is_replicated},
    ),
    st.one_of(
        st.builds(
            produced,
            st.sampled_from([-1, -1, 7, 8]),
            st.sampled_from([0, 1, 2, 3, 5, 2**31 - 1]),
            st.integers(1, 3),
            timestamp=st.sampled_from([NOW, NOW + 5, NOW - 1000, NOW + 50_000, NOW + 10**9]),
            attributes=st.sampled_from([0, 0, 0, 8, 16, 32, 48]),
            producer_epoch=st.sampled_from([0, 0, 0, 1]),
        ),
        st.sampled_from([data for _, data in CASES]),
    ),
    st.none() | st.none() | st.none() | st.tuples(st.integers(0, 200), st.integers(1, 255)),
    st.sampled_from([0, 0, 0, 1]),
    st.booleans(),
)
plain = st.builds(
    lambda count, is_replicated: (
        "append",
        {"data": produced(-1, 0, count), "is_replicated": is_replicated},
    ),
    st.integers(1, 3),
    st.booleans(),
)
others: st.SearchStrategy[Step] = st.one_of(
    st.builds(lambda percent: ("watermark", {"percent": percent}), st.integers(0, 100)),
    st.builds(lambda percent: ("truncate", {"percent": percent}), st.integers(0, 100)),
    st.builds(lambda epoch: ("epoch", {"epoch": epoch}), st.integers(0, 2)),
    st.sampled_from(["roll", "flush", "reopen", "empty", "remove_expired_producers"]).map(lambda name: (name, {})),
)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"segment_bytes": 400, "index_interval_bytes": 0},
    {"segment_ms": 10_000, "index_interval_bytes": 100},
    {"segment_index_bytes": 24, "index_interval_bytes": 0},
    {"is_sole_replica": True},
    {"max_message_bytes": 150},
    {"cleanup_policy": frozenset({"compact"})},
    {"message_timestamp_type": "LogAppendTime"},
    {"compression_type": "uncompressed"},
]


def flipped(data: bytes, flip: tuple[int, int] | None) -> bytes:
    changed = bytearray(data)
    if flip is not None:
        changed[flip[0] % len(changed)] ^= flip[1]
    return bytes(changed)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(st.one_of(plain, plain, appended, others), min_size=3, max_size=30),
    options=st.sampled_from(OPTIONS),
)
def test_both_ways_are_equal(steps: list[Step], options: dict[str, Any]) -> None:
    with two_logs(**options) as logs:
        logs.step("append", {"data": produced(-1, 0, 1), "leader_epoch": 0})
        for name, arguments in steps:
            logs.step(name, arguments)
        event("plain ones" if logs.counted.count else "no plain one")


def test_continued_producers_take_the_plain_way() -> None:
    with two_logs() as logs:
        logs.step("append", {"data": produced(7, 0, 2), "leader_epoch": 0})
        assert logs.counted.count == 0, "the first batch of a producer is checked in full"
        for sequence in (2, 4, 6):
            logs.step("append", {"data": produced(7, sequence, 2), "leader_epoch": 0})
        assert logs.counted.count == 3
        logs.step("append", {"data": produced(7, 4, 2), "leader_epoch": 0})
        logs.step("append", {"data": produced(7, 20, 2), "leader_epoch": 0})
        assert logs.counted.count == 3, "a duplicate and a gap are left to the general way"


def test_sequences_begin_again_at_zero() -> None:
    with two_logs() as logs:
        logs.step("append", {"data": produced(7, 2**31 - 2, 1), "leader_epoch": 0})
        for sequence, count in ((2**31 - 1, 3), (2, 1)):
            logs.step("append", {"data": produced(7, sequence, count), "leader_epoch": 0})
        assert logs.counted.count == 2


def test_another_producer_epoch_takes_the_general_way() -> None:
    with two_logs() as logs:
        for sequence, epoch in ((0, 0), (1, 0), (2, 1), (0, 1), (1, 0)):
            made = produced(7, sequence, 1, producer_epoch=epoch)
            logs.step("append", {"data": made, "leader_epoch": 0})
        assert logs.counted.count == 1


def test_another_leader_epoch_takes_the_general_way() -> None:
    with two_logs() as logs:
        for epoch in (0, 0, 1, 1, 0):
            logs.step("append", {"data": produced(-1, 0, 1), "leader_epoch": epoch})
        assert logs.counted.count == 2


def test_an_open_transaction_takes_the_general_way() -> None:
    with two_logs() as logs:
        for producer_id, attributes in ((-1, 0), (7, 16), (-1, 0), (-1, 0)):
            made = produced(producer_id, 0, 1, attributes=attributes)
            logs.step("append", {"data": made, "leader_epoch": 0, "is_replicated": True})
        assert logs.counted.count == 0


def test_an_unwritten_topic_id_takes_the_general_way() -> None:
    topic_id = uuid.UUID(int=77)
    with two_logs() as logs:
        logs.step("append", {"data": produced(-1, 0, 1), "leader_epoch": 0})
        for log in logs.logs:
            log.assign_topic_id(topic_id)
        for _ in range(2):
            logs.step("append", {"data": produced(-1, 0, 1), "leader_epoch": 0})
        assert logs.counted.count == 1
        logs.require_equal_files()


def test_a_full_segment_rolls() -> None:
    size = len(produced(-1, 0, 1))
    with two_logs(segment_bytes=2 * size) as logs:
        for _ in range(6):
            logs.step("append", {"data": produced(-1, 0, 1), "leader_epoch": 0})
        assert [segment.base_offset for segment in logs.logs[0]._state.segments] == [0, 2, 4]
        assert logs.counted.count == 3


def test_the_high_watermark_without_other_replicas() -> None:
    with two_logs(is_sole_replica=True) as logs:
        for _ in range(3):
            logs.step("append", {"data": produced(-1, 0, 1), "leader_epoch": 0})
        assert logs.logs[0].high_watermark == 3
        assert logs.counted.count == 2


def test_an_append_after_a_flush_is_synced_by_the_next() -> None:
    with two_logs() as logs:
        logs.step("append", {"data": produced(-1, 0, 1), "leader_epoch": 0})
        logs.step("flush", {})
        logs.step("append", {"data": produced(-1, 0, 1), "leader_epoch": 0})
        assert logs.logs[0]._state.dirty == {0}
        assert logs.counted.count == 1


def test_a_damaged_batch_is_refused() -> None:
    with two_logs() as logs:
        whole = produced(-1, 0, 2)
        logs.step("append", {"data": whole, "leader_epoch": 0})
        for at in range(len(whole)):
            logs.step("append", {"data": flipped(whole, (at, 0x10)), "leader_epoch": 0})
        assert logs.logs[0].end_offset < 2 * len(whole)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 2),
        ({"is_sole_replica": True}, 2),
        ({"message_timestamp_type": "LogAppendTime"}, 0),
        ({"compression_type": "gzip"}, 0),
        ({"compression_type": "uncompressed"}, 2),
        ({"flush_messages": 2}, 0),
        ({"segment_bytes": len(produced(-1, 0, 1))}, 0),
    ],
)
def test_settings_of_the_plain_way(options: dict[str, Any], count: int) -> None:
    with two_logs(**options) as logs:
        for _ in range(3):
            logs.step("append", {"data": produced(-1, 0, 1), "leader_epoch": 0, "is_replicated": True})
        assert logs.counted.count == count, "the first append begins the leader epoch"


def test_new_settings_hold_at_once() -> None:
    with two_logs() as logs:
        log = logs.logs[0]
        for _ in range(2):
            log.append_as_leader(bytearray(produced(-1, 0, 1)), leader_epoch=0)
        log.update_config(log.config.__class__(segment_index_bytes=4096, max_message_bytes=10))
        with pytest.raises(TidelogError, match="above the limit"):
            log.append_as_leader(bytearray(produced(-1, 0, 1)), leader_epoch=0)
        logs.logs[1].append_as_leader(bytearray(produced(-1, 0, 1)), leader_epoch=0)
        logs.logs[1].append_as_leader(bytearray(produced(-1, 0, 1)), leader_epoch=0)


def test_a_failed_write_fails_the_log(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "t-0")
    log = harness.open()
    harness.add(log, 2)

    class Full:
        path = log._state.active.path

        def pwrite(self, _data: object, _position: int) -> int:
            raise StorageError("no space left")

        def truncate(self, size: int) -> None:
            self.truncated = size

    full = Full()
    size, end = log._state.active.size, log.end_offset
    active: Any = log._state.active
    file, active._file_or_none = active._file_or_none, full
    with pytest.raises(StorageError, match="no space left"):
        harness.add(log)
    assert (full.truncated, log.end_offset) == (size, end)
    with pytest.raises(StorageError, match="refuses writes"):
        harness.add(log)
    active._file_or_none = file
    harness.close()


def test_a_forked_child_appends_nothing(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "t-0")
    log = harness.open()
    harness.add(log, 2)
    child = os.fork()
    if child == 0:
        try:
            log.append_as_leader(bytearray(produced(-1, 0, 1)), leader_epoch=0)
        except ForkError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    harness.add(log)
    assert read(log, 0) == [0, 1, 2]
    harness.close()
