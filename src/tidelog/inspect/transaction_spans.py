"""The transactions that touch a part of a log, as spans of offsets. Pure.

==========  ==============================================================  ==========================================
state       source                                                          the span ends with
==========  ==============================================================  ==========================================
aborted     the transaction indexes, and the batches after them             its marker
open        the producers at the log end                                    its last batch in the part
committed   the batches of the part: no file lists committed transactions   its marker, or the end of the part
==========  ==============================================================  ==========================================

A committed transaction may begin before the part or end after it, and then ``is_partial`` is set. If all of its data
lies before the part, it is left out.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tidelog.inspect.batch_window import BatchWindow
from tidelog.storage.log.view.transaction_scan import DATA, AbortedRanges, scan_transactions


class SpanState(enum.StrEnum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSpan:
    """Offsets are inclusive. The last one is the marker's, unless the transaction is open or ``is_partial``."""

    producer_id: int
    state: SpanState
    first_offset: int
    last_offset: int
    is_partial: bool = False


def spans_of(window: BatchWindow, aborted: AbortedRanges, open_: Mapping[int, int]) -> list[TransactionSpan]:
    """Return the transactions that touch the window, by first offset. ``open_`` has the first offset of the open
    transaction by producer id."""
    found = [
        *_aborted(aborted.touching(window.start, window.end)),
        *_open(window, open_),
        *_committed(window, aborted, open_),
    ]
    return sorted(found, key=lambda span: (span.first_offset, span.last_offset))


def _aborted(ranges: AbortedRanges) -> Iterator[TransactionSpan]:
    columns = (ranges.producer_id.tolist(), ranges.first_offset.tolist(), ranges.last_offset.tolist())
    for producer_id, first, last in zip(*columns, strict=True):
        yield TransactionSpan(producer_id=producer_id, state=SpanState.ABORTED, first_offset=first, last_offset=last)


def _open(window: BatchWindow, open_: Mapping[int, int]) -> Iterator[TransactionSpan]:
    rows = window.transactions
    for producer_id, first in open_.items():
        if first >= window.end:
            continue
        own = (rows.producer_id == producer_id) & (rows.kind == DATA) & (rows.base_offset >= first)
        last = int(rows.last_offset[own].max()) if own.any() else first
        yield TransactionSpan(producer_id=producer_id, state=SpanState.OPEN, first_offset=first, last_offset=last)


def _committed(window: BatchWindow, aborted: AbortedRanges, open_: Mapping[int, int]) -> Iterator[TransactionSpan]:
    rows = window.transactions
    scan = scan_transactions(rows, {})
    seen: set[int] = set()
    done = scan.completed
    columns = (done.producer_id.tolist(), done.first_offset.tolist(), done.last_offset.tolist(), done.aborted.tolist())
    for producer_id, first, last, is_aborted in zip(*columns, strict=True):
        is_partial = producer_id not in seen and not window.is_first and _is_first_row(window, producer_id, first)
        seen.add(producer_id)
        if not is_aborted:
            yield TransactionSpan(
                producer_id=producer_id,
                state=SpanState.COMMITTED,
                first_offset=first,
                last_offset=last,
                is_partial=is_partial,
            )
    ends_later = aborted.touching(window.end, window.end + 1)
    aborted_later = set(ends_later.producer_id.tolist())
    for producer_id, first in scan.open.items():
        if (producer_id in open_ and open_[producer_id] <= first) or producer_id in aborted_later:
            continue
        own = (rows.producer_id == producer_id) & (rows.base_offset >= first)
        yield TransactionSpan(
            producer_id=producer_id,
            state=SpanState.COMMITTED,
            first_offset=first,
            last_offset=int(rows.last_offset[own].max()),
            is_partial=True,
        )


def _is_first_row(window: BatchWindow, producer_id: int, first_offset: int) -> bool:
    """Return True if the producer has no row before this offset in the window, so the transaction may begin earlier."""
    rows = window.transactions
    own = np.flatnonzero(rows.producer_id == producer_id)
    return bool(len(own)) and int(rows.base_offset[own[0]]) == first_offset
