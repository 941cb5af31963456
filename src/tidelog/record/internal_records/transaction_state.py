"""The states of a transaction: numbers in ``__transaction_state``, names for people and tools.

Pure. Thread rule: any thread. Source: Kafka's ``TransactionState`` (KIP-98, KIP-890).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class TransactionState(enum.IntEnum):
    EMPTY = 0
    """The producer has not begun a transaction yet."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """The commit is decided, and its markers are being written."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The producer expired, and a record without a value is being written."""
    PREPARE_EPOCH_FENCE = 7
    """The producer is being fenced and its transaction aborted; the next state is PREPARE_ABORT. No record has this."""

    @property
    def label(self) -> str:
        """Kafka's name of the state, such as ``PrepareCommit``."""
        return _LABELS[self]


_LABELS: Final = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATES_BY_LABEL: Final[Mapping[str, TransactionState]] = {label: state for state, label in _LABELS.items()}
