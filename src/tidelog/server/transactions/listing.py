"""What is told of transactions: one by its name, or all that pass the filters.

=================  ===================================================================================================
filter             passes a transactional id
=================  ===================================================================================================
states             in one of these states; names that no state has are told back, and pass nothing
producer ids       of one of these producers
duration           whose last transaction began more than so many ms ago; below 0: not asked
pattern            whose whole name matches the regular expression (KIP-1152); empty: not asked
=================  ===================================================================================================

An empty filter passes all. One that is being forgotten is not told of. The pattern comes last, and is matched with
what the client may see only: that it takes too long would tell of the other names. Pure.
Source: Kafka's ``TransactionStateManager.listTransactionStates``, ``TransactionCoordinator``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal.transaction_state import STATES_BY_LABEL, TransactionState
from tidelog.server.groups.consumer.pattern.syntax import PatternError
from tidelog.server.groups.consumer.pattern.topic_pattern import TopicPattern
from tidelog.server.transactions.rules.transaction import Transaction, TransactionRecord

VisibleTransactions = Callable[[Iterable[str]], Collection[str]]
"""Those of transactional ids that the client may see."""


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
        """ApiError INVALID_REGULAR_EXPRESSION."""
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
        """All filters but the pattern."""
        record = transaction.record
        asks_states = bool(self.states or self.unknown_states)
        return (
            (not self.producer_ids or record.producer_id in self.producer_ids)
            and (not asks_states or record.state in self.states)
            and (self.duration_ms < 0 or now_ms - record.start_ms > self.duration_ms)
        )

    def matches(self, name: str) -> bool:
        """The pattern. ApiError INVALID_REGULAR_EXPRESSION for one that takes too long."""
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
    """Those that pass and may be seen."""
    passing = {
        transaction.transactional_id: transaction.record
        for transaction in transactions
        if not is_being_forgotten(transaction) and wanted.passes(transaction, now_ms)
    }
    seen = visible(passing)
    for name, record in passing.items():
        if name in seen and wanted.matches(name):
            yield ListedTransaction(name, record)


def is_being_forgotten(transaction: Transaction) -> bool:
    return transaction.pending is not None and transaction.pending.state is TransactionState.DEAD
