"""Each rule of the ledger finds the log that breaks it."""

from __future__ import annotations

import pytest

from real_kafka.cluster_ledger import Ledger, Outcome, Place, Sent, record_problems, transaction_problems

A, B, C = Sent(0, 0), Sent(0, 1), Sent(0, 2)


def found(log: list[Sent], *, acknowledged: dict[int, Sent], epochs: list[int] | None = None) -> list[str]:
    """Return the problems of a partition whose group has read the acknowledged records."""
    ledger = Ledger()
    for offset, sent in acknowledged.items():
        ledger.acknowledge(Place(0, offset), sent)
        ledger.note_read("group", Place(0, offset), sent)
    places = {Place(0, offset): epoch for offset, epoch in enumerate(epochs or [0] * len(log))}
    return list(record_problems(ledger, {0: list(enumerate(log))}, places))


def test_a_log_may_have_more_records_than_were_acknowledged() -> None:
    assert found([A, B, C], acknowledged={0: A, 1: B}) == []


@pytest.mark.parametrize("log", [[A], [A, C], [B, A]])
def test_an_acknowledged_record_is_at_its_offset(log: list[Sent]) -> None:
    assert any("was acknowledged at" in problem for problem in found(log, acknowledged={0: A, 1: B}))


@pytest.mark.parametrize("log", [[A, B, B], [B, A]])
def test_records_of_an_epoch_are_there_once_and_in_sequence(log: list[Sent]) -> None:
    assert found(log, acknowledged={}) != []


def test_a_record_without_an_acknowledgement_may_be_there_in_two_epochs() -> None:
    assert found([A, B, C, B, C], acknowledged={0: A, 3: B, 4: C}, epochs=[0, 0, 0, 1, 1]) == []
    problem = "Sent(run=0, number=1) was acknowledged at Place(partition=0, offset=1), and is there again at"
    assert found([A, B, B], acknowledged={0: A, 1: B}, epochs=[0, 0, 1]) == [f"{problem} Place(partition=0, offset=2)"]


def test_a_group_has_read_what_was_acknowledged() -> None:
    ledger = Ledger()
    ledger.acknowledge(Place(0, 0), A)
    ledger.note_read("group", Place(0, 1), B)
    problems = list(record_problems(ledger, {0: [(0, A), (1, C)]}, {Place(0, 0): 0, Place(0, 1): 0}))
    assert [problem.split(" at ")[0] for problem in problems] == [
        "group group read Sent(run=0, number=1)",
        "group group has not read Sent(run=0, number=0)",
    ]


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [(Outcome.COMMITTED, [2]), (Outcome.ABORTED, [0]), (Outcome.UNKNOWN, [0, 2])],
)
def test_a_transaction_is_seen_as_its_outcome_says(outcome: Outcome, counts: list[int]) -> None:
    ledger = Ledger()
    ledger.transactions[0], ledger.sizes[0] = outcome, 2
    for count in range(3):
        log = {0: [(offset, Sent(0, offset)) for offset in range(count)]}
        assert (list(transaction_problems(ledger, log)) == []) is (count in counts)
    ledger.transactions.clear()
    assert list(transaction_problems(ledger, {0: [(0, A)]})) == ["transaction 0 is seen, but it did not end"]
