"""The states of a transaction: numbers in ``__transaction_state``, names for people and tools.

Source: Kafka's ``TransactionState`` (KIP-98, KIP-890). Pure; any thread.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class TransactionState(enum.IntEnum):
    EMPTY = 0
    """No transaction yet since the producer came."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """Decided: markers are being written."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Expired: a record without a value is being written."""
    PREPARE_EPOCH_FENCE = 7
    """The producer is being fenced off, its transaction aborted: on the way to PREPARE_ABORT, in no record."""

    @property
    def label(self) -> str:
        """Kafka's name of it, such as ``PrepareCommit``."""
        return _LABELS[self]


_LABELS: Final = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATES_BY_LABEL: Final[Mapping[str, TransactionState]] = {label: state for state, label in _LABELS.items()}
