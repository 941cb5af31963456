"""The check of one segment's ``.log``: every header, every CRC, every record, and damage.

========================  ===============================================================================
check                     violation
========================  ===============================================================================
structure                 a length or magic that no batch can have; a batch truncated by the file's end, which
                          is only a warning at the end of a log after an unclean shutdown: a write was going on
checksum                  a CRC that differs from the CRC of the bytes
header                    negative or overflowing offsets and counts; more records than bytes
records                   a batch whose records do not decode (lengths, varints, deltas, codec, header keys)
order                     offsets that do not ascend, or lie outside the segment
leader epoch              an epoch below the one before it
========================  ===============================================================================

After damage, the check goes on at the next valid batch.

A batch with a right CRC whose records do not decode has a faulty producer, or damage with a forged checksum. Compiled
code walks the records without keeping them, so this check costs little more than the CRC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidelog import kernel
from tidelog.inspect.verify.finding import Finding, Severity
from tidelog.kernel import BatchRow, BatchTable, ColumnDecoder, Stop
from tidelog.model import CorruptRecordError, UnsupportedCompressionError
from tidelog.model.offsets import MAX_RELATIVE_OFFSET
from tidelog.record.decode import decode_chunk
from tidelog.storage.log.view.transaction_scan import TransactionRows, transaction_rows
from tidelog.storage.log.view.view_state import ValidatedSegment, stop_reason
from tidelog.storage.segment.read_ahead import read_ahead
from tidelog.storage.segment.resync import next_sound_batch
from tidelog.storage.segment.segment_reader import Chunk, SegmentReader

_OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck:
    """The findings in one ``.log``, and its batch table for the checks of the segment's other files."""

    findings: tuple[Finding, ...]
    table: BatchTable
    transactions: TransactionRows
    """The transactional rows of batches whose CRC is right."""
    legacy_end_offsets: bool
    """True if the table holds compressed v0/v1 sets, whose headers lack the first offset."""
    sound: ValidatedSegment | None
    """None if recovery would not accept the whole file as it is."""


def check_log(
    reader: SegmentReader, advance: Callable[[int], None], *, is_active: bool, ahead: bool = False
) -> LogCheck:
    """Read a whole ``.log``. ``advance`` receives the bytes read. Damage in one batch does not end the check.

    ``is_active`` marks the last segment of a log without a clean shutdown. With ``ahead``, a second thread reads ahead.
    """
    findings: list[Finding] = []
    tables: list[BatchTable] = []
    rows: list[TransactionRows] = []
    position, size = 0, reader.size
    while position < size:
        last: Chunk | None = None
        chunks = reader.chunks(position)
        for chunk in read_ahead(chunks) if ahead else chunks:
            last = chunk
            table = chunk.table
            advance(len(chunk.buffer) if table.stop is not Stop.PARTIAL else table.end_position - chunk.base_position)
            if not len(table):
                continue
            findings += _check_rows(reader, table)
            findings += undecodable_batches(chunk, reader.path)
            intact = table if table.summary.crcs_ok else table.take(table.crc_ok)
            rows.append(transaction_rows(chunk.buffer, intact, chunk.base_position))
            tables.append(table)
        position = size if last is None else last.table.end_position
        if last is None or last.table.stop is Stop.END:
            break
        resume = next_sound_batch(reader, position, None, 0, _OFFSET_MAX)
        findings.append(_damage(reader, last.table.stop, position, resume, is_active=is_active))
        if resume is None:
            break
        position = resume
    whole = BatchTable.concat(tables) if tables else kernel.scan_batches(b"")
    findings += _check_order(reader, whole)
    transactions = TransactionRows.concat(rows)
    return LogCheck(
        findings=tuple(sorted(findings, key=lambda finding: finding.position or 0)),
        table=whole,
        transactions=transactions,
        sound=_as_sound(reader, whole, transactions),
        legacy_end_offsets=bool(np.any((whole.magic < 2) & (whole.codec != 0))),
    )


def _as_sound(reader: SegmentReader, table: BatchTable, transactions: TransactionRows) -> ValidatedSegment | None:
    relative = table.last_offset - reader.base_offset
    whole = table.stop is Stop.END and table.end_position == int(table.size.sum(dtype=np.int64))
    if not whole or not (table.crc_ok & (relative >= 0) & (relative <= MAX_RELATIVE_OFFSET)).all():
        return None
    next_offset = int(table.last_offset[-1]) + 1 if len(table) else reader.base_offset
    return ValidatedSegment(size=table.end_position, next_offset=next_offset, transactions=transactions)


