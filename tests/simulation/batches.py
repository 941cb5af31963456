"""The records of the simulation: real batches, and one number per record that identifies it in comparisons.

A *print* stands for one record: its leader epoch in the upper bits, and below them the number of its batch and its
place in the batch. Two records with equal prints have equal bytes. Batch number N has the base timestamp
``BASE_TIME + N``, so the headers alone give the prints of any bytes that a log returns.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from log_maker import BASE_TIME, batch

EPOCH_SHIFT = 40
NO_RECORD = 0
"""The print of an offset that a log does not hold, for example below its log start."""
MAX_RECORDS = 4
"""The number of records of a batch is below it, so two bits hold a record's place in its batch."""
_PLACE_BITS = 2
_HEADER = struct.Struct(">qii")
_COUNT_AND_TIME = struct.Struct(">iq")
_LENGTH_END = 12
_COUNT_AT = 23


@lru_cache(maxsize=20_000)
def batch_bytes(number: int, records: int) -> bytes:
    """Return batch ``number``, from 1, as a producer sends it. Seeds share the batches, so building them is rare."""
    return batch(0, [b"%d" % number] * records, key=None, timestamp=BASE_TIME + number)


def prints_of(number: int, records: int, epoch: int) -> list[int]:
    """Return the prints of a batch's records after a leader has appended it in ``epoch``."""
    first = (epoch << EPOCH_SHIFT) | (number << _PLACE_BITS)
    return list(range(first, first + records))


def read_prints(data: bytes) -> list[tuple[int, list[int]]]:
    """Return the base offset and the prints of each complete batch in ``data``."""
    found, at, end = [], 0, len(data)
    while at + _COUNT_AT + _COUNT_AND_TIME.size <= end:
        base_offset, length, epoch = _HEADER.unpack_from(data, at)
        if at + _LENGTH_END + length > end:
            break
        last, time = _COUNT_AND_TIME.unpack_from(data, at + _COUNT_AT)
        found.append((base_offset, prints_of(time - BASE_TIME, last + 1, epoch)))
        at += _LENGTH_END + length
    return found


def epoch_of(record: int) -> int:
    """Return the leader epoch of a record, by its print."""
    return record >> EPOCH_SHIFT
