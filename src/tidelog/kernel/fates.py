"""What the cleaner's filter is told of each batch and of its time, and what it gives back."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Retention(enum.IntEnum):
    """What becomes of a batch (Kafka's ``BatchRetention``)."""

    DELETE = 0
    """It goes; its records are not looked at."""
    DELETE_EMPTY = 1
    """It stays while a record of it stays."""
    RETAIN_EMPTY = 2
    """It stays, as a header without records where none stays."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchFates:
    """One row a batch of a table."""

    retention: npt.NDArray[np.uint8]
    """A ``Retention``."""
    discard: npt.NDArray[np.bool_]
    """All of its records go: aborted data, or a marker whose delete horizon has passed."""
    ends_empty_transaction: npt.NDArray[np.bool_]
    """A marker of a transaction that has no records left: it gets a delete horizon where it has none."""

    def take(self, rows: slice) -> BatchFates:
        return BatchFates(
            retention=self.retention[rows],
            discard=self.discard[rows],
            ends_empty_transaction=self.ends_empty_transaction[rows],
        )


class CleaningRules(NamedTuple):
    """The time of a clean, and what is deleted at that time."""

    now_ms: int
    delete_retention_ms: int
    """A tombstone or marker that is seen for the first time may go that much after ``now_ms``."""
    retain_legacy_deletes: bool = True
    """Whether tombstones of format v0 and v1, which have no delete horizon, stay."""


class FilteredBatches(NamedTuple):
    """What ``filter_batches`` kept."""

    data: Buffer
    """Whole v2 batches back to back; those that are to be compressed have their codec's number, but plain records."""
    unpacked: npt.NDArray[np.int64]
    """A row for each batch to be compressed: where it begins in ``data`` and where it ends."""
    records_read: int
    """Records of all batches but those of ``Retention.DELETE``."""
    records_kept: int
    invalid_records: int
    """Records without a key, dropped for that."""
