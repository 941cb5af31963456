"""The compression of batch payloads by codec number.

It covers the records of a v2 batch and the value of a v0 or v1 wrapper. Everything that Kafka reads can be read here;
other data raises CorruptRecordError. Any input costs at most ``max_bytes`` (default 1 GiB) for plain bytes and 256 MiB
for the library's own buffers. A codec and its library are imported at the first use, so that a broker starts without
them. Pure; the libraries work without the GIL. Thread rule: any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model import CorruptRecordError
from tidelog.record import attributes
from tidelog.record.codec.limit import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer


def decompress(codec: int, data: Buffer, *, magic: int = 2, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """Return the plain bytes of ``data``.

    ``magic`` is the format of the surrounding batch: v0 has its own lz4 header checksum, and only v2 has zstd. Raise
    CorruptRecordError if the data is not of that codec, is truncated, or has more than ``max_bytes``. Raise
    UnsupportedCompressionError for a codec number that Kafka does not define.
    """
    view = memoryview(data).cast("B")
    match codec:
        case attributes.NONE:
            return view
        case attributes.GZIP:
            from tidelog.record.codec import gzip

            return gzip.decompress(view, max_bytes)
        case attributes.SNAPPY:
            from tidelog.record.codec import snappy

            return snappy.decompress(view, max_bytes)
        case attributes.LZ4:
            from tidelog.record.codec import lz4

            return lz4.decompress(view, max_bytes, magic)
        case attributes.ZSTD if magic >= 2:
            from tidelog.record.codec import zstd

            return zstd.decompress(view, max_bytes)
    raise CorruptRecordError(f"a message of format v{magic} cannot be compressed with {attributes.codec_name(codec)}")


def compress(codec: int, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress with the framing of Kafka's Java client. Raise ConfigError if ``level`` is out of Kafka's range."""
    view = memoryview(data).cast("B")
    match codec:
        case attributes.NONE:
            return bytes(view)
        case attributes.GZIP:
            from tidelog.record.codec import gzip

            return gzip.compress(view, level)
        case attributes.SNAPPY:
            from tidelog.record.codec import snappy

            return snappy.compress(view, level)
        case attributes.LZ4:
            from tidelog.record.codec import lz4

            return lz4.compress(view, level, magic)
        case attributes.ZSTD if magic >= 2:
            from tidelog.record.codec import zstd

            return zstd.compress(view, level)
    raise CorruptRecordError(f"a message of format v{magic} cannot be compressed with {attributes.codec_name(codec)}")
