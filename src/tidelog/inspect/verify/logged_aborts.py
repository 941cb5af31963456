"""Aborted transactions as the log itself shows them, for comparison with the ``.txnindex``.

An entry (producer, first, last, last stable offset) must name the abort marker at ``last`` and its producer. If no
offset is missing from the log (no compaction), two more rules hold. The first offset must be the transaction's first
batch. The last stable offset must be the first offset of the earliest transaction still open when the marker was
written, or the offset after the marker. A compacted log loses the data of aborted transactions before their markers, so
only bounds can be checked there. The start of a transaction is unknown if it began before the log's first batch.

The functions are pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tidelog.storage.index.transaction_index import AbortedTxn
from tidelog.storage.log.view.transaction_scan import ABORT, TransactionRows, scan_transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedAborts:
    """The aborts that one segment shows. Keys are offsets of abort markers."""

    producers: dict[int, int] = field(default_factory=dict)
    transactions: dict[int, AbortedTxn] = field(default_factory=dict)
    """The transactions whose data the log still has."""
    first_known: int = 0
    """The log's first offset. A transaction that begins below it may have begun at any lower offset."""
    exact: bool = True
    """True if no offset is missing from the log."""

    @property
    def must_have(self) -> list[tuple[int, int]]:
        """The (marker, producer id) pairs of the aborts that an index must list."""
        return [(marker, entry.producer_id) for marker, entry in self.transactions.items()]

    def contradiction(self, entry: AbortedTxn) -> str | None:
        """Return a clause that describes the error in an index entry, or None if the entry is right."""
        producer_id = self.producers.get(entry.last_offset)
        if producer_id != entry.producer_id:
            return f"no abort marker of producer {entry.producer_id} at offset {entry.last_offset}"
        if (
            not 0 <= entry.first_offset < entry.last_offset
            or not 0 <= entry.last_stable_offset <= entry.last_offset + 1
        ):
            return (
                f"offsets {entry.first_offset} to {entry.last_offset} and the last stable offset"
                f" {entry.last_stable_offset} do not fit together"
            )
        shown = self.transactions.get(entry.last_offset)
        if not self.exact or shown is None:
            return None
        if shown.first_offset != entry.first_offset and min(shown.first_offset, entry.first_offset) >= self.first_known:
            return f"the transaction began at {shown.first_offset}, not at {entry.first_offset}"
        if (
            shown.last_stable_offset != entry.last_stable_offset
            and min(shown.last_stable_offset, entry.last_stable_offset) >= self.first_known
        ):
            return f"the last stable offset was {shown.last_stable_offset}, not {entry.last_stable_offset}"
        return None


def logged_aborts(
    rows: TransactionRows, bounds: Iterable[tuple[int, int]], *, first_known: int, exact: bool
) -> list[LoggedAborts]:
    """Return one result for each segment. ``bounds`` are the segments' offsets ``[start, end)``. ``rows`` cover the
    whole log."""
    scan = scan_transactions(rows, {})
    completed = scan.completed
    spans = list(
        zip(
            completed.producer_id.tolist(),
            completed.first_offset.tolist(),
            completed.last_offset.tolist(),
            completed.aborted.tolist(),
            strict=True,
        )
    )
    stable = _stable_offsets([(first, last) for _, first, last, _ in spans], list(scan.open.values()))
    aborted = [
        AbortedTxn(producer_id, first, last, stable[last]) for producer_id, first, last, is_abort in spans if is_abort
    ]
    marker_rows = np.flatnonzero(rows.kind == ABORT)
    markers = dict(zip(rows.last_offset[marker_rows].tolist(), rows.producer_id[marker_rows].tolist(), strict=True))
    return [
        LoggedAborts(
            producers={marker: producer for marker, producer in markers.items() if start <= marker < end},
            transactions={entry.last_offset: entry for entry in aborted if start <= entry.last_offset < end},
            first_known=first_known,
            exact=exact,
        )
        for start, end in bounds
    ]


def _stable_offsets(spans: list[tuple[int, int]], still_open: list[int]) -> dict[int, int]:
    """Return the last stable offset after each marker: the earliest first offset still open, or the next offset."""
    begins = sorted([*spans, *((first, 2**63) for first in still_open)])
    heap: list[tuple[int, int]] = []
    result: dict[int, int] = {}
    at = 0
    for _, last in sorted(spans, key=lambda span: span[1]):
        while at < len(begins) and begins[at][0] < last:
            heapq.heappush(heap, begins[at])
            at += 1
        while heap and heap[0][1] <= last:
            heapq.heappop(heap)
        result[last] = heap[0][0] if heap else last + 1
    return result
