"""The limit of a record's size in a compressed batch, after decompression."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from log_maker import varint
from tidelog.record.record_size import first_larger


def payload(*sizes: int) -> bytes:
    return b"".join(varint(size) + bytes(size) for size in sizes)


@given(sizes=st.lists(st.integers(0, 300), max_size=20), max_bytes=st.integers(1, 300))
def test_the_first_that_is_larger(sizes: list[int], max_bytes: int) -> None:
    larger = [number for number, size in enumerate(sizes) if size > max_bytes]
    assert first_larger(payload(*sizes), max_bytes) == (larger[0] if larger else None)


@given(data=st.binary(max_size=100), max_bytes=st.integers(1, 120))
def test_rubbish_is_for_others_to_tell(data: bytes, max_bytes: int) -> None:
    """The search ends without an error of its own."""
    first_larger(data, max_bytes)


def test_a_negative_size_ends_the_search() -> None:
    assert first_larger(payload(3) + varint(-1) + payload(100), 50) is None


def test_a_size_has_at_most_five_bytes() -> None:
    """A longer size makes the payload malformed, and so does an incomplete size at its end."""
    assert first_larger(b"\x80" * 4 + b"\x01" + bytes(100), 50) == 0
    assert first_larger(b"\x80" * 5 + b"\x01" + bytes(100), 50) is None
    assert first_larger(b"\xfe" * 5 + bytes(100), 50) is None
    assert first_larger(payload(60) + b"\xfe", 60) is None
