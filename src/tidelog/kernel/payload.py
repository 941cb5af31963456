"""The result of an encoder: the records of a batch, and the header fields that follow from them."""

from __future__ import annotations

from typing import NamedTuple


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
