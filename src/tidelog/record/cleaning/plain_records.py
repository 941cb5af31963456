"""What the kernels cannot open themselves: compressed batches as plain records, legacy ones as v2 batches.

=====================  ======================================================================================
a row of the table     what stands for it
=====================  ======================================================================================
v2, uncompressed       nothing: the kernel reads it where it lies
v2, compressed         its records, decompressed
v0, v1                 an uncompressed v2 batch of the same records, offsets and timestamps, with base offset the first
                       one's: what Kafka's cleaner makes of it (since 4.0 it writes no other format)
=====================  ======================================================================================

Pure; any thread; the codecs work without the GIL. Source: Kafka's ``MemoryRecords.filterTo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable
from tidelog.model import CorruptRecordError, Record, TimestampType, UnsupportedCompressionError
from tidelog.record.attributes import CODEC_MASK
from tidelog.record.build import build_batch
from tidelog.record.compression import decompress
from tidelog.record.legacy import LegacyMessage, read_messages

if TYPE_CHECKING:
    from typing_extensions import Buffer

_V2_HEADER_BYTES: Final = 61


def plain_records(
    buffer: Buffer, table: BatchTable, wanted: npt.NDArray[np.bool_], *, base_position: int = 0
) -> list[Buffer | None] | None:
    """One entry a row, None where the row is not ``wanted`` or nothing stands for it; None where that holds of all.

    CorruptRecordError and UnsupportedCompressionError with position and offset.
    """
    codec = table.attributes & np.int16(CODEC_MASK)
    chosen = np.flatnonzero(wanted & ((codec != 0) & (table.record_count != 0) | (table.magic < 2)))
    if not len(chosen):
        return None
    view = memoryview(buffer).cast("B")
    plain: list[Buffer | None] = [None] * len(table)
    starts = (table.position - base_position).tolist()
    sizes, codecs, magics = table.size.tolist(), codec.tolist(), table.magic.tolist()
    for row in chosen.tolist():
        entry = view[starts[row] : starts[row] + sizes[row]]
        try:
            if magics[row] < 2:
                plain[row] = _as_v2(read_messages(entry, checked=False))
            else:
                plain[row] = decompress(codecs[row], entry[_V2_HEADER_BYTES:])
        except (CorruptRecordError, UnsupportedCompressionError) as error:
            position, offset = int(table.position[row]), int(table.base_offset[row])
            raise type(error)(error.message, position=position, offset=offset) from None
    return plain


def _as_v2(messages: list[LegacyMessage]) -> bytearray:
    """The v2 batch of a message, or of those in a wrapper; inner formats and checksums do not matter, as in Kafka."""
    is_log_append = messages[0].timestamp_type is TimestampType.LOG_APPEND
    records = []
    for message in messages:
        if message.attributes & CODEC_MASK:
            raise CorruptRecordError("a message inside a compressed wrapper is compressed itself")
        key, value = (None if part is None else bytes(part) for part in (message.key, message.value))
        records.append(Record(message.offset, message.timestamp, message.timestamp_type, key, value))
    try:
        return build_batch(
            records,
            base_offset=messages[0].offset,
            keep_offsets=True,
            timestamp_type=TimestampType.LOG_APPEND if is_log_append else TimestampType.CREATE,
        )
    except ValueError as error:
        raise CorruptRecordError(f"the messages of a wrapper cannot be kept: {error}") from None
