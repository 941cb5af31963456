"""The writer of records as batches of one log in this process, like a client library's producer.

Batches are encoded and compressed before the log's lock is taken. ``compression.type`` selects the codec; ``producer``
and ``none`` mean uncompressed. A bulk append is one append. Batches have no producer id, so duplicates are not
detected.
Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel import encode_records, seal_batch
from tidelog.model import InvalidRecordError, TimestampType
from tidelog.record.attributes import NONE
from tidelog.record.build import build_batches
from tidelog.record.compression import compress
from tidelog.record.rows import columns_from_lists
from tidelog.runtime import Clock
from tidelog.storage.log.append.append_rules import stored_compression
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig

if TYPE_CHECKING:
    import pyarrow

    from tidelog.kernel import RecordColumns

Bytes = bytes | bytearray | memoryview
HeaderPairs = Iterable[tuple[str, bytes | None]]
BULK_BATCH_BYTES = 16 * 1024
"""Size limit of a bulk append's batches before compression: the default ``batch.size`` of Kafka's producer."""


class RecordWriter:
    """A writer that appends records to a PartitionLog."""

    def __init__(self, log: PartitionLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._codec, self._level = own_compression(log.config)
        self._max_batch_bytes = min(BULK_BATCH_BYTES, log.config.max_message_bytes, log.config.segment_bytes)

    def append(self, value: Bytes | None, key: Bytes | None, headers: HeaderPairs, timestamp_ms: int | None) -> int:
        """Append one record as a batch of its own and return its offset. ``timestamp_ms`` None means now."""
        timestamp = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        record = (0, timestamp, TimestampType.CREATE, key, value, headers)
        data, count, last_offset_delta, base_timestamp, max_timestamp = encode_records((record,))
        if self._codec:
            data = bytearray(compress(self._codec, data, self._level))
        batch = seal_batch(
            data,
            last_offset_delta=last_offset_delta,
            record_count=count,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            attributes=self._codec,
        )
        return self._log.append(batch, built_here=True).start

    def append_batch(
        self,
        values: Sequence[Bytes | None] | pyarrow.RecordBatch | pyarrow.Table,
        *,
        keys: Sequence[Bytes | None] | None = None,
        headers: Sequence[HeaderPairs] | None = None,
        timestamps: Sequence[int | None] | None = None,
    ) -> range:
        """Append many records with one call into the log, and return their offsets."""
        now_ms = self._clock.now_ms()
        batches = build_batches(
            records_to_append(values, keys, headers, timestamps, now_ms),
            max_batch_bytes=self._max_batch_bytes,
            default_timestamp_ms=now_ms,
            codec=self._codec,
            level=self._level,
        )
        return self._log.append(_concatenated(batches), built_here=True)


def _concatenated(batches: Sequence[bytearray]) -> bytearray:
    return batches[0] if len(batches) == 1 else bytearray().join(batches)


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
