"""LZ4 frames (codec 3), with the header checksum of message format v0.

::

    04 22 4D 18 | FLG | BD | content size uint64, if FLG has its bit | header checksum | blocks | end mark 00 00 00 00

The header checksum is the second byte of XXH32 over the descriptor (FLG to content size). The first Kafka clients also
hashed the four magic bytes, so this byte is wrong in messages of format v0. The wrong byte became part of the format,
so it is written there too, and ignored when read (KIP-57; Kafka's ``Lz4BlockOutputStream``). One frame is read, and
bytes after it are ignored, as in Kafka. Frames are written as by Kafka's client: independent blocks of 64 KiB, no
checksums, no size.

LZ4 expands at most 255 to 1. A larger declared content size is refused before memory is allocated for it.
"""

from __future__ import annotations

from typing import Final

from lz4 import frame as lz4_frame

from tidelog.model import ConfigError, CorruptRecordError
from tidelog.record.codec.limit import too_large

_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_CONTENT_SIZE_FLAG: Final = 0x08
_DICTIONARY_FLAG: Final = 0x01
_MAX_EXPANSION: Final = 255
_STEP_BYTES: Final = 65_536
_DEFAULT_LEVEL: Final = 9
"""Kafka's number for its fast compressor; it does not mean level 9 of LZ4 HC."""


def decompress(data: memoryview, max_bytes: int, magic: int) -> bytes:
    descriptor_end = _check_header(data, max_bytes)
    if magic == 0:
        repaired = bytearray(data)
        repaired[descriptor_end] = _header_checksum(data[4:descriptor_end])
        data = memoryview(repaired)
    try:
        if len(data) * _MAX_EXPANSION <= max_bytes:
            plain: bytes = lz4_frame.decompress(data)
            return plain
        return _decompress_by_steps(data, max_bytes)
    except (RuntimeError, ValueError, EOFError) as error:
        raise CorruptRecordError(f"the lz4 data is corrupt: {error}") from None


def compress(data: memoryview, level: int | None, magic: int) -> bytes:
    """Compress with Kafka's levels 1 to 17; 9 or None is the fast compressor. The library's strongest level is 12."""
    if level is not None and not 1 <= level <= 17:
        raise ConfigError(f"lz4 has levels 1 to 17, not {level}")
    compressed: bytes = lz4_frame.compress(
        data,
        compression_level=0 if level is None or level == _DEFAULT_LEVEL else level,
        block_size=lz4_frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic != 0:
        return compressed
    return compressed[:6] + bytes([_header_checksum(memoryview(compressed)[:6])]) + compressed[7:]


def _check_header(data: memoryview, max_bytes: int) -> int:
    """Return the position of the header checksum. Raise CorruptRecordError for no frame header or a wrong size."""
    if len(data) < 7 or bytes(data[:4]) != _FRAME_MAGIC:
        raise CorruptRecordError("the lz4 data does not begin with a frame header")
    if data[4] & _DICTIONARY_FLAG:
        raise CorruptRecordError("the lz4 data wants a dictionary, which Kafka has none of")
    if not data[4] & _CONTENT_SIZE_FLAG:
        return 6
    if len(data) < 15:
        raise CorruptRecordError("the lz4 data ends inside its frame header")
    declared = int.from_bytes(data[6:14], "little")
    if declared > max_bytes:
        raise too_large("lz4", max_bytes)
    if declared > _MAX_EXPANSION * len(data):
        raise CorruptRecordError(f"{len(data):,} bytes of lz4 data declare {declared:,}, more than they can hold")
    return 14


def _decompress_by_steps(data: memoryview, max_bytes: int) -> bytes:
    decompressor = lz4_frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    total = 0
    for start in range(0, len(data), _STEP_BYTES):
        piece = decompressor.decompress(data[start : start + _STEP_BYTES])
        total += len(piece)
        if total > max_bytes:
            raise too_large("lz4", max_bytes)
        pieces.append(piece)
        if decompressor.eof:
            break
    else:
        raise CorruptRecordError("the lz4 data ends before its end mark")
    return b"".join(pieces)


def _header_checksum(descriptor: memoryview) -> int:
    """Return the second byte of XXH32 (seed 0) for fewer than 16 bytes, by the short form of its specification."""
    mask = 0xFFFFFFFF
    prime_1, prime_2, prime_3, prime_4, prime_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    hashed = prime_5 + len(descriptor)
    words = len(descriptor) // 4 * 4
    for position in range(0, words, 4):
        hashed = (hashed + int.from_bytes(descriptor[position : position + 4], "little") * prime_3) & mask
        hashed = ((hashed << 17 | hashed >> 15) & mask) * prime_4 & mask
    for byte in descriptor[words:]:
        hashed = (hashed + byte * prime_5) & mask
        hashed = ((hashed << 11 | hashed >> 21) & mask) * prime_1 & mask
    hashed = (hashed ^ hashed >> 15) * prime_2 & mask
    hashed = (hashed ^ hashed >> 13) * prime_3 & mask
    return (hashed ^ hashed >> 16) >> 8 & 0xFF
