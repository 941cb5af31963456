"""What an encoder gives: the records of one batch, and the header fields that follow from them."""

from __future__ import annotations

from typing import NamedTuple


class Payload(NamedTuple):
    """``data`` holds ``record_count`` records back to back, as they stand behind a v2 header or go into a codec."""

    data: bytearray
    record_count: int
    last_offset_delta: int
    """-1 where there are no records."""
    base_timestamp: int
    """The deltas count from it: the first record's timestamp unless the caller gave another; -1 for no records."""
    max_timestamp: int
    """-1 where there are no records."""