def _check_rows(reader: SegmentReader, table: BatchTable) -> Iterator[Finding]:
    if table.summary.sound:
        return
    for index in np.flatnonzero(~(table.crc_ok & table.header_ok)).tolist():
        row = table.row(index)
        if not row.crc_ok:
            follower = table.row(index + 1) if index + 1 < len(table) else None
            good = follower is not None and follower.crc_ok
            yield Finding(
                path=reader.path,
                message=f"the stored CRC {row.crc} of a batch of {row.size} bytes does not match its bytes",
                position=row.position,
                end_position=row.position + row.size,
                offset=row.base_offset,
                next_good_position=follower.position if follower and good else None,
                next_good_offset=follower.base_offset if follower and good else None,
            )
        else:
            offsets = f"offsets {row.base_offset} to {row.last_offset}"
            reason = f"a batch header contradicts itself: {offsets}, {row.record_count} records in {row.size} bytes"
            yield _finding(reader.path, row, reason)


def _check_order(reader: SegmentReader, table: BatchTable) -> Iterator[Finding]:
    """Check that offsets ascend and lie in the segment, and that leader epochs do not decrease."""
    base = reader.base_offset
    outside = (table.last_offset < base) | (table.last_offset - base > MAX_RELATIVE_OFFSET) | (table.base_offset < base)
    for index in np.flatnonzero(outside).tolist():
        row = table.row(index)
        reason = f"offsets {row.base_offset} to {row.last_offset} lie outside the segment that begins at {base}"
        yield _finding(reader.path, row, reason)
    for index in (np.flatnonzero(table.base_offset[1:] <= table.last_offset[:-1]) + 1).tolist():
        row = table.row(index)
        reason = f"a batch begins at offset {row.base_offset}, the last ended at {table.last_offset[index - 1]}"
        yield _finding(reader.path, row, reason)
    epochs = table.leader_epoch
    for index in (np.flatnonzero(epochs[1:] < epochs[:-1]) + 1).tolist():
        row = table.row(index)
        reason = f"leader epoch {row.leader_epoch} follows {epochs[index - 1]}: epochs never fall"
        yield _finding(reader.path, row, reason)


def _finding(path: Path, row: BatchRow, message: str) -> Finding:
    """Return a finding about a complete batch."""
    end = row.position + row.size
    return Finding(path=path, message=message, position=row.position, end_position=end, offset=row.base_offset)


def _damage(reader: SegmentReader, stop: Stop, position: int, resume: int | None, *, is_active: bool) -> Finding:
    rest = reader.size - position
    tail = bytes(reader.read(position, min(rest, 1024 * 1024)))
    severity = Severity.WARNING if is_active else Severity.ERROR
    if resume is None and not any(tail):
        message = f"{rest} bytes of zeros follow the last batch, as preallocation or a lost write leaves them"
        return Finding(
            path=reader.path, message=message, severity=severity, position=position, end_position=reader.size
        )
    if resume is None and is_active and stop is Stop.PARTIAL:
        message = f"the last {rest} bytes are an incomplete batch, as an interrupted write leaves it"
        return Finding(
            path=reader.path, message=message, severity=severity, position=position, end_position=reader.size
        )
    return Finding(
        path=reader.path,
        message=f"no batch can be read here, {rest} bytes before the end of the file: {stop_reason(stop)}",
        position=position,
        end_position=reader.size if resume is None else resume,
        next_good_position=resume,
        next_good_offset=None if resume is None else int.from_bytes(reader.read(resume, 8), "big"),
    )


def undecodable_batches(chunk: Chunk, path: Path) -> Iterator[Finding]:
    """Yield one finding per batch. Batches with a bad CRC or header are left out: they have a finding already."""
    table = chunk.table
    if not table.summary.sound:
        table = table.take(table.crc_ok & table.header_ok)
    row = 0
    while row < len(table):
        decoder = ColumnDecoder(keys=False, values=False, headers=False)
        try:
            row = decode_chunk(chunk.buffer, table, decoder, base_position=chunk.base_position, first=row)
        except (CorruptRecordError, UnsupportedCompressionError) as error:
            after = _row_after(table.position, error.position, row)
            bad = table.row(after - 1)
            yield Finding(
                path=path,
                message=error.message,
                position=error.position,
                end_position=bad.position + bad.size,
                offset=error.offset,
            )
            row = after


def _row_after(positions: np.ndarray[tuple[int, ...], np.dtype[np.int64]], position: int | None, row: int) -> int:
    """Return the row after the batch that holds ``position``, and at least the next row, whatever the error says."""
    if position is None:
        return row + 1
    return max(row + 1, int(np.searchsorted(positions, position, side="right")))
