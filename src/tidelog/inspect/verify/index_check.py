"""The check of a segment's ``.index``, ``.timeindex`` and ``.txnindex`` against its batch table.

An offset index entry (offset, position) is right if a batch begins at the position and the offset ends a batch there or
later. That batch must lie before the next entry's. A time index entry (timestamp, offset) is right if a batch with that
largest timestamp holds the offset, and no earlier batch has a larger one. For ``.txnindex`` see ``logged_aborts``. The
functions are pure. Source: the guarantees of Kafka's ``OffsetIndex``, ``TimeIndex`` and ``TransactionIndex``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from tidelog.inspect.verify.finding import Finding, Severity
from tidelog.inspect.verify.logged_aborts import LoggedAborts
from tidelog.kernel import BatchTable
from tidelog.model import IndexCorruptError
from tidelog.storage.index import OffsetIndexReader, TimeIndexReader, TransactionIndexReader

R = TypeVar("R", OffsetIndexReader, TimeIndexReader)

_MOST_ENTRIES = 20
"""The number of entries reported one by one: a broken index breaks all its entries."""


def check_offset_index(
    data: bytes, path: Path, base_offset: int, table: BatchTable, *, is_unflushed: bool
) -> list[Finding]:
    """Check an offset index. With ``is_unflushed``, zeros may follow the entries (preallocation), and entries may be
    missing."""
    reader, findings = _used_part(
        OffsetIndexReader(data, base_offset, path=path), data, path, is_unflushed=is_unflushed
    )
    offsets, positions = reader.entries()
    if not len(offsets):
        return findings
    if not len(table):
        return [*findings, _entry_finding(path, 0, reader.ENTRY_SIZE, "an entry, but the log has no batch", None)]
    row = np.searchsorted(table.position, positions)
    clipped = np.minimum(row, len(table) - 1)
    at_batch = (row < len(table)) & (table.position[clipped] == positions)
    ends = np.searchsorted(table.last_offset, offsets)
    clipped_end = np.minimum(ends, len(table) - 1)
    ends_batch = (ends < len(table)) & (table.last_offset[clipped_end] == offsets) & (ends >= row)
    ascending = np.ones(len(offsets), np.bool_)
    ascending[1:] = (np.diff(offsets) > 0) & (np.diff(positions) > 0)
    before_next = np.ones(len(offsets), np.bool_)
    before_next[:-1] = ends[:-1] < row[1:]
    for number in np.flatnonzero(~(at_batch & ends_batch & ascending & before_next)).tolist():
        if not at_batch[number]:
            reason = f"no batch begins at position {positions[number]}"
        elif not ascending[number]:
            reason = f"({offsets[number]}, {positions[number]}) does not ascend"
        else:
            reason = f"offset {offsets[number]} does not end the batch at position {positions[number]}"
        findings.append(_entry_finding(path, number, reader.ENTRY_SIZE, reason, int(offsets[number])))
    return _abridged(findings, path)


def check_time_index(
    data: bytes, path: Path, base_offset: int, table: BatchTable, *, is_unflushed: bool
) -> list[Finding]:
    """Check a time index. With ``is_unflushed``, zeros may follow the entries (preallocation), and entries may be
    missing."""
    reader, findings = _used_part(TimeIndexReader(data, base_offset, path=path), data, path, is_unflushed=is_unflushed)
    timestamps, offsets = reader.entries()
    if not len(offsets):
        return findings
    if not len(table):
        return [*findings, _entry_finding(path, 0, reader.ENTRY_SIZE, "an entry, but the log has no batch", None)]
    row = np.searchsorted(table.last_offset, offsets)
    clipped = np.minimum(row, len(table) - 1)
    largest = np.maximum.accumulate(table.max_timestamp)
    known = (row < len(table)) & (_first_offsets(table)[clipped] <= offsets)
    right = (
        known
        & (table.max_timestamp[clipped] == timestamps)
        & (largest[clipped] == timestamps)
        & (np.diff(timestamps, prepend=timestamps[:1] - 1) > 0)
    )
    for number in np.flatnonzero(~right).tolist():
        if not known[number]:
            reason = f"offset {offsets[number]} lies in no batch"
        else:
            reason = (
                f"timestamp {timestamps[number]} at offset {offsets[number]}, but up to there the largest is"
                f" {largest[row[number]]}"
            )
        findings.append(_entry_finding(path, number, reader.ENTRY_SIZE, reason, int(offsets[number])))
    findings += _last_timestamp(path, int(timestamps[-1]), table, is_unflushed=is_unflushed)
    return _abridged(findings, path)


def check_transaction_index(data: bytes, path: Path, shown: LoggedAborts, *, is_unflushed: bool) -> list[Finding]:
    """Check a transaction index. ``shown`` holds this segment's abort markers and the transactions they ended."""
    reader = TransactionIndexReader(data, 0, path=path)
    findings = []
    if len(data) % reader.ENTRY_SIZE:
        findings.append(Finding(path=path, message=f"{len(data)} bytes are not a multiple of {reader.ENTRY_SIZE}"))
    try:
        stored = list(reader)
    except IndexCorruptError as error:
        return [*findings, Finding.of(error, path)]
    found = set()
    for number, entry in enumerate(stored):
        reason = shown.contradiction(entry)
        if entry.last_offset in found:
            reason = f"a second entry for the marker at {entry.last_offset}"
        found.add(entry.last_offset)
        if reason is not None:
            findings.append(_entry_finding(path, number, reader.ENTRY_SIZE, reason, entry.last_offset))
    findings += [
        Finding(path=path, message=f"no entry for the transaction that producer {producer_id} aborted", offset=marker)
        for marker, producer_id in shown.must_have
        if marker not in found and not is_unflushed
    ]
    return _abridged(findings, path)


