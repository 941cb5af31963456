"""The check of batches that this process appends itself; ``append_validation`` checks those of others.

One compiled pass (``kernel.validate_batches``) checks v2 batches and sets offsets, leader epoch and timestamps.
Compressed batches are decompressed here, before the lock is taken: the same rules apply to their records.
Source: Kafka's ``LogValidator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidelog.kernel import BatchTable, Problem, Validation, scan_batches, validate_records
from tidelog.model import CorruptRecordError, InvalidRecordError, RecordTooLargeError, TidelogError
from tidelog.record.attributes import CODEC_MASK, CONTROL_FLAG
from tidelog.record.batch_header import CURRENT_MAGIC, PREFIX_BYTES, V2_HEADER, V2_HEADER_BYTES
from tidelog.record.compression import decompress
from tidelog.record.record_size import require_records
from tidelog.storage.log.append.append_rules import AppendRules

if TYPE_CHECKING:
    from typing_extensions import Buffer


def check_own(buffer: bytearray, rules: AppendRules, now_ms: int, *, built_here: bool) -> tuple[int, bool]:
    """Return the largest batch's size, and True if it is the only one, without a producer and not to be decompressed.

    ``built_here`` means that compressed batches need no check. Raise CorruptRecordError for a partial batch, and the
    errors of ``raise_for`` and ``require_records``.
    """
    if len(buffer) >= V2_HEADER_BYTES:
        _, length, _, magic, _, attributes, _, _, _, producer_id, _, _, _ = V2_HEADER.unpack_from(buffer)
        is_bare = magic == CURRENT_MAGIC and producer_id < 0 and length == len(buffer) - PREFIX_BYTES
        if is_bare and (built_here or not attributes & (CODEC_MASK | CONTROL_FLAG)):
            return len(buffer), True
    table = scan_batches(buffer, verify_crc=False)
    if table.end_position != len(buffer):
        raise CorruptRecordError("the last batch is partial or malformed", position=table.end_position)
    if not built_here:
        _check_compressed(buffer, table, rules, now_ms)
    return (int(table.size.max()) if len(table) else 0), False


def _check_compressed(buffer: Buffer, table: BatchTable, rules: AppendRules, now_ms: int) -> None:
    """Check the records of compressed batches. Raise the errors of ``raise_for`` and ``require_records``."""
    view = memoryview(buffer).cast("B")
    for number in np.flatnonzero((table.codec != 0) & (table.magic == 2)).tolist():
        row = table.row(number)
        payload = decompress(row.attributes & 7, view[row.position + V2_HEADER_BYTES : row.position + row.size])
        require_records(payload, rules.max_record_bytes)
        raise_for(
            validate_records(
                payload,
                rules.of_owner,
                now_ms,
                base_offset=row.base_offset,
                base_timestamp=row.base_timestamp,
                max_timestamp=row.max_timestamp,
                attributes=row.attributes,
                record_count=row.record_count,
            )
        )


def raise_for(validation: Validation) -> None:
    """Raise CorruptRecordError, RecordTooLargeError or InvalidRecordError unless the validation found no problem."""
    problem = validation.problem
    if problem is Problem.NONE:
        return
    sentence = problem.sentence
    if problem is Problem.CORRUPT:
        sentence = f"{sentence}: {validation.fault.sentence}"
    if validation.record_index >= 0:
        sentence = f"{sentence} (record {validation.record_index} of its batch)"
    raise _error_type(problem)(sentence)


def _error_type(problem: Problem) -> type[TidelogError]:
    by_code: dict[int, type[TidelogError]] = {
        CorruptRecordError.code: CorruptRecordError,
        RecordTooLargeError.code: RecordTooLargeError,
    }
    return by_code.get(problem.error_code, InvalidRecordError)
