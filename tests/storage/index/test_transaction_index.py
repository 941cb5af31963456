"""The transaction index, and the cases of Kafka's TransactionIndexTest."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import IndexCorruptError
from tidelog.storage.fs import LOCAL
from tidelog.storage.index import AbortedTxn, TransactionIndexReader, TransactionIndexWriter, encode_transactions

TRANSACTIONS = [
    AbortedTxn(0, 0, 10, 2),
    AbortedTxn(1, 5, 15, 16),
    AbortedTxn(2, 18, 35, 25),
    AbortedTxn(3, 32, 50, 40),
]


@pytest.fixture
def index(tmp_path: Path) -> TransactionIndexWriter:
    return TransactionIndexWriter(LOCAL, tmp_path / "x.txnindex", 0)


def filled(index: TransactionIndexWriter) -> TransactionIndexWriter:
    for transaction in TRANSACTIONS:
        index.append(transaction)
    return index


def test_the_file_is_made_with_the_first_entry(index: TransactionIndexWriter) -> None:
    assert not index.exists
    assert index.transactions() == []
    assert index.collect(0, 100) == ([], False)
    index.truncate_to(0)
    index.reset()
    index.sync()
    index.sanity_check()
    index.close()
    assert not index.path.exists()
    index.append(TRANSACTIONS[0])
    index.sync()
    assert (index.exists, index.size_bytes, index.path.stat().st_size) == (True, 34, 34)


def test_last_offsets_ascend(index: TransactionIndexWriter) -> None:
    index.append(TRANSACTIONS[1])
    for last_offset in (15, 14):
        with pytest.raises(ValueError, match="cannot follow one ending at 15"):
            index.append(AbortedTxn(9, 0, last_offset, 2))
    assert index.transactions() == [TRANSACTIONS[1]]


def test_reopened(index: TransactionIndexWriter) -> None:
    filled(index).close()
    again = TransactionIndexWriter(LOCAL, index.path, 0)
    assert again.transactions() == TRANSACTIONS
    again.append(AbortedTxn(5, 60, 70, 71))
    assert again.transactions()[-1].last_stable_offset == 71


@pytest.mark.parametrize(
    ("fetch", "upper", "expected", "complete"),
    [
        (0, 100, [0, 1, 2, 3], False),
        (0, 32, [0, 1, 2], True),
        (0, 35, [0, 1, 2, 3], True),
        (10, 35, [0, 1, 2, 3], True),
        (11, 35, [1, 2, 3], True),
        (20, 41, [2, 3], False),
        (16, 18, [], True),
        (0, 16, [0, 1], True),
        (51, 100, [], False),
    ],
)
def test_collected(index: TransactionIndexWriter, fetch: int, upper: int, expected: list[int], complete: bool) -> None:
    found = filled(index).collect(fetch, upper)
    assert found == ([TRANSACTIONS[number] for number in expected], complete)


@pytest.mark.parametrize(("offset", "kept"), [(51, 4), (50, 3), (36, 3), (35, 2), (1, 0), (0, 0)])
def test_truncation(index: TransactionIndexWriter, offset: int, kept: int) -> None:
    filled(index).truncate_to(offset)
    assert index.transactions() == TRANSACTIONS[:kept]
    index.append(AbortedTxn(7, 60, 61, 62))
    assert len(index.transactions()) == kept + 1


def test_a_reset_leaves_an_empty_file(index: TransactionIndexWriter) -> None:
    filled(index).reset()
    assert index.exists
    assert index.path.stat().st_size == 0
    for empty in (index, TransactionIndexWriter(LOCAL, index.path, 0)):
        assert (empty.exists, empty.size_bytes, empty.transactions()) == (True, 0, [])
    index.append(TRANSACTIONS[0])
    assert index.transactions() == [TRANSACTIONS[0]]


def test_a_directory_that_was_renamed(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    index = filled(TransactionIndexWriter(LOCAL, tmp_path / "old" / "x.txnindex", 0))
    (tmp_path / "old").rename(tmp_path / "new")
    index.set_path_and_write(tmp_path / "new" / "x.txnindex")
    assert index.path.parent == tmp_path / "new"
    index.append(AbortedTxn(5, 60, 70, 71))
    assert index.transactions()[:-1] == TRANSACTIONS
    assert not (tmp_path / "old").exists()


def test_sanity_checks(tmp_path: Path) -> None:
    data = encode_transactions(TRANSACTIONS)
    with pytest.raises(IndexCorruptError, match="ends at 10, below the base offset 12"):
        TransactionIndexReader(data, 12).sanity_check()
    newer = data[:34] + struct.pack(">h", 1) + data[36:]
    with pytest.raises(IndexCorruptError, match="version 1") as caught:
        list(TransactionIndexReader(newer, 0, path=tmp_path / "x"))
    assert (caught.value.position, caught.value.path) == (34, str(tmp_path / "x"))


def test_part_of_an_entry_at_the_end_is_left_out() -> None:
    reader = TransactionIndexReader(encode_transactions(TRANSACTIONS)[:-1], 0)
    assert list(reader) == TRANSACTIONS[:3]


@given(st.binary(max_size=150), st.integers(-5, 2**62), st.integers(-5, 2**62))
def test_any_bytes_can_be_asked(data: bytes, fetch: int, upper: int) -> None:
    for bytes_ in (data, b"\0\0" + data):
        reader = TransactionIndexReader(bytes_, 0)
        for question in (lambda reader=reader: reader.collect(fetch, upper), reader.sanity_check):
            try:
                question()
            except IndexCorruptError:
                pass


int64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.builds(AbortedTxn, int64, int64, int64, int64)))
def test_round_trip(transactions: list[AbortedTxn]) -> None:
    assert list(TransactionIndexReader(encode_transactions(transactions), 0)) == transactions
