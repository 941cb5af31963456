"""The check of what this process appends of its own; what others send is for ``append_validation``.

One compiled pass (``kernel.validate_batches``) checks v2 batches and gives them offsets, leader epoch and timestamps.
Compressed batches are opened here, before the lock is taken: their records obey the same rules.
Called by: PartitionLog. Source: Kafka's ``LogValidator``.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from tidelog.kernel import BatchTable, Problem, Validation, scan_batches, validate_records
from tidelog.model import CorruptRecordError, InvalidRecordError, RecordTooLargeError, TidelogError
from tidelog.record.attributes import CODEC_MASK, CONTROL_FLAG
from tidelog.record.compression import decompress
from tidelog.record.record_size import require_records
from tidelog.storage.log.append.append_rules import AppendRules

if TYPE_CHECKING:
    from typing_extensions import Buffer

_HEADER = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer id and
epoch, base sequence, record count."""
_HEADER_BYTES = _HEADER.size
_PREFIX_BYTES = 12
_MAGIC = 2


def check_own(buffer: bytearray, rules: AppendRules, now_ms: int, *, built_here: bool) -> tuple[int, bool]:
    """Size of the largest batch, and whether it is one plain batch: no producer, nothing to open.

    ``built_here``: what is compressed need not be opened. CorruptRecordError for a cut batch; raises as ``raise_for``
    and ``require_records``.
    """
    if len(buffer) >= _HEADER.size:
        _, length, _, magic, _, attributes, _, _, _, producer_id, _, _, _ = _HEADER.unpack_from(buffer)
        plain = magic == _MAGIC and producer_id < 0 and (built_here or not attributes & (CODEC_MASK | CONTROL_FLAG))
        if plain and length == len(buffer) - _PREFIX_BYTES:
            return len(buffer), True
    table = scan_batches(buffer, verify_crc=False)
    if table.end_position != len(buffer):
        raise CorruptRecordError("the last batch is cut or malformed", position=table.end_position)
    if not built_here:
        _check_compressed(buffer, table, rules, now_ms)
    return (int(table.size.max()) if len(table) else 0), False


def _check_compressed(buffer: Buffer, table: BatchTable, rules: AppendRules, now_ms: int) -> None:
    """The records of the compressed batches in ``buffer``; raises as ``raise_for`` and ``require_records``."""
    view = memoryview(buffer).cast("B")
    for number in np.flatnonzero((table.codec != 0) & (table.magic == 2)).tolist():
        row = table.row(number)
        payload = decompress(row.attributes & 7, view[row.position + _HEADER_BYTES : row.position + row.size])
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
    """Nothing where it is sound; else CorruptRecordError, RecordTooLargeError or InvalidRecordError."""
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
