"""Descriptions of transactions: one by its transactional id, or all that match the filters.

=================  ===================================================================================================
filter             matching transactional ids
=================  ===================================================================================================
states             in one of these states; unknown state names are returned to the client, and match nothing
producer ids       of one of these producers
duration           the last transaction began more than this many ms ago; a value below 0 disables the filter
pattern            the whole name matches the regular expression (KIP-1152); an empty pattern disables the filter
=================  ===================================================================================================

An empty filter matches all. An id that is being removed is omitted. The pattern comes last, and is matched only with
names that are visible to the client: a match that takes too long would reveal other names. Pure.
Source: Kafka's ``TransactionStateManager.listTransactionStates``, ``TransactionCoordinator``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import STATES_BY_LABEL, TransactionRecord, TransactionState
from tidelog.server.groups.pattern.syntax import PatternError
from tidelog.server.groups.pattern.topic_pattern import TopicPattern
from tidelog.server.transactions.rules.transaction import Transaction

VisibleTransactions = Callable[[Iterable[str]], Collection[str]]
"""A function that returns the transactional ids that the client may see."""


class ListedTransaction(NamedTuple):
    transactional_id: str
    record: TransactionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    states: frozenset[TransactionState] = frozenset()
    unknown_states: tuple[str, ...] = ()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    pattern: TopicPattern | None = None

    @classmethod
    def of(
        cls,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> Self:
        """Build a filter. Raise ApiError(INVALID_REGULAR_EXPRESSION) if the pattern is invalid."""
        names = tuple(states)
        try:
            compiled = TopicPattern(pattern) if pattern else None
        except PatternError as error:
            raise _refused(pattern, error) from None
        return cls(
            states=frozenset(STATES_BY_LABEL[name] for name in names if name in STATES_BY_LABEL),
            unknown_states=tuple(name for name in names if name not in STATES_BY_LABEL),
            producer_ids=frozenset(producer_ids),
            duration_ms=duration_ms,
            pattern=compiled,
        )

    def passes(self, transaction: Transaction, now_ms: int) -> bool:
        """Return True if all filters except the pattern match."""
        record = transaction.record
        asks_states = bool(self.states or self.unknown_states)
        return (
            (not self.producer_ids or record.producer_id in self.producer_ids)
            and (not asks_states or record.state in self.states)
            and (self.duration_ms < 0 or now_ms - record.start_ms > self.duration_ms)
        )

    def matches(self, name: str) -> bool:
        """Return True if the pattern matches. Raise ApiError(INVALID_REGULAR_EXPRESSION) if it takes too long."""
        if self.pattern is None:
            return True
        try:
            return self.pattern.matches(name)
        except PatternError as error:
            raise _refused(self.pattern.text, error) from None


def _refused(pattern: str | None, error: PatternError) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r}: {error}")


def select(
    transactions: Iterable[Transaction], wanted: TransactionFilter, visible: VisibleTransactions, *, now_ms: int
) -> Iterator[ListedTransaction]:
    """Yield the transactions that match and are visible."""
    passing = {
        transaction.transactional_id: transaction.record
        for transaction in transactions
        if not is_being_removed(transaction) and wanted.passes(transaction, now_ms)
    }
    seen = visible(passing)
    for name, record in passing.items():
        if name in seen and wanted.matches(name):
            yield ListedTransaction(name, record)


def is_being_removed(transaction: Transaction) -> bool:
    return transaction.pending is not None and transaction.pending.state is TransactionState.DEAD
