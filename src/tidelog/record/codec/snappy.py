"""The snappy codec (codec 2): our own loop of blocks over cramjam's raw snappy.

The reader accepts two layouts, as Kafka's Java client does. The plain one is a raw block (librdkafka writes it). The
other is framed by xerial's snappy-java (Kafka's Java client writes it, and so does tidelog)::

    header  82 'S' 'N' 'A' 'P' 'P' 'Y' 00 | version int32 | lowest compatible version int32
    blocks  length int32 | raw snappy block of up to 32 KiB plain bytes        (big-endian; a header may come again)

Raw snappy declares its plain length first and expands at most 64 bytes for 3. So a declared length beyond 22 times the
block is refused before memory is allocated. One to three bytes after the last block are ignored, as in snappy-java.
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam

from tidelog.model import ConfigError, CorruptRecordError
from tidelog.record.codec.limit import too_large

_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_MAGIC: Final = _HEADER[:8]
_MAGIC_HEAD: Final = int.from_bytes(_HEADER[:4], "big", signed=True)
_BLOCK_BYTES: Final = 32_768
_MAX_EXPANSION: Final = 22
_LENGTH: Final = struct.Struct(">i")


def decompress(data: memoryview, max_bytes: int) -> bytearray:
    blocks = _framed_blocks(data) if len(data) >= len(_HEADER) and bytes(data[:8]) == _MAGIC else [data]
    sizes = [_declared_size(block) for block in blocks]
    total = sum(sizes)
    if total > max_bytes:
        raise too_large("snappy", max_bytes)
    plain = bytearray(total)
    view = memoryview(plain)
    position = 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            written = cramjam.snappy.decompress_raw_into(block, view[position : position + size])
        except cramjam.DecompressionError as error:
            raise CorruptRecordError(f"the snappy data is corrupt: {error}") from None
        position += written
    return plain


def compress(data: memoryview, level: int | None) -> bytes:
    if level is not None:
        raise ConfigError(f"snappy has no levels, so not {level} either")
    parts = [_HEADER]
    for start in range(0, len(data), _BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _BLOCK_BYTES]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _framed_blocks(data: memoryview) -> list[memoryview]:
    position = len(_HEADER)
    end = len(data)
    blocks = []
    while end - position >= 4:
        (length,) = _LENGTH.unpack_from(data, position)
        if length == _MAGIC_HEAD and bytes(data[position : position + 8]) == _MAGIC:
            position += len(_HEADER)
            continue
        position += 4
        if not 0 < length <= end - position:
            raise CorruptRecordError(f"a snappy block declares {length:,} bytes where {end - position:,} are left")
        blocks.append(data[position : position + length])
        position += length
    return blocks


def _declared_size(block: memoryview) -> int:
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"the snappy data is corrupt: {error}") from None
    if not block or size > _MAX_EXPANSION * len(block):
        raise CorruptRecordError(f"a snappy block of {len(block):,} bytes declares {size:,}, more than it can hold")
    return size
