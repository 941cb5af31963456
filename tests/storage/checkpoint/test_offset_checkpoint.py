"""Offset checkpoints: refused files with the line at fault, and round trips."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import CheckpointError, TopicPartition
from tidelog.storage.checkpoint import OffsetCheckpoint
from tidelog.storage.fs import LOCAL

GOOD = b"0\n2\nplain 1 1000\na.b-c_d 0 7\n"


def test_read_and_missing(tmp_path: Path) -> None:
    assert OffsetCheckpoint.read(LOCAL, tmp_path / "x") == {}
    (tmp_path / "x").write_bytes(GOOD)
    expected = {TopicPartition("plain", 1): 1000, TopicPartition("a.b-c_d", 0): 7}
    assert OffsetCheckpoint.read(LOCAL, tmp_path / "x") == expected
    assert OffsetCheckpoint.format(expected) == b"0\n2\na.b-c_d 0 7\nplain 1 1000\n"
    assert OffsetCheckpoint.parse(GOOD.replace(b"\n", b"\r\n").replace(b"plain 1", b"plain \t1")) == expected
    assert OffsetCheckpoint.parse(GOOD[:-1]) == expected
    assert OffsetCheckpoint.parse(b"") == OffsetCheckpoint.parse(b"0\n") == OffsetCheckpoint.parse(b"0\n0\n") == {}


def test_written_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    for offsets in ({("foo", 1): 5, ("bar", 2): 10}, {("foo", 2): 15, ("bar", 3): 20, ("baz", 0): 0}, {}):
        written = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
        OffsetCheckpoint.write(LOCAL, path, written)
        assert OffsetCheckpoint.read(LOCAL, path) == written
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\n", "line 1: a version number was expected: ''"),
        (b"1\n0\n", "line 1: version 1 is unknown, 0 was expected"),
        (b"x\n0\n", "line 1: a version number"),
        (b"99999999999\n0\n", "line 1: a version number"),
        (b"0\nx\n", "line 2: the number of entries was expected: 'x'"),
        (b"0\n-1\n", "line 2"),
        (b"0\n1\nplain 0\n", "line 3: not an entry: 'plain 0'"),
        (b"0\n1\nplain 0 1 2\n", "line 3"),
        (b"0\n1\n plain 0 1\n", "line 3"),
        (b"0\n1\nplain zero 1\n", "line 3"),
        (b"0\n1\nplain -1 1\n", "line 3"),
        (b"0\n1\nplain 2147483648 1\n", "line 3"),
        (b"0\n1\nplain 0 -1\n", "line 3"),
        (b"0\n1\nplain 0 9223372036854775808\n", "line 3"),
        ("0\n1\nplain 0 \u0661\n".encode(), "line 3"),
        (b"0\n2\nplain 0 1\n\n", "line 4: not an entry: ''"),
        (b"0\n2\nplain 0 1\n", "line 2 says 2 entries, but there are 1"),
        (b"0\n1\nplain 0 1\nplain 1 1\n", "line 2 says 1 entries, but there are 2"),
        (b"0\n2\nplain 0 1\nplain 0 1\n", "two entries for plain-0"),
        (b"0\n1\n\xff 0 1\n", "not a text file in UTF-8"),
        (b"0\n1\n" + b"x" * 200 + b"\n", r"xxx\.\.\."),
    ],
)
def test_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=message) as caught:
        OffsetCheckpoint.read(LOCAL, path)
    assert caught.value.path == str(path)


topics = st.text("abcXYZ019._-", min_size=1, max_size=12)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))


@given(st.dictionaries(partitions, st.integers(0, 2**63 - 1)))
def test_round_trip(offsets: dict[TopicPartition, int]) -> None:
    assert OffsetCheckpoint.parse(OffsetCheckpoint.format(offsets)) == offsets


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        OffsetCheckpoint.parse(data)
    except CheckpointError:
        pass


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_a_damaged_byte_never_adds_a_partition(position: int, byte: int) -> None:
    damaged = GOOD[:position] + bytes([byte]) + GOOD[position + 1 :]
    try:
        assert len(OffsetCheckpoint.parse(damaged)) <= 2
    except CheckpointError:
        pass