def _used_part(reader: R, data: bytes, path: Path, *, is_unflushed: bool) -> tuple[R, list[Finding]]:
    """Return the entries without an unflushed file's trailing zeros. A partial entry at the end is a finding."""
    findings = []
    if len(data) % reader.ENTRY_SIZE:
        message = f"{len(data)} bytes are not a multiple of the entry size {reader.ENTRY_SIZE}: the broker rebuilds it"
        findings.append(Finding(path=path, message=message))
    if not is_unflushed:
        return reader, findings
    used = len(data.rstrip(b"\0"))
    entries = -(-used // reader.ENTRY_SIZE)
    return type(reader)(data[: entries * reader.ENTRY_SIZE], reader.base_offset, path=path), findings


def _first_offsets(table: BatchTable) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return each row's first offset. A compressed v0/v1 set does not name it, so it begins after the previous row."""
    first = table.base_offset.copy()
    sets = np.flatnonzero((table.magic < 2) & (table.codec != 0))
    first[sets] = np.where(sets > 0, table.last_offset[np.maximum(sets - 1, 0)] + 1, 0)
    return first


def _last_timestamp(path: Path, last: int, table: BatchTable, *, is_unflushed: bool) -> Iterator[Finding]:
    largest = int(table.max_timestamp.max())
    if not is_unflushed and last < largest:
        yield Finding(
            path=path,
            message=f"ends with timestamp {last}, but the segment's largest is {largest}",
            severity=Severity.WARNING,
        )


def _entry_finding(path: Path, number: int, entry_size: int, reason: str, offset: int | None) -> Finding:
    return Finding(path=path, message=f"entry {number}: {reason}", position=number * entry_size, offset=offset)


def _abridged(findings: list[Finding], path: Path) -> list[Finding]:
    if len(findings) <= _MOST_ENTRIES:
        return findings
    rest = len(findings) - _MOST_ENTRIES
    return [*findings[:_MOST_ENTRIES], Finding(path=path, message=f"and {rest} more entries that contradict the log")]
