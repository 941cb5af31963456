"""The gzip codec (codec 1) over ISA-L.

The reader takes members one after the other, as Java's ``GZIPInputStream`` does. Like Java, it ignores bytes after the
last member that do not begin another one. The writer makes one member without name and time: equal input, equal bytes.

Deflate expands at most 1032 to 1. At most ``max_bytes`` + 1 bytes of output are requested, which limits a bomb's cost.
"""

from __future__ import annotations

import zlib
from typing import Final

from isal import igzip_lib, isal_zlib

from tidelog.model import ConfigError, CorruptRecordError
from tidelog.record.codec.limit import too_large

_GZIP_WINDOW_BITS: Final = 31
_MEMBER_MAGIC: Final = b"\x1f\x8b"
_NEXT_MEMBER_BYTES: Final = 65_536
"""The size of an input step after the first member: the library copies the unused part of each step."""


def decompress(data: memoryview, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    total = position = 0
    while True:
        member = isal_zlib.decompressobj(_GZIP_WINDOW_BITS)
        step = len(data) if position == 0 else _NEXT_MEMBER_BYTES
        while not member.eof:
            chunk = data[position : position + step]
            if not chunk:
                raise CorruptRecordError("the gzip data ends before its end mark")
            try:
                piece = member.decompress(chunk, max_bytes - total + 1)
            except isal_zlib.IsalError as error:  # type: ignore[misc] # its stub declares an instance
                raise CorruptRecordError(f"the gzip data is corrupt: {error}") from None
            position += len(chunk) - len(member.unused_data)
            total += len(piece)
            if total > max_bytes:
                raise too_large("gzip", max_bytes)
            pieces.append(piece)
        if bytes(data[position : position + 2]) != _MEMBER_MAGIC:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def compress(data: memoryview, level: int | None) -> bytes:
    """Compress: ISA-L's default level for None and Kafka's -1. ISA-L lacks levels 1 to 9, so zlib does those."""
    if level is None or level == -1:
        compressed: bytes = igzip_lib.compress(data, flag=igzip_lib.COMP_GZIP)
        return compressed
    if not 1 <= level <= 9:
        raise ConfigError(f"gzip has levels 1 to 9 and -1 for the default, not {level}")
    return zlib.compress(data, level, _GZIP_WINDOW_BITS)
