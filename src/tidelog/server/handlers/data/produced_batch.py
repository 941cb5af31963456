"""What one partition of a produce request brings: looked at only as far as its first header, before the log judges it.

=====================================================  =============================================================
the records                                            answered with
=====================================================  =============================================================
null, or no whole batch                                INVALID_RECORD
a length, or a format, that cannot be                  CORRUPT_MESSAGE
a batch of an old format                               INVALID_RECORD
zstd, before v7                                        UNSUPPORTED_COMPRESSION_TYPE
a second whole batch                                   INVALID_RECORD
=====================================================  =============================================================

Called by: the produce handler. Pure. Source: Kafka's ``ProduceRequest.validateRecords``,
``RequestUtils.hasTransactionalRecords``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.attributes import CODEC_MASK, TRANSACTIONAL_FLAG, ZSTD

_HEADER = Struct(">21xh20xqhi4x")
"""Attributes; producer id, epoch, first sequence."""
_SHAPE = Struct(">8xi4xb")
"""Length and magic, of any format."""
_MAGIC_AT: Final = 16
_PREFIX_BYTES: Final = 12
_SMALLEST_BATCH: Final = 14
_CURRENT_MAGIC: Final = 2
_FIRST_WITH_ZSTD: Final = 7
_NO_PRODUCER: Final = -1


class ProducedBatch(NamedTuple):
    """Of the first header."""

    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    @property
    def is_transactional(self) -> bool:
        """By its flag alone: who may not write in a transaction may not write this either."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_of_transaction(self) -> bool:
        """One that a producer has begun. Without a producer there is none to be verified; the log takes the batch."""
        return self.is_transactional and self.producer_id != _NO_PRODUCER

    @property
    def is_compressed(self) -> bool:
        return bool(self.attributes & CODEC_MASK)


NO_BATCH: Final = ProducedBatch(0, _NO_PRODUCER, -1, -1)
"""Of records that were not looked at, or are none."""


def look_at(version: int, records: bytearray | None) -> ProducedBatch:
    """ApiError as in the module's table."""
    size = _batch_size(records, 0) if records else 0
    if records is None or not size:
        raise _invalid(version, "must have at least one record batch per partition")
    if records[_MAGIC_AT] != _CURRENT_MAGIC:
        raise _invalid(version, "are only allowed to contain record batches with magic version 2")
    if size < _HEADER.size:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes is smaller than its header")
    batch = ProducedBatch(*_HEADER.unpack_from(records))
    if batch.attributes & CODEC_MASK == ZSTD and version < _FIRST_WITH_ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    if size < len(records) and _batch_size(records, size):
        raise _invalid(version, "are only allowed to contain exactly one record batch per partition")
    return batch


def _batch_size(records: bytearray, position: int) -> int:
    """Of the batch that begins there, 0 where it is not whole; CORRUPT_MESSAGE where none can begin so."""
    left = len(records) - position
    if left < _SHAPE.size:
        return 0
    length, magic = _SHAPE.unpack_from(records, position)
    if length < _SMALLEST_BATCH or not 0 <= magic <= _CURRENT_MAGIC:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"no batch has the length {length} and the format {magic}")
    return length + _PREFIX_BYTES if length + _PREFIX_BYTES <= left else 0


def _invalid(version: int, rule: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"Produce requests with version {version} {rule}")
