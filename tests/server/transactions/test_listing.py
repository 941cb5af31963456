"""The transactions that a listing returns: the table of ``listing``."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from server.transactions.transaction_cases import NOW, record, refusal
from tidelog.protocol.errors import ErrorCode
from tidelog.record.internal_records.transaction_record import TransactionState as State
from tidelog.server.transactions.listing import TransactionFilter, select
from tidelog.server.transactions.rules.transaction import Transaction
from tidelog.server.transactions.rules.transitions import expire


def known() -> list[Transaction]:
    return [
        Transaction(transactional_id="orders-1", record=record(State.ONGOING, producer_id=1, start_ms=NOW - 500)),
        Transaction(transactional_id="orders-2", record=record(State.COMPLETE_COMMIT, producer_id=2, start_ms=NOW - 5)),
        Transaction(transactional_id="bills", record=record(State.EMPTY, producer_id=3, start_ms=-1)),
    ]


def names(wanted: TransactionFilter) -> list[str]:
    return [listed.transactional_id for listed in select(known(), wanted, set, now_ms=NOW)]


ALL = ["orders-1", "orders-2", "bills"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (TransactionFilter.of(), ALL),
        (TransactionFilter.of(states=["Ongoing"]), ["orders-1"]),
        (TransactionFilter.of(states=["Ongoing", "Empty", "nonsense"]), ["orders-1", "bills"]),
        (TransactionFilter.of(states=["nonsense"]), []),
        (TransactionFilter.of(producer_ids=[2, 3, 9]), ["orders-2", "bills"]),
        (
            TransactionFilter.of(duration_ms=5),
            ["orders-1", "bills"],
        ),  # a missing start counts as 1970, as in Kafka
        (TransactionFilter.of(duration_ms=0), ALL),
        (TransactionFilter.of(pattern="orders-.*"), ["orders-1", "orders-2"]),
        (TransactionFilter.of(pattern="orders"), []),
        (TransactionFilter.of(pattern=""), ALL),
        (TransactionFilter.of(pattern=".*2", states=["Ongoing"]), []),
    ],
)
def test_filters(wanted: TransactionFilter, expected: list[str]) -> None:
    assert names(wanted) == expected


@pytest.mark.parametrize(("duration_ms", "expected"), [(-1, 1), (0, 0)])
def test_a_duration_of_zero_filters(duration_ms: int, expected: int) -> None:
    """Only a negative duration means that the request does not filter by duration."""
    just_begun = Transaction(transactional_id="new", record=record(State.ONGOING, start_ms=NOW))
    assert len(list(select([just_begun], TransactionFilter.of(duration_ms=duration_ms), set, now_ms=NOW))) == expected


def test_names_of_no_state_are_told_back() -> None:
    assert TransactionFilter.of(states=["Ongoing", "ongoing", "x"]).unknown_states == ("ongoing", "x")


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        (".*", ["app:1 -> ü", "app_1"]),
        ("app:.*", ["app:1 -> ü"]),
        (r"app[[:punct:]]\d.*", ["app:1 -> ü", "app_1"]),
        (r"\w*", ["app_1"]),
        (r".*[^\x00-\x7f]", ["app:1 -> ü"]),
        (r"[^:]*", ["app_1"]),
        (r"app:1\s->\s.", ["app:1 -> ü"]),
        (r"\p{L}+\p{P}.*", ["app:1 -> ü", "app_1"]),
    ],
)
def test_names_have_any_characters(pattern: str, matching: list[str]) -> None:
    transactions = [Transaction(transactional_id=name, record=record(State.EMPTY)) for name in ("app:1 -> ü", "app_1")]
    listed = select(transactions, TransactionFilter.of(pattern=pattern), set, now_ms=NOW)
    assert [one.transactional_id for one in listed] == matching


def test_no_pattern_keeps_the_broker_busy() -> None:
    """A backtracking engine would not finish in time."""
    transactions = [Transaction(transactional_id="a" * 3000 + "!", record=record(State.EMPTY))]
    assert not list(select(transactions, TransactionFilter.of(pattern="(a+)+(a*)*b"), set, now_ms=NOW))


def test_what_may_be_seen_is_asked_of_what_passes_the_other_filters() -> None:
    asked: list[str] = []
    wanted = TransactionFilter.of(states=["Ongoing", "Empty"], pattern="bills")

    def visible(names: Iterable[str]) -> list[str]:
        asked.extend(names)
        return asked[:1]

    assert not list(select(known(), wanted, visible, now_ms=NOW))
    assert asked == ["orders-1", "bills"]


def test_a_bad_pattern() -> None:
    assert refusal(lambda: TransactionFilter.of(pattern="orders-(")) is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_what_is_being_forgotten_is_not_told_of() -> None:
    transactions = known()
    transactions[2].begin(expire(transactions[2].record))
    listed = select(transactions, TransactionFilter.of(), set, now_ms=NOW)
    assert [one.transactional_id for one in listed] == ALL[:2]
