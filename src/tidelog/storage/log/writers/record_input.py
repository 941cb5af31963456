"""The input of appends before it becomes batches: lists or Arrow data as columns, and the log's codec.

Pure. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tidelog.model import InvalidRecordError
from tidelog.record.attributes import NONE
from tidelog.record.rows import columns_from_lists
from tidelog.storage.log.append.append_rules import stored_compression
from tidelog.storage.log.config import LogConfig

if TYPE_CHECKING:
    import pyarrow

    from tidelog.kernel import RecordColumns

Bytes = bytes | bytearray | memoryview
HeaderPairs = Iterable[tuple[str, bytes | None]]


def records_to_append(
    values: Sequence[Bytes | None] | pyarrow.RecordBatch | pyarrow.Table,
    keys: Sequence[Bytes | None] | None,
    headers: Sequence[HeaderPairs] | None,
    timestamps: Sequence[int | None] | None,
    now_ms: int,
) -> RecordColumns | pyarrow.RecordBatch | pyarrow.Table:
    """Return lists as columns, and Arrow data unchanged. ``now_ms`` replaces timestamps that are None.

    Raise InvalidRecordError if lists come with Arrow data, and ValueError or TypeError as ``columns_from_lists`` does.
    """
    if isinstance(values, Sequence):
        return columns_from_lists(
            values, keys=keys, timestamps=timestamps, headers=headers, default_timestamp_ms=now_ms
        )
    if keys is not None or headers is not None or timestamps is not None:
        raise InvalidRecordError("Arrow data has its own columns: pass keys, headers and timestamps only with lists")
    return values


def own_compression(config: LogConfig) -> tuple[int, int | None]:
    """Return codec number and level for batches made here: ``producer`` and ``none`` mean uncompressed."""
    codec, level = stored_compression(config)
    return (NONE if codec is None else codec), level
