"""The transactions of a log that limit its last stable offset. Pure.

States of a transaction: *ongoing* (data, no marker) -> *unreplicated* (its marker lies at or above the high watermark)
-> gone. Thread rule: the caller holds the partition's lock. Source: Kafka's ``ProducerStateManager`` (KIP-98).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model import InvalidTransactionStateError, LogOffsetMetadata
from tidelog.storage.producer.append_info import CompletedTransaction


@dataclass(slots=True)
class OpenTransaction:
    producer_id: int
    first_offset: LogOffsetMetadata
    last_offset: int | None = None
    """The marker's offset; None while the transaction is ongoing."""


class Transactions:
    """The ongoing and the unreplicated transactions, two maps by first offset."""

    def __init__(self) -> None:
        self._ongoing: dict[int, OpenTransaction] = {}
        self._unreplicated: dict[int, OpenTransaction] = {}

    @property
    def ongoing(self) -> list[OpenTransaction]:
        """The ongoing transactions, ascending by first offset."""
        return [self._ongoing[offset] for offset in sorted(self._ongoing)]

    @property
    def first_ongoing(self) -> OpenTransaction | None:
        return self._ongoing[min(self._ongoing)] if self._ongoing else None

    @property
    def has_unreplicated(self) -> bool:
        return bool(self._unreplicated)

    @property
    def is_empty(self) -> bool:
        """True if no transaction limits the last stable offset."""
        return not self._ongoing and not self._unreplicated

    def begin(self, producer_id: int, first_offset: LogOffsetMetadata) -> None:
        self._ongoing[first_offset.message_offset] = OpenTransaction(producer_id, first_offset)

    def complete(self, completed: CompletedTransaction) -> None:
        """Move a transaction to the unreplicated ones. Raise InvalidTransactionStateError if it is not ongoing."""
        transaction = self._ongoing.pop(completed.first_offset, None)
        if transaction is None:
            raise InvalidTransactionStateError(
                f"the transaction of producer {completed.producer_id} that a marker at {completed.last_offset} ends"
                f" was not begun",
                offset=completed.first_offset,
            )
        transaction.last_offset = completed.last_offset
        self._unreplicated[completed.first_offset] = transaction

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset after this transaction: the next open one's first offset, or the log's end."""
        others = [at for at, open_ in self._ongoing.items() if open_.producer_id != completed.producer_id]
        return min(others, default=completed.last_offset + 1)

    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        """Return the first offset of the earliest transaction that is open or whose marker is not replicated."""
        firsts = [min(transactions) for transactions in (self._ongoing, self._unreplicated) if transactions]
        if not firsts:
            return None
        first = min(firsts)
        return (self._unreplicated.get(first) or self._ongoing[first]).first_offset

    def drop_unreplicated(self, offset: int) -> None:
        """Forget the ended transactions with a marker below ``offset`` (the high watermark or the log start offset)."""
        if not self._unreplicated:
            return
        self._unreplicated = {
            first: transaction
            for first, transaction in self._unreplicated.items()
            if transaction.last_offset is None or transaction.last_offset >= offset
        }

    def clear(self) -> None:
        self._ongoing.clear()
        self._unreplicated.clear()
