"""The batch of one partition in a produce request: the checks of its first header.

=====================================================  =============================================================
records                                                error
=====================================================  =============================================================
null, or no complete batch                             INVALID_RECORD
an impossible length or magic                          CORRUPT_MESSAGE
a batch of an old format                               INVALID_RECORD
zstd, before v7                                        UNSUPPORTED_COMPRESSION_TYPE
a second complete batch                                INVALID_RECORD
=====================================================  =============================================================

The log validates the rest. Pure. Source: Kafka's ``ProduceRequest.validateRecords``,
``RequestUtils.hasTransactionalRecords``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.attributes import CODEC_MASK, TRANSACTIONAL_FLAG, ZSTD
from tidelog.record.batch_header import (
    CURRENT_MAGIC,
    MAGIC_AT,
    PREFIX_BYTES,
    PRODUCER,
    SHAPE,
    SMALLEST_LENGTHS,
    V2_HEADER_BYTES,
)

_FIRST_WITH_ZSTD: Final = 7
_NO_PRODUCER: Final = -1


class ProducedBatch(NamedTuple):
    """The fields of the first batch's header."""

    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    @property
    def is_transactional(self) -> bool:
        """True if the flag is set. The flag alone requires authorization for the transactional id."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_of_transaction(self) -> bool:
        """True if it also has a producer id. Without one there is nothing to verify, and the log accepts the batch."""
        return self.is_transactional and self.producer_id != _NO_PRODUCER

    @property
    def is_compressed(self) -> bool:
        return bool(self.attributes & CODEC_MASK)


NO_BATCH: Final = ProducedBatch(0, _NO_PRODUCER, -1, -1)
"""The batch of records that were not checked or have no batch."""


def read_batch(version: int, records: bytearray | None) -> ProducedBatch:
    """Return the batch. Raise ApiError by the module's table."""
    size = _batch_size(records, 0) if records else 0
    if records is None or not size:
        raise _invalid(version, "must have at least one record batch per partition")
    if records[MAGIC_AT] != CURRENT_MAGIC:
        raise _invalid(version, "are only allowed to contain record batches with magic version 2")
    if size < V2_HEADER_BYTES:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes is smaller than its header")
    batch = ProducedBatch(*PRODUCER.unpack_from(records))
    if batch.attributes & CODEC_MASK == ZSTD and version < _FIRST_WITH_ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    if size < len(records) and _batch_size(records, size):
        raise _invalid(version, "are only allowed to contain exactly one record batch per partition")
    return batch


def _batch_size(records: bytearray, position: int) -> int:
    """Return a batch's size, or 0 if it is incomplete. Raise ApiError(CORRUPT_MESSAGE) if it is impossible."""
    left = len(records) - position
    if left < SHAPE.size:
        return 0
    length, magic = SHAPE.unpack_from(records, position)
    if length < SMALLEST_LENGTHS[0] or not 0 <= magic <= CURRENT_MAGIC:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch cannot have the length {length} and the magic {magic}")
    return length + PREFIX_BYTES if length + PREFIX_BYTES <= left else 0


def _invalid(version: int, rule: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"Produce requests with version {version} {rule}")
