"""Produce validation in place. This is the twin of _validate.pyx; the contract is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kernel.reference.checksums import crc32c
from kernel.reference.record_reader import FaultError, read_records
from kernel.reference.scan import HEADER_UP_TO_MAGIC, PREFIX, SMALLEST_LENGTH, SMALLEST_RECORD, V2_HEADER
from kernel.reference.wrap import wrap64
from tidelog.kernel.faults import Fault
from tidelog.kernel.problems import Problem

if TYPE_CHECKING:
    from typing_extensions import Buffer

_INT32_LIMIT: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_LOG_APPEND: Final = 8
_CONTROL: Final = 32
_KEPT_BITS: Final = 0x77
_NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRules:
    log_append_time: bool = False
    before_max_ms: int = _LONG_MAX
    after_max_ms: int = _LONG_MAX
    max_batch_bytes: int = _INT32_LIMIT
    require_keys: bool = False
    from_client: bool = True
    single_batch: bool = False


@dataclass(slots=True)
class Validation:
    first_offset: int
    record_count: int = 0
    batch_count: int = 0
    size: int = 0
    max_timestamp: int = _NO_TIMESTAMP
    offset_of_max_timestamp: int = -1
    last_offset_of_max_batch: int = -1
    needs_decompression: bool = False
    problem: Problem = Problem.NONE
    fault: Fault = Fault.NONE
    record_index: int = -1

    @property
    def last_offset(self) -> int:
        return self.first_offset + self.record_count - 1

    def __bool__(self) -> bool:
        return self.problem is Problem.NONE


class _RefusedError(Exception):
    def __init__(self, problem: Problem, fault: Fault = Fault.NONE, record_index: int = -1) -> None:
        super().__init__(problem.sentence)
        self.problem = problem
        self.fault = fault
        self.record_index = record_index


class _Fields(NamedTuple):
    base_timestamp: int
    max_timestamp: int
    attributes: int
    record_count: int


def validate_batches(
    buffer: Buffer, rules: ProduceRules, next_offset: int, leader_epoch: int, now_ms: int
) -> Validation:
    view = memoryview(buffer).cast("B")
    if view.readonly:
        raise BufferError("the buffer is not writable")
    if next_offset < 0:
        raise ValueError(f"offset {next_offset} is negative")
    validation = Validation(next_offset)
    try:
        while (size := _next_size(view, validation.size)) is not None:
            batch = view[validation.size : validation.size + size]
            _take_batch(batch, rules, leader_epoch, now_ms, validation)
    except _RefusedError as refused:
        _note(validation, refused)
    return validation


def _note(validation: Validation, refused: _RefusedError) -> None:
    validation.problem = refused.problem
    validation.fault = refused.fault
    validation.record_index = refused.record_index


def _next_size(view: memoryview, start: int) -> int | None:
    """Return the bytes of the v2 batch at ``start``; None if no complete batch is left."""
    left = len(view) - start
    if left <= HEADER_UP_TO_MAGIC:
        return None
    length = int.from_bytes(view[start + 8 : start + 12], "big", signed=True)
    magic = view[start + 16]
    if length < SMALLEST_LENGTH[0]:
        raise _RefusedError(Problem.CORRUPT, Fault.SIZE)
    if length > left - PREFIX:
        return None
    if magic > 2:
        raise _RefusedError(Problem.CORRUPT, Fault.MAGIC)
    if magic < 2:
        raise _RefusedError(Problem.OLD_FORMAT)
    if length < SMALLEST_LENGTH[2]:
        raise _RefusedError(Problem.CORRUPT, Fault.SIZE)
    return PREFIX + length


def _take_batch(batch: memoryview, rules: ProduceRules, leader_epoch: int, now_ms: int, validation: Validation) -> None:
    fields = _check_header(batch, rules, validation.batch_count)
    base_offset = validation.first_offset + validation.record_count
    if fields.record_count > _LONG_MAX - base_offset:
        raise _RefusedError(Problem.OFFSET_RANGE)
    compressed = bool(fields.attributes & 7)
    if compressed:
        validation.needs_decompression = True
        max_timestamp, index_of_max = fields.max_timestamp, fields.record_count - 1
    else:
        max_timestamp, index_of_max = _check_records(bytes(batch[V2_HEADER.size :]), fields, rules, now_ms)
    batch[0:8] = base_offset.to_bytes(8, "big")
    batch[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
    if rules.log_append_time:
        max_timestamp, index_of_max = now_ms, 0
    if rules.log_append_time or not compressed:
        set_max_timestamp(batch, max_timestamp, rules.log_append_time)
    if max_timestamp > validation.max_timestamp:
        validation.max_timestamp = max_timestamp
        validation.offset_of_max_timestamp = base_offset + index_of_max
        validation.last_offset_of_max_batch = base_offset + fields.record_count - 1
    validation.record_count += fields.record_count
    validation.batch_count += 1
    validation.size += len(batch)


def _check_header(batch: memoryview, rules: ProduceRules, batches_before: int) -> _Fields:
    fields = V2_HEADER.unpack_from(batch)
    base_offset, crc, attributes, delta, base_timestamp, max_timestamp = fields[0], *fields[4:9]
    producer_id, _, base_sequence, count = fields[9:]
    if rules.single_batch and batches_before:
        raise _RefusedError(Problem.MANY_BATCHES)
    if rules.from_client and base_offset != 0:
        raise _RefusedError(Problem.BASE_OFFSET)
    if len(batch) > rules.max_batch_bytes:
        raise _RefusedError(Problem.TOO_LARGE)
    if crc32c(batch[21:]) != crc:
        raise _RefusedError(Problem.CORRUPT, Fault.CRC)
    if count <= 0 or delta + 1 != count:
        raise _RefusedError(Problem.OFFSET_RANGE)
    if rules.from_client and attributes & _CONTROL:
        raise _RefusedError(Problem.CONTROL)
    if rules.from_client and producer_id >= 0 and base_sequence < 0:
        raise _RefusedError(Problem.SEQUENCE)
    if rules.log_append_time and attributes & _LOG_APPEND:
        raise _RefusedError(Problem.TIMESTAMP_TYPE)
    return _Fields(base_timestamp, max_timestamp, attributes, count)


def _check_records(payload: bytes, batch: _Fields, rules: ProduceRules, now_ms: int) -> tuple[int, int]:
    """Return the largest timestamp and the first record that has it; -1 and -1 if no record has a timestamp."""
    if batch.record_count * SMALLEST_RECORD > len(payload):
        raise _RefusedError(Problem.CORRUPT, Fault.RECORD_COUNT)
    is_append_time = bool(batch.attributes & _LOG_APPEND)
    best, index_of_best = _NO_TIMESTAMP, -1
    try:
        for index, record in enumerate(read_records(payload, batch.record_count)):
            timestamp = wrap64(batch.base_timestamp + record.timestamp_delta)
            if is_append_time:
                timestamp = batch.max_timestamp
            if record.offset_delta != index:
                raise _RefusedError(Problem.RECORD_OFFSETS, record_index=index)
            if rules.require_keys and record.key is None:
                raise _RefusedError(Problem.NO_KEY, record_index=index)
            if not rules.log_append_time:
                if timestamp == _NO_TIMESTAMP:
                    if is_append_time:
                        raise _RefusedError(Problem.TIMESTAMP_TYPE, record_index=index)
                elif _is_out_of_range(timestamp, now_ms, rules):
                    raise _RefusedError(Problem.TIMESTAMP, record_index=index)
            if timestamp > best:
                best, index_of_best = timestamp, index
    except FaultError as found:
        raise _RefusedError(Problem.CORRUPT, found.fault, found.index) from None
    return best, index_of_best


def _is_out_of_range(timestamp: int, now_ms: int, rules: ProduceRules) -> bool:
    behind = wrap64(now_ms - timestamp)
    return behind > rules.before_max_ms or wrap64(-behind) > rules.after_max_ms


def validate_records(
    payload: Buffer,
    rules: ProduceRules,
    now_ms: int,
    *,
    base_offset: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int,
    record_count: int,
) -> Validation:
    validation = Validation(base_offset)
    data = bytes(payload)
    try:
        if record_count <= 0:
            raise _RefusedError(Problem.CORRUPT, Fault.RECORD_COUNT)
        fields = _Fields(base_timestamp, max_timestamp, attributes, record_count)
        best, index_of_best = _check_records(data, fields, rules, now_ms)
    except _RefusedError as refused:
        _note(validation, refused)
        return validation
    validation.record_count, validation.batch_count, validation.size = record_count, 1, len(data)
    validation.max_timestamp = best
    if index_of_best >= 0:
        validation.offset_of_max_timestamp = base_offset + index_of_best
        validation.last_offset_of_max_batch = base_offset + record_count - 1
    return validation


def set_max_timestamp(buffer: Buffer, max_timestamp: int, log_append: bool = False) -> None:
    batch = memoryview(buffer).cast("B")
    if len(batch) < V2_HEADER.size or batch[16] != 2:
        raise ValueError("the buffer does not hold a v2 batch")
    old = int.from_bytes(batch[21:23], "big")
    stamp = _LOG_APPEND if log_append else 0
    if old & _LOG_APPEND == stamp and int.from_bytes(batch[35:43], "big", signed=True) == max_timestamp:
        return
    batch[21:23] = (old & _KEPT_BITS | stamp).to_bytes(2, "big")
    batch[35:43] = max_timestamp.to_bytes(8, "big", signed=True)
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
