"""Snapshots of generated directories against a list: records with any timestamps, codecs, transactions, log starts."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from snapshot_checks import Seen, digests, records, snapshot, until
from snapshot_source import SMALL, T0, Source, SourceLog
from tidelog.inspect.verify.directory_check import verify_directory
from tidelog.model import Isolation, TopicPartition
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView

PARTITION = TopicPartition("t", 0)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMES = st.integers(T0, T0 + 12) | st.just(-1)


@dataclass(frozen=True)
class Batch:
    timestamps: tuple[int, ...]
    codec: str
    producer: int
    """The producer's id, or -1 for none. From 3 on, the batch is in a transaction of the producer 3 below."""


@dataclass(frozen=True)
class End:
    producer: int
    committed: bool
    timestamp: int


BATCHES = st.builds(
    Batch, st.lists(TIMES, min_size=1, max_size=6).map(tuple), st.sampled_from(CODECS), st.integers(-1, 5)
)
ENDS = st.builds(End, st.integers(0, 2), st.booleans(), st.integers(T0, T0 + 12))
STEPS = st.lists(BATCHES | ENDS | st.just("roll"), max_size=14)


def carry_out(log: SourceLog, steps: list[Batch | End | str]) -> None:
    open_: set[int] = set()
    for step in steps:
        log.clock.now += 1
        if isinstance(step, Batch):
            producer = step.producer - 3 if step.producer >= 3 else step.producer
            transactional = step.producer >= 3
            if producer in open_ and not transactional:
                continue  # a client sends nothing outside of its transaction
            log.append(step.timestamps, codec=step.codec, producer_id=producer, transactional=transactional)
            if transactional:
                open_.add(producer)
        elif isinstance(step, End):
            log.end_transaction(step.producer, committed=step.committed, timestamp=step.timestamp)
            open_.discard(step.producer)
        else:
            log.log.roll()


def open_at_end(seen: list[Seen], transactional: set[int]) -> dict[int, list[int]]:
    """Return the offsets of each transaction without its marker, by producer: the rule, as a loop."""
    open_: dict[int, list[int]] = {}
    for record in seen:
        if record.is_control:
            open_.pop(record.producer_id, None)
        elif record.offset in transactional:
            open_.setdefault(record.producer_id, []).append(record.offset)
    return open_


def committed_values(path: Path) -> list[bytes | None]:
    view = LogView(LOCAL, path / "t-0")
    wanted = view.range(isolation=Isolation.READ_COMMITTED)
    return [record.value for chunk in view.columns(wanted) for record in iter_records(chunk.columns)]


def expected_committed(seen: list[Seen], transactional: set[int]) -> list[bytes | None]:
    """Return the values that a read_committed reader sees in the end: markers decide, and open ones are aborted."""
    pending: dict[int, list[Seen]] = {}
    kept: list[Seen] = []
    for record in seen:
        if record.is_control:
            assert record.key is not None
            transaction = pending.pop(record.producer_id, [])
            kept += transaction if record.key.endswith(b"\x01") else []
        elif record.offset in transactional:
            pending.setdefault(record.producer_id, []).append(record)
        else:
            kept.append(record)
    return [record.value for record in sorted(kept)]


@given(
    steps=STEPS,
    at=st.integers(T0 - 1, T0 + 13),
    log_start=st.integers(0, 20),
    append_time=st.booleans(),
    clean=st.booleans(),
    policy=st.sampled_from(["abort", "keep"]),
)
@example(
    steps=[Batch((T0,), "none", 3), "roll", Batch((T0, T0), "none", 1)],
    at=T0,
    log_start=2,
    append_time=False,
    clean=False,
    policy="abort",
)
@settings(max_examples=150)
def test_the_snapshot_is_the_prefix_of_the_list(
    steps: list[Batch | End | str], at: int, log_start: int, append_time: bool, clean: bool, policy: str
) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        config = replace(SMALL, message_timestamp_type="LogAppendTime" if append_time else "CreateTime")
        source = Source(root / "data")
        log = source.log("t-0", config)
        carry_out(log, steps)
        log.delete_before(min(log_start, log.end))
        source.finish(clean=clean)
        before = digests(source.path)
        seen = log.seen
        assert records(source.path, PARTITION) == seen

        snapshot(source.path, root / "copy", at_ms=at, open_transactions=policy)

        expected = until(seen, at)
        end = seen[len(expected)].offset if len(expected) < len(seen) else log.end
        found = records(root / "copy", PARTITION)
        assert found[: len(expected)] == expected
        open_ = open_at_end([one for one in log.appended if one.offset < end], log.transactional)
        markers = found[len(expected) :]
        if policy == "keep":
            assert markers == []
        else:
            ended = [one.producer_id for one in markers]
            start = log.log.log_start_offset
            visible = {one for one, offsets in open_.items() if offsets[-1] >= start}
            whole = [one for one in sorted(open_, key=lambda one: open_[one][0]) if open_[one][0] >= start]
            # Recovery deletes producer snapshots at or below the log start, so the log may forget older transactions.
            assert visible <= set(ended) <= set(open_)
            assert len(ended) == len(set(ended))
            assert [one for one in ended if one in whole] == whole
            assert all(one.is_control and one.key == b"\0\0\0\0" for one in markers)
            assert committed_values(root / "copy") == expected_committed(expected, log.transactional)
        checked = verify_directory(LOCAL, root / "copy")
        assert checked.has_no_errors, list(checked.all_findings)
        assert digests(source.path) == before
    finally:
        shutil.rmtree(root)
