"""Committed offsets: the newest of a key, tombstones and transactions, compared with kafka-dump-log."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS
from log_maker import TRANSACTIONAL, batch, marker, write_segment
from tidelog.inspect.committed_offsets import GroupOffsets, read_committed_offsets
from tidelog.inspect.offsets import LogEnds, log_ends
from tidelog.model import TopicPartition
from tidelog.record.internal_records.frames import encode_key, encode_value
from tidelog.record.internal_records.group_tables import GROUP_TYPES
from tidelog.storage.fs import LOCAL

LINE = re.compile(r'^\| offset: (\d+) .* key: (\{"type":"1".*?\}) payload: (.*)$')


def key(group: str = "g", topic: str = "t", partition: int = 0, *, number: int = 1) -> bytes:
    return encode_key(GROUP_TYPES, number, {"group": group, "topic": topic, "partition": partition})


def value(offset: int, *, number: int = 1, version: int = 3) -> bytes:
    fields: dict[str, object] = {"offset": offset, "metadata": "m", "commitTimestamp": 99}
    if number == 1:
        fields["leaderEpoch"] = 4
    return encode_value(GROUP_TYPES, number, fields, version)


def commit(at: int, offset: int | None, *, group: str = "g", producer_id: int = -1) -> bytes:
    """Build a batch at offset ``at`` of the log: a committed offset, or its removal if ``offset`` is None."""
    return batch(
        at,
        [None if offset is None else value(offset)],
        key=key(group),
        attributes=TRANSACTIONAL if producer_id >= 0 else 0,
        producer_id=producer_id,
    )


def read(directory: Path, batches: Sequence[bytes]) -> GroupOffsets:
    # An unclean shutdown left no transaction index, so the reader scans the log for transactions.
    write_segment(directory / "__consumer_offsets-3", 0, batches)
    return read_committed_offsets(LOCAL, directory)


def offsets(found: GroupOffsets) -> dict[str, int]:
    return {commit.group: commit.offset for commit in found.offsets}


def test_the_newest_commit_counts_and_null_removes(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        [commit(0, 5), commit(1, 7), commit(2, 1, group="h"), commit(3, None, group="h"), commit(4, None, group="i")],
    )
    assert offsets(found) == {"g": 7}
    (kept,) = found.offsets
    assert (kept.partition, kept.source, kept.source_offset) == (
        TopicPartition("t", 0),
        TopicPartition("__consumer_offsets", 3),
        1,
    )
    assert (kept.metadata, kept.leader_epoch, kept.commit_timestamp) == ("m", 4, 99)


def test_transactions_count_once_they_are_committed(tmp_path: Path) -> None:
    batches = [
        commit(0, 1),
        commit(1, 2, producer_id=7),
        marker(2, committed=True, producer_id=7),
        commit(3, 3, producer_id=8),
        marker(4, committed=False, producer_id=8),
    ]
    assert offsets(read(tmp_path, batches)) == {"g": 2}


def test_an_open_transaction_hides_its_own_commits_only(tmp_path: Path) -> None:
    batches = [commit(0, 1), commit(1, 2, producer_id=7), commit(2, 30, group="h"), commit(3, 4, producer_id=7)]
    assert offsets(read(tmp_path, batches)) == {"g": 1, "h": 30}


def test_the_later_record_wins_wherever_the_marker_is(tmp_path: Path) -> None:
    batches = [commit(0, 1, producer_id=7), commit(1, 9), marker(2, committed=True, producer_id=7)]
    assert offsets(read(tmp_path, batches)) == {"g": 9}


def test_old_keys_and_unknown_ones(tmp_path: Path) -> None:
    old = batch(0, [value(11, number=0, version=0)], key=key("old", number=0))
    unknown = batch(1, [b"\0\0"], key=b"\0\x63")
    cut = batch(2, [value(1)], key=key()[:-2])
    newer = batch(3, [b"\0\x63" + value(1)[2:]], key=key("newer"))
    keyless = batch(4, [b"x"], key=None)
    found = read(tmp_path, [old, unknown, cut, newer, keyless])
    assert offsets(found) == {"old": 11}
    assert found.offsets[0].leader_epoch is None
    assert found.undecoded == 3


def test_a_directory_without_the_topic_has_none(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert read_committed_offsets(LOCAL, tmp_path) == GroupOffsets(offsets=(), partitions=0, undecoded=0, errors=())


def test_a_damaged_partition_is_an_error_beside_the_others(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    path = next(path for path in directory.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found = read_committed_offsets(LOCAL, directory)
    assert [error.path for error in found.errors] == [str(path)]
    assert found.offsets


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_they_are_what_kafka_dump_log_prints_last(golden: GoldenFactory, kind: str) -> None:
    expected: dict[tuple[str, str, int], int] = {}
    for path in golden(FLIGHTS, "dump-clean").glob("__consumer_offsets-*.txt"):
        for line in path.read_text().splitlines():
            if match := LINE.match(line):
                data = json.loads(match[2])["data"]
                payload = json.loads(match[3])
                expected[data["group"], data["topic"], data["partition"]] = payload["data"]["offset"]
    found = read_committed_offsets(LOCAL, golden(FLIGHTS, kind))
    assert not found.errors
    assert not found.undecoded
    assert {(commit.group, *commit.partition): commit.offset for commit in found.offsets} == expected
    assert len(expected) == 7


def test_lag(golden: GoldenFactory) -> None:
    txn, missing = TopicPartition("txn", 0), TopicPartition("missing", 0)
    assert log_ends(LOCAL, golden("scenarios-kafka-4.1"), [txn, missing]) == {
        txn: LogEnds(log_start=0, last_stable=516, log_end=561)
    }
    ends = LogEnds(log_start=100, last_stable=150, log_end=200)
    assert [ends.lag(offset) for offset in (0, 100, 180, 200, 250)] == [100, 100, 20, 0, 0]
    assert [ends.stable_lag(offset) for offset in (0, 149, 180)] == [50, 1, 0]
