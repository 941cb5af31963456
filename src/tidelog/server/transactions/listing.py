"""What is told of transactions: one by its name, or all that pass the filters.

=================  ===================================================================================================
filter             passes a transactional id
=================  ===================================================================================================
states             in one of these states; names that no state has are told back, and pass nothing
producer ids       of one of these producers
duration           whose last transaction began more than so many ms ago; below 0: not asked
pattern            whose whole name matches the regular expression (KIP-1152); empty: not asked
=================  ===================================================================================================

An empty filter passes all. One that is being forgotten is not told of. Pure.
Source: Kafka's ``TransactionStateManager.listTransactionStates``, ``TransactionCoordinator``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal.transaction_state import STATES_BY_LABEL, TransactionState
from tidelog.server.groups.consumer.pattern.syntax import PatternError
from tidelog.server.groups.consumer.pattern.topic_pattern import TopicPattern
from tidelog.server.transactions.rules.transaction import Transaction, TransactionRecord


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
        """ApiError INVALID_REGULAR_EXPRESSION for one that takes too long."""
        record = transaction.record
        asks_states = bool(self.states or self.unknown_states)
        return (
            (not self.producer_ids or record.producer_id in self.producer_ids)
            and (not asks_states or record.state in self.states)
            and (self.duration_ms < 0 or now_ms - record.start_ms > self.duration_ms)
            and (self.pattern is None or _matches(self.pattern, transaction.transactional_id))
        )


def _matches(pattern: TopicPattern, name: str) -> bool:
    try:
        return pattern.matches(name)
    except PatternError as error:
        raise _refused(pattern.text, error) from None


def _refused(pattern: str | None, error: PatternError) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r}: {error}")


def select(
    transactions: Iterable[Transaction], wanted: TransactionFilter, *, now_ms: int
) -> Iterator[ListedTransaction]:
    """Those that pass."""
    for transaction in transactions:
        if not is_being_forgotten(transaction) and wanted.passes(transaction, now_ms):
            yield ListedTransaction(transaction.transactional_id, transaction.record)


def is_being_forgotten(transaction: Transaction) -> bool:
    return transaction.pending is not None and transaction.pending.state is TransactionState.DEAD
