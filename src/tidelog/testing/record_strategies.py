"""Hypothesis strategies for records: all fields, extreme timestamps, rising offsets with gaps.

The module needs the extra ``testing`` (hypothesis), so the package does not export it.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tidelog.model import Header, Record, TimestampType

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)

byte_strings = st.none() | st.binary(max_size=20)
"""Keys and values."""
timestamps = st.integers(-1, 2**45) | st.sampled_from([-1, 0, 2**31, 2**53, MAX_INT64, MIN_INT64])
"""Timestamps in milliseconds."""
headers = st.lists(st.builds(Header, st.text("kü€😀", max_size=3), byte_strings), max_size=3).map(tuple)


@st.composite
def records_of(
    draw: st.DrawFn, *, min_size: int = 0, max_size: int = 10, timestamp_type: TimestampType | None = None
) -> list[Record]:
    """Draw records with rising offsets, some beyond 31 bits, with or without gaps."""
    types = st.sampled_from(TimestampType) if timestamp_type is None else st.just(timestamp_type)
    record = st.builds(Record, st.integers(1, 3), timestamps, types, byte_strings, byte_strings, headers)
    records = draw(st.lists(record, min_size=min_size, max_size=max_size))
    offset = draw(st.sampled_from([0, 1, 2**31 - 5, 2**31 + 5, 2**62]))
    numbered = []
    for drawn in records:
        offset += drawn.offset
        numbered.append(drawn._replace(offset=offset))
    return numbered
