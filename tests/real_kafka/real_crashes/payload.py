"""The values that the crash tests append. Each names its writer, so that any record can be checked alone.

A value is ``WRITER:NUMBER:`` and padding that both determine, so writer and judge compute the same value.
"""

from __future__ import annotations

import random
import zlib

MAX_PADDING_BYTES = 300
_PADDING = random.Random("padding").randbytes(4096 + MAX_PADDING_BYTES)


def value(writer: str, number: int) -> bytes:
    start = b"%s:%d:" % (writer.encode(), number)
    mixed = zlib.crc32(start)
    at = (mixed >> 12) % 4096
    return start + _PADDING[at : at + mixed % MAX_PADDING_BYTES]


def values(writer: str, numbers: range) -> list[bytes]:
    return [value(writer, number) for number in numbers]


def author(data: bytes | None) -> tuple[str, int]:
    """Return the writer and the number of a value. Raise AssertionError if no writer appended exactly this value."""
    assert data is not None, "a record without a value"
    writer, number, _ = data.split(b":", 2)
    found = (writer.decode(), int(number))
    assert data == value(*found), f"a value of {found} that is not as it was appended: {data[:80]!r}"
    return found
