"""Records as columns in Arrow's layout: the output of the decoder and the input of the encoder.

A column of variable size is an int32 array of n + 1 offsets into one run of bytes. Its validity is a bitmap, least
significant bit first, or None if there are no nulls. So ``record`` can pass the buffers to Arrow without a copy.
Columns are immutable; a column that was not requested is None. A ``Payload`` is the result of the encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int8s = npt.NDArray[np.int8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bitmap = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordColumns:
    """The columns of n records. ``batch`` is the number that the caller gave to a record's batch."""

    offset: Int64s
    timestamp: Int64s
    timestamp_type: Int8s
    """The numbers are Kafka's: -1 none (v0), 0 create, 1 log append."""
    batch: Int32s | None = None
    sequence: Int32s | None = None
    """The producer's sequence number, -1 if the batch has none."""

    key_offsets: Int32s | None = None
    key_data: memoryview | None = None
    key_validity: Bitmap | None = None
    """None if no key is null (or keys were not requested)."""
    key_null_count: int = 0

    value_offsets: Int32s | None = None
    value_data: memoryview | None = None
    value_validity: Bitmap | None = None
    value_null_count: int = 0

    header_offsets: Int32s | None = None
    """n + 1 entries: record i has the headers from ``header_offsets[i]`` up to ``header_offsets[i + 1]``."""
    header_key_offsets: Int32s | None = None
    header_key_data: memoryview | None = None
    header_keys_are_utf8: bool = True
    """False if a header key is not UTF-8; Kafka's clients read these bytes as U+FFFD."""
    header_value_offsets: Int32s | None = None
    header_value_data: memoryview | None = None
    header_value_validity: Bitmap | None = None
    header_value_null_count: int = 0

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def key_valid(self) -> Bools | None:
        """A bool per record, or None if keys were not requested."""
        return None if self.key_offsets is None else _unpacked(self.key_validity, len(self))

    @property
    def value_valid(self) -> Bools | None:
        return None if self.value_offsets is None else _unpacked(self.value_validity, len(self))

    @property
    def header_value_valid(self) -> Bools | None:
        """A bool per header."""
        if self.header_value_offsets is None:
            return None
        return _unpacked(self.header_value_validity, len(self.header_value_offsets) - 1)

    @property
    def data_bytes(self) -> int:
        """The bytes of all data columns together."""
        data = (self.key_data, self.value_data, self.header_key_data, self.header_value_data)
        return sum(len(column) for column in data if column is not None)


def _unpacked(bitmap: Bitmap | None, count: int) -> Bools:
    if bitmap is None:
        return np.ones(count, np.bool_)
    return np.unpackbits(bitmap, count=count, bitorder="little").view(np.bool_)


class Payload(NamedTuple):
    """The fields of a batch; ``data`` has its records back to back, ready for a v2 header or a codec."""

    data: bytearray
    record_count: int
    last_offset_delta: int
    """The last record's delta; -1 without records."""
    base_timestamp: int
    """The base of the deltas: the first record's timestamp unless the caller gave another; -1 without records."""
    max_timestamp: int
    """The largest timestamp; -1 without records."""
