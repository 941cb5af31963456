"""The small files and the names of commits: their meaning, and similar names that are not theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import CheckpointError, TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.staged.sink_checkpoint import (
    SINK_CHECKPOINT,
    read_committed_batches,
    write_committed_batches,
)
from tidelog.storage.manager.staged.staged_commit import (
    INTENT_FILE,
    StagedCommit,
    StagedFile,
    StagedName,
    is_query_id,
    read_intent,
    remove_intent,
    write_intent,
)

WORDS = st.text("abcXYZ019._-", min_size=1, max_size=40)
BATCHES = st.none() | st.integers(0, 2**63 - 1)


@given(query=WORDS, batch=BATCHES, writer=WORDS, number=st.integers(0, 999_999_999))
def test_a_name_says_whose_it_is(query: str, batch: int | None, writer: str, number: int) -> None:
    name = StagedName(query, batch, writer, number)
    assert StagedName.parse(str(name)) == name
    assert len(str(name)) <= 255
    assert "/" not in str(name)


def test_the_longest_name_is_a_files() -> None:
    assert len(str(StagedName("q" * 100, 2**63 - 1, "w" * 64, 999_999_999))) <= 255


@pytest.mark.parametrize(
    "name",
    [
        "",
        "t-0",
        "00000000000000000000.log",
        ".tidelog-staged~q~1~w",
        ".tidelog-staged~q~01~w~0",
        ".tidelog-staged~q~-1~w~0",
        ".tidelog-staged~q~1~w~0.tmp",
        ".tidelog-staged~a b~1~w~0",
        ".tidelog-staged~q~1~w~0\n",
        ".tidelog-staged~q~\u0661~w~0",
    ],
)
def test_other_names_are_no_staged_files(name: str) -> None:
    assert StagedName.parse(name) is None


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("f3a1c0de-77aa-4d0e-9d35-3d7f1f0c8f57", True),
        ("orders_to-log.v2", True),
        ("q" * 100, True),
        ("q" * 101, False),
        ("", False),
        ("a~b", False),
        ("a b", False),
        ("../etc", False),
        ("\u00e9", False),
    ],
)
def test_query_ids(text: str, is_one: bool) -> None:
    assert is_query_id(text) is is_one


def name_of(number: int, batch: int | None = 7) -> str:
    return str(StagedName("q", batch, "w", number))


def made(batch: int | None = 7) -> StagedCommit:
    files = {
        TopicPartition("t", 0): (StagedFile(name_of(1, batch), 10), StagedFile(name_of(0, batch), 0)),
        TopicPartition("a.b_c-d", 12): (StagedFile(name_of(2, batch), 2**31),),
    }
    return StagedCommit(query="q", batch=batch, files=files)


@pytest.mark.parametrize("batch", [7, 0, None])
def test_an_intent_is_read_as_it_was_written(tmp_path: Path, batch: int | None) -> None:
    assert read_intent(LOCAL, tmp_path) is None
    write_intent(LOCAL, tmp_path, made(batch))
    found = read_intent(LOCAL, tmp_path)
    assert found == made(batch)
    assert found is not None
    assert list(found.files) == list(made(batch).files)
    assert found.names == [name_of(1, batch), name_of(0, batch), name_of(2, batch)]
    remove_intent(LOCAL, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 1}, "version 1 is unknown"),
        ({"query": "a b"}, "a query is named by"),
        ({"query": 5}, "is not a string"),
        ({"query": "other"}, "not the name of a staged file of this commit"),
        ({"batch": -1}, "batch"),
        ({"batch": "7"}, "is not an integer"),
        ({"batch": True}, "is not an integer"),
        ({"batch": 8}, "not the name of a staged file of this commit"),
        ({"partitions": 5}, "not the intent"),
        ({"partitions": [{"topic": "t"}]}, "partition"),
        ({"partitions": [{"topic": "../t", "partition": 0, "files": []}]}, "is not a partition"),
        ({"partitions": [{"topic": "t", "partition": -1, "files": []}]}, "is not a partition"),
        ({"partitions": [{"topic": "t", "partition": 0, "files": []}] * 2}, "two entries"),
        ({"partitions": [{"topic": "t", "partition": 0, "files": [{"name": "../x", "size": 1}]}]}, "not the name"),
        ({"partitions": [{"topic": "t", "partition": 0, "files": [{"name": name_of(1), "size": 1}] * 2}]}, "twice"),
    ],
)
def test_an_intent_that_is_none_is_refused(tmp_path: Path, change: dict[str, object], text: str) -> None:
    data = json.dumps(json.loads(made().format()) | change).encode()
    (tmp_path / INTENT_FILE).write_bytes(data)
    with pytest.raises(CheckpointError, match=text) as caught:
        read_intent(LOCAL, tmp_path)
    assert caught.value.path == str(tmp_path / INTENT_FILE)


@given(data=st.binary(max_size=80))
def test_rubbish_is_no_intent(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        StagedCommit.parse(data)


@given(at=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_changed_byte_is_told_or_says_something_whole(at: int, byte: int) -> None:
    data = bytearray(made().format())
    data[at % len(data)] = byte
    try:
        found = StagedCommit.parse(bytes(data))
    except CheckpointError:
        return
    assert all(StagedName.parse(name) for name in found.names)


def test_what_a_commit_supersedes() -> None:
    commit = made(7)
    assert [batch for batch in (0, 6, 7, 8, None) if commit.supersedes(StagedName("q", batch, "other", 0))] == [0, 6, 7]
    assert not commit.supersedes(StagedName("p", 7, "w", 0))
    assert made(None).supersedes(StagedName("q", None, "other", 0))
    assert not made(None).supersedes(StagedName("q", 1, "w", 0))


def test_the_checkpoint_keeps_a_number_a_query(tmp_path: Path) -> None:
    assert read_committed_batches(LOCAL, tmp_path) == {}
    batches = {"b.2": 0, "a-1": 2**40}
    write_committed_batches(LOCAL, tmp_path, batches)
    assert read_committed_batches(LOCAL, tmp_path) == batches
    assert (tmp_path / SINK_CHECKPOINT).read_text() == f"0\n2\na-1 {2**40}\nb.2 0\n"


@pytest.mark.parametrize("text", ["0\n1\nq\n", "0\n1\nq -1\n", "0\n1\na b 1\n", "0\n2\nq 1\nq 2\n", "0\n1\nq 1 2\n"])
def test_a_checkpoint_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / SINK_CHECKPOINT).write_text(text)
    with pytest.raises(CheckpointError):
        read_committed_batches(LOCAL, tmp_path)
