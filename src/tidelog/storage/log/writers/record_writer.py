"""The writer of records as batches of one log in this process, like a client library's producer.

Batches are encoded and compressed before the log's lock is taken. ``compression.type`` selects the codec; ``producer``
and ``none`` mean uncompressed. A bulk append is one append. Batches have no producer id, so duplicates are not
detected.
Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.kernel import encode_records, seal_batch
from tidelog.model import TimestampType
from tidelog.record.build import build_batches
from tidelog.record.compression import compress
from tidelog.runtime import Clock
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.writers.record_input import Bytes, HeaderPairs, own_compression, records_to_append

if TYPE_CHECKING:
    import pyarrow

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
