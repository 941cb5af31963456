"""The end-of-transaction marker in a control batch.

A transaction coordinator writes it as the first (and only) record of a control batch of the producer. The module is
pure. Source: Kafka's ``EndTransactionMarker``, KIP-98.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.model import CorruptRecordError
from tidelog.record.attributes import TIMESTAMP_TYPE_FLAG, codec_of
from tidelog.record.batch_header import V2_HEADER, V2_HEADER_BYTES
from tidelog.record.compression import decompress
from tidelog.record.control import EndTransactionMarker

if TYPE_CHECKING:
    from typing_extensions import Buffer


class MarkerRecord(NamedTuple):
    marker: EndTransactionMarker
    timestamp: int


def read_marker(batch: Buffer) -> MarkerRecord | None:
    """Read the marker of a complete v2 control batch; return None if compaction emptied the batch.

    Raise CorruptRecordError if the first record is not a marker.
    """
    view = memoryview(batch).cast("B")
    if len(view) < V2_HEADER_BYTES:
        raise CorruptRecordError(f"a control batch of {len(view)} bytes")
    *_, attributes, _, base_timestamp, max_timestamp, _, _, _, count = V2_HEADER.unpack_from(view)
    if count <= 0:
        return None
    codec = codec_of(attributes)
    cursor = _Cursor(memoryview(decompress(codec, view[V2_HEADER_BYTES:])) if codec else view[V2_HEADER_BYTES:])
    cursor.varint()  # the record's length
    cursor.take(1)  # its attributes
    timestamp = base_timestamp + cursor.varint()
    cursor.varint()  # its offset delta
    marker = EndTransactionMarker.parse(cursor.bytes_or_none(), cursor.bytes_or_none())
    return MarkerRecord(marker, max_timestamp if attributes & TIMESTAMP_TYPE_FLAG else timestamp)


class _Cursor:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> memoryview:
        if count < 0 or self._at + count > len(self._data):
            raise CorruptRecordError("a control record is truncated")
        self._at += count
        return self._data[self._at - count : self._at]

    def varint(self) -> int:
        """Read a zig-zag varint of up to ten bytes."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise CorruptRecordError("a control record has a varint of more than ten bytes")

    def bytes_or_none(self) -> memoryview | None:
        length = self.varint()
        return None if length < 0 else self.take(length)
