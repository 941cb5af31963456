"""A reader for the records of a v2 batch, the twin of _records.pxd and of the walk in _validate.pyx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kernel.reference.varint import read_varint, read_varlong
from tidelog.kernel.faults import Fault

_SMALLEST_BODY = 6


class RawRecord(NamedTuple):
    """A record with the values of its batch: deltas, and headers with their keys as bytes."""

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    fields: bytes
    """The encoded bytes of key, value and headers."""


class FaultError(Exception):
    """A ``fault`` in record number ``index`` of the batch."""

    def __init__(self, fault: Fault, index: int) -> None:
        super().__init__(fault.sentence)
        self.fault = fault
        self.index = index


def read_records(payload: bytes, count: int, *, last_delta: int | None = None) -> Iterator[RawRecord]:
    """Yield ``count`` records, which must fill ``payload``. Raise FaultError for the first wrong one.

    With ``last_delta``, an offset delta must lie in [0, last_delta].
    """
    position = 0
    for index in range(count):
        found = read_varint(payload, position, len(payload))
        if found is None or found[0] < _SMALLEST_BODY or found[0] > len(payload) - found[1]:
            raise FaultError(Fault.RECORD_LENGTH, index)
        body = payload[found[1] : found[1] + found[0]]
        position = found[1] + found[0]
        yield _read_body(body, index, last_delta)
    if position != len(payload):
        raise FaultError(Fault.BATCH_END, -1)


def _read_body(body: bytes, index: int, last_delta: int | None) -> RawRecord:
    end = len(body)
    timestamp = read_varlong(body, 1, end)  # after the unused attributes
    if timestamp is None:
        raise FaultError(Fault.TIMESTAMP, index)
    offset = read_varint(body, timestamp[1], end)
    if offset is None or (last_delta is not None and not 0 <= offset[0] <= last_delta):
        raise FaultError(Fault.OFFSET, index)
    key, position = _read_bytes(body, offset[1], Fault.KEY, index)
    value, position = _read_bytes(body, position, Fault.VALUE, index)
    headers, position = _read_headers(body, position, index)
    if position != end:
        raise FaultError(Fault.RECORD_END, index)
    return RawRecord(timestamp[0], offset[0], key, value, headers, body[offset[1] :])


def _read_bytes(body: bytes, position: int, fault: Fault, index: int) -> tuple[bytes | None, int]:
    length = read_varint(body, position, len(body))
    if length is None or length[0] > len(body) - length[1]:
        raise FaultError(fault, index)
    if length[0] < 0:
        return None, length[1]
    return body[length[1] : length[1] + length[0]], length[1] + length[0]


def _read_headers(body: bytes, position: int, index: int) -> tuple[tuple[tuple[bytes, bytes | None], ...], int]:
    count = read_varint(body, position, len(body))
    if count is None or not 0 <= count[0] <= (len(body) - count[1]) // 2:
        raise FaultError(Fault.HEADER_COUNT, index)
    position = count[1]
    headers = []
    for _ in range(count[0]):
        key, position = _read_bytes(body, position, Fault.HEADER_KEY, index)
        if key is None:
            raise FaultError(Fault.HEADER_KEY, index)
        value, position = _read_bytes(body, position, Fault.HEADER_VALUE, index)
        headers.append((key, value))
    return tuple(headers), position
