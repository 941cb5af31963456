"""The header of a batch: the positions and sizes of its fields, for all Python code that reads raw batches.

::

    at   0             8        12             16      17    21           23                  27
         base offset   length   leader epoch   magic   CRC   attributes   last offset delta   base timestamp
         int64         int32    int32          int8    u32   int16        int32               int64

    at  35              43            51               53              57             61
        max timestamp   producer id   producer epoch   base sequence   record count   records
        int64           int64         int16            int32           int32

The length counts the bytes after it. The CRC covers the bytes from the attributes on. The formats v0 and v1 share base
offset, length and the position of the magic. ``legacy`` has their other fields. The kernels have the same numbers in
kernel/_bytes.pxd, and a test compares both. Source: Kafka's ``DefaultRecordBatch``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

CURRENT_MAGIC: Final = 2
MAX_SEQUENCE: Final = 2**31 - 1
"""The largest sequence of a producer; 0 follows it."""
PREFIX_BYTES: Final = 12
"""The bytes of base offset and length."""
LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 21

V2_HEADER: Final = Struct(">qiibIhiqqqhii")
"""All fields, in the order of the module's table."""
V2_HEADER_BYTES: Final = V2_HEADER.size
SMALLEST_LENGTHS: Final = (14, 22, V2_HEADER_BYTES - PREFIX_BYTES)
"""The smallest length by magic. In v0 and v1 this is a message without key and value."""

PLACE: Final = Struct(">qii")
"""The base offset, length and leader epoch, which the CRC does not cover."""
SHAPE: Final = Struct(">8xi4xb")
"""The length and magic, which every format has."""
LENGTH: Final = Struct(">8xi")
PRODUCER: Final = Struct(">21xh20xqhi")
"""The attributes, producer id, producer epoch and base sequence."""
