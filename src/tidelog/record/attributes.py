"""The attributes of a batch (v2: 16 bits) or message (v0, v1: 8 bits), and the numbers of the codecs.

::

    bit   15 .. 7   6               5        4              3               2 .. 0
          unused    delete horizon  control  transactional  timestamp type  codec
                    `------ v2 only (0 in v0 and v1) -----'  (v1 and v2)

Pure. Source: Kafka's ``DefaultRecordBatch``
and ``LegacyRecord``; codec numbers: ``CompressionType``; the delete horizon: KIP-534.
"""

from __future__ import annotations

from typing import Final

from tidelog.model import TimestampType, UnsupportedCompressionError

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

CODECS: Final[dict[int, str]] = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
"""Kafka's codec names by number."""

_NUMBERS: Final = {name: number for number, name in CODECS.items()}


def codec_of(attributes: int) -> int:
    """Return the codec's number, 0 to 7; 5 to 7 are not defined (``codec_name`` raises for them)."""
    return attributes & CODEC_MASK


def codec_name(codec: int) -> str:
    """Return Kafka's name of a codec. Raise UnsupportedCompressionError if the number is not defined."""
    name = CODECS.get(codec)
    if name is None:
        raise UnsupportedCompressionError(
            f"Kafka defines no compression codec {codec}; it has 0 to 4 ({', '.join(_NUMBERS)})"
        )
    return name


def codec_number(codec: int | str) -> int:
    """Return the number of a codec given by number or name. Raise UnsupportedCompressionError if it is unknown."""
    if isinstance(codec, int):
        codec_name(codec)
        return codec
    number = _NUMBERS.get(codec)
    if number is None:
        raise UnsupportedCompressionError(f"'{codec}' is not one of Kafka's codecs: {', '.join(_NUMBERS)}")
    return number


def timestamp_type_of(attributes: int, magic: int = 2) -> TimestampType:
    """Return the clock that set the timestamps; format v0 has none."""
    if magic == 0:
        return TimestampType.NONE
    return TimestampType.LOG_APPEND if attributes & TIMESTAMP_TYPE_FLAG else TimestampType.CREATE


def batch_attributes(
    *,
    codec: int = NONE,
    timestamp_type: TimestampType = TimestampType.CREATE,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
) -> int:
    """Return the attributes of a v2 batch. Raise ValueError for timestamp type NONE, which v2 does not have."""
    if timestamp_type is TimestampType.NONE:
        raise ValueError("a v2 batch has create or log append timestamps, never none")
    return (
        codec_number(codec)
        | (TIMESTAMP_TYPE_FLAG if timestamp_type is TimestampType.LOG_APPEND else 0)
        | (TRANSACTIONAL_FLAG if transactional else 0)
        | (CONTROL_FLAG if control else 0)
        | (DELETE_HORIZON_FLAG if delete_horizon else 0)
    )
