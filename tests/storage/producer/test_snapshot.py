"""The bytes of producer snapshots: refused input, and round trips."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel import crc32c
from tidelog.model import SnapshotCorruptError
from tidelog.storage.producer import CachedBatch, ProducerEntry, ProducerState, format_snapshot, parse_snapshot

int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)


@st.composite
def entries(draw: st.DrawFn) -> ProducerEntry:
    timestamp = draw(int64)
    entry = ProducerEntry(
        producer_id=draw(int64),
        producer_epoch=draw(int16),
        coordinator_epoch=draw(int32),
        last_timestamp=timestamp,
        transaction_first_offset=draw(st.none() | st.integers(0, 2**63 - 1)),
    )
    if draw(st.booleans()):
        entry.batches.append(CachedBatch(draw(int32), draw(st.integers(0, 2**63 - 1)), draw(int32), timestamp))
    return entry


def with_crc(data: bytes) -> bytes:
    return data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:]


GOOD = format_snapshot(
    [
        ProducerEntry(producer_id=3, producer_epoch=1, last_timestamp=99, transaction_first_offset=7),
        ProducerEntry(producer_id=4, last_timestamp=100),
    ]
)


def test_the_layout() -> None:
    entry = ProducerEntry(
        producer_id=1, producer_epoch=2, coordinator_epoch=3, last_timestamp=4, transaction_first_offset=5
    )
    entry.batches.append(CachedBatch(6, 7, 8, 4))
    body = struct.pack(">i qhiqiqiq", 1, 1, 2, 6, 7, 8, 4, 3, 5)
    assert format_snapshot([entry]) == struct.pack(">hI", 1, crc32c(body)) + body
    assert format_snapshot([]) == struct.pack(">hIi", 1, crc32c(bytes(4)), 0)


@given(st.lists(entries(), max_size=6))
def test_round_trip(written: list[ProducerEntry]) -> None:
    data = format_snapshot(written)
    assert parse_snapshot(data) == written
    assert format_snapshot(parse_snapshot(data)) == data


def test_only_the_last_batch_is_stored() -> None:
    entry = ProducerEntry(producer_id=1, last_timestamp=30)
    entry.batches.extend(CachedBatch(number, number, 0, number * 10) for number in range(1, 4))
    (read,) = parse_snapshot(format_snapshot([entry]))
    assert list(read.batches) == [CachedBatch(3, 3, 0, 30)]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", "0 bytes are less than the header's 10"),
        (lambda data: data[:9], "9 bytes"),
        (lambda data: b"\0\0" + data[2:], "version 0 is unknown, 1 was expected"),
        (lambda data: b"\0\2" + data[2:], "version 2"),
        (lambda data: data[:-1], "the CRC is"),
        (lambda data: data + b"\0", "the CRC is"),
        (lambda data: with_crc(data + b"\0"), "2 entries do not fill 103 bytes"),
        (lambda data: with_crc(data[:6] + struct.pack(">i", 3) + data[10:]), "3 entries do not fill 102 bytes"),
        (lambda data: with_crc(data[:6] + struct.pack(">i", -1) + data[10:]), "-1 entries"),
        (lambda data: with_crc(data[:6] + b"\x7f\xff\xff\xff" + data[10:]), "2147483647 entries"),
    ],
)
def test_refused(damage: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(SnapshotCorruptError, match=message) as caught:
        parse_snapshot(damage(GOOD), path=Path("x.snapshot"))
    assert caught.value.path == "x.snapshot"


@given(st.binary(max_size=120), st.booleans())
def test_any_bytes_are_read_or_refused(data: bytes, sound_crc: bool) -> None:
    data = with_crc(b"\0\1" + data) if sound_crc and len(data) >= 4 else data
    try:
        assert format_snapshot(parse_snapshot(data))
    except SnapshotCorruptError:
        pass


def test_every_flipped_bit_is_noticed() -> None:
    for bit in range(len(GOOD) * 8):
        damaged = bytearray(GOOD)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SnapshotCorruptError):
            parse_snapshot(bytes(damaged))


def test_loading_drops_the_expired_and_keeps_open_transactions() -> None:
    state = ProducerState(expiration_ms=50)
    state.load_snapshot(GOOD, 12, now_ms=149)
    assert set(state.producers) == {3, 4}
    assert (state.map_end_offset, state.last_snapshot_offset, state.needs_snapshot) == (12, 12, False)
    assert state.transactions.ongoing[0].first_offset.message_offset == 7
    later = ProducerState(expiration_ms=50)
    later.load_snapshot(GOOD, 12, now_ms=150)
    assert set(later.producers) == {3}
    assert later.snapshot() == format_snapshot([later.producers[3]])


def test_a_corrupt_snapshot_changes_nothing() -> None:
    state = ProducerState()
    with pytest.raises(SnapshotCorruptError):
        state.load_snapshot(GOOD[:-1], 12, now_ms=0)
    assert (state.is_empty, state.map_end_offset) == (True, 0)
