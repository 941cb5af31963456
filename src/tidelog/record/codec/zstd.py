"""The Zstandard codec (codec 4, KIP-110).

Data has one or more frames, with or without a content size (Kafka's Java client writes none).
A block of four bytes can expand to 128 KiB, and the library returns the output of all its input at once. So input goes
in by small steps if it could pass the limit: a bomb costs at most the limit plus 128 MiB. A frame's window is at most
128 MiB, as in Kafka.

Thread rule: any thread. A context of the library serves one thread at a time and is expensive to create. So each call
takes one from a free list and puts it back; both list operations are atomic.
"""

from __future__ import annotations

from typing import Final

import zstandard

from tidelog.model import ConfigError, CorruptRecordError
from tidelog.record.codec.limit import too_large

_DEFAULT_LEVEL: Final = 3
_MAX_EXPANSION: Final = 32_768
_STEP_BYTES: Final = 4_096

_free_decompressors: list[zstandard.ZstdDecompressor] = []
_free_compressors: dict[int, list[zstandard.ZstdCompressor]] = {}


def decompress(data: memoryview, max_bytes: int) -> bytes:
    try:
        decompressor = _free_decompressors.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        return _decompress(decompressor, data, max_bytes)
    except zstandard.ZstdError as error:
        raise CorruptRecordError(f"the zstd data is corrupt: {error}") from None
    finally:
        _free_decompressors.append(decompressor)


def _decompress(decompressor: zstandard.ZstdDecompressor, data: memoryview, max_bytes: int) -> bytes:
    step = len(data) if len(data) * _MAX_EXPANSION <= max_bytes else _STEP_BYTES
    pieces: list[bytes] = []
    total = position = 0
    while position < len(data) or not pieces:
        frame = decompressor.decompressobj()
        while not frame.eof:
            chunk = data[position : position + step]
            if not chunk:
                raise CorruptRecordError("the zstd data ends inside a frame")
            piece = frame.decompress(chunk)
            position += len(chunk) - len(frame.unused_data)
            total += len(piece)
            if total > max_bytes:
                raise too_large("zstd", max_bytes)
            pieces.append(piece)
        step = min(step, _STEP_BYTES)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def compress(data: memoryview, level: int | None) -> bytes:
    """Compress with Kafka's levels: -131072 to 22, default 3."""
    if level is None:
        level = _DEFAULT_LEVEL
    if not -131_072 <= level <= 22:
        raise ConfigError(f"zstd has levels -131072 to 22, not {level}")
    free = _free_compressors.setdefault(level, [])
    try:
        compressor = free.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=level)
    try:
        return compressor.compress(data)
    finally:
        free.append(compressor)
