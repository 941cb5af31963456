"""The columns of records that tests write as Python values."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.kernel import RecordColumns
from tidelog.model import Record
from tidelog.record.rows import columns_from_lists


def columns_from_records(records: Iterable[Record]) -> RecordColumns:
    """Return the columns of ``records``, with their offsets and timestamps."""
    listed = list(records)
    columns = columns_from_lists(
        [record.value for record in listed],
        keys=[record.key for record in listed],
        timestamps=[record.timestamp for record in listed],
        headers=[record.headers for record in listed],
    )
    columns.offset[:] = [record.offset for record in listed]
    columns.timestamp_type[:] = [record.timestamp_type for record in listed]
    return columns
