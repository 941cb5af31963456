"""The inputs of the cleaner's filter (the decision for each batch, the rules) and its result."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Retention(enum.IntEnum):
    """The rule for keeping a batch (Kafka's ``BatchRetention``)."""

    DELETE = 0
    """Remove the batch without reading its records."""
    DELETE_EMPTY = 1
    """Keep the batch if it keeps a record."""
    RETAIN_EMPTY = 2
    """Keep the batch, as a header without records if it keeps none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchRetention:
    """The decisions for a table's batches, a row per batch."""

    retention: npt.NDArray[np.uint8]
    """The ``Retention`` of each batch."""
    discard: npt.NDArray[np.bool_]
    """True if all its records are removed: aborted data, or a marker whose delete horizon has passed."""
    ends_empty_transaction: npt.NDArray[np.bool_]
    """True for a marker whose transaction has no records left: it gets a delete horizon if it has none."""

    def take(self, rows: slice) -> BatchRetention:
        return BatchRetention(
            retention=self.retention[rows],
            discard=self.discard[rows],
            ends_empty_transaction=self.ends_empty_transaction[rows],
        )


class CleaningRules(NamedTuple):
    """The time of a clean, and its deletion rules."""

    now_ms: int
    delete_retention_ms: int
    """The time from the first clean of a tombstone or marker to its delete horizon."""
    retain_legacy_deletes: bool = True
    """True if tombstones of format v0 and v1, which have no delete horizon, stay."""


class FilteredBatches(NamedTuple):
    """The result of ``filter_batches``."""

    data: Buffer
    """Complete v2 batches, back to back. A batch to be compressed has its codec's number, but plain records."""
    unpacked: npt.NDArray[np.int64]
    """A row for each batch to be compressed: its start and its end in ``data``."""
    records_read: int
    """The records of all batches except those of ``Retention.DELETE``."""
    records_kept: int
    invalid_records: int
    """Records that were removed because they have no key."""
