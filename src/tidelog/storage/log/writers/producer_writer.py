"""The appends of one producer id to one log: batches like a Kafka producer's, transaction markers.

A batch has the producer's id and epoch, the next sequence, base offset 0 and, in a transaction, the transactional bit.
It is appended like a client's. A marker is appended like a coordinator's, with the epoch of the last coordinator that
wrote one here. The next sequence comes from the log while the log remembers the producer. It is therefore right after a
failed append, too: only records that reached the log count.

A bulk append has as few batches as the log allows, each appended by itself. The log remembers a producer's last five
batches (only the last one after it was reopened from a snapshot), and these can be sent again. After 2^31 - 1 sequences
continue with 0.
Thread rule: one caller at a time, as ProducerSession ensures. Source: Kafka's ``RecordAccumulator``,
``TransactionManager`` (KIP-98).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from tidelog.kernel import encode_records, seal_batch
from tidelog.model import OutOfOrderSequenceError, TimestampType
from tidelog.record.attributes import TRANSACTIONAL_FLAG
from tidelog.record.batch_header import MAX_SEQUENCE
from tidelog.record.build import DEFAULT_MAX_BATCH_BYTES, build_batches, build_end_transaction_batch, sequence_after
from tidelog.record.compression import compress
from tidelog.record.control import EndTransactionMarker
from tidelog.runtime import Clock
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.writers.record_writer import Bytes, HeaderPairs, own_compression, records_to_append
from tidelog.storage.producer import AppendOrigin, ProducerEntry

if TYPE_CHECKING:
    import pyarrow

MAX_PRODUCER_EPOCH = 2**15 - 1
_FIRST_LEADER_EPOCH = 0
_FIRST_COORDINATOR_EPOCH = 0
_NO_BASE_OFFSET = bytes(8)


class ProducerWriter:
    """A writer for one thread at a time. Its appends raise the errors of ``PartitionLog.append_as_leader``, and
    ValueError for a ``sequence`` out of range.
    """

    def __init__(self, log: PartitionLog, clock: Clock, producer_id: int, producer_epoch: int) -> None:
        self.log = log
        self._clock = clock
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._appended_up_to = 0
        """The next sequence by this writer's own count, for a log that has forgotten the producer."""

    @property
    def next_sequence(self) -> int:
        """The next record's sequence, always right because it comes from the log."""
        entry = self._entry
        if entry is None:
            return self._appended_up_to
        if entry.producer_epoch != self._producer_epoch or not entry.batches:
            return 0
        return sequence_after(entry.last_sequence, 1)

    def append(
        self,
        value: Bytes | None,
        key: Bytes | None,
        headers: HeaderPairs,
        timestamp_ms: int | None,
        *,
        sequence: int | None = None,
        transactional: bool = False,
    ) -> int:
        """Append one record as a batch of its own and return its offset, or a duplicate's original offset."""
        codec, level = own_compression(self.log.config)
        timestamp = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        payload = encode_records(((0, timestamp, TimestampType.CREATE, key, value, headers),))
        data = bytearray(compress(codec, payload.data, level)) if codec else payload.data
        base_sequence = self._sequence(sequence)
        batch = seal_batch(
            data,
            last_offset_delta=payload.last_offset_delta,
            record_count=payload.record_count,
            base_timestamp=payload.base_timestamp,
            max_timestamp=payload.max_timestamp,
            attributes=codec | (TRANSACTIONAL_FLAG if transactional else 0),
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=base_sequence,
        )
        return self._append(batch, base_sequence, is_retry=sequence is not None).first_offset

    def append_batch(
        self,
        values: Sequence[Bytes | None] | pyarrow.RecordBatch | pyarrow.Table,
        *,
        keys: Sequence[Bytes | None] | None = None,
        headers: Sequence[HeaderPairs] | None = None,
        timestamps: Sequence[int | None] | None = None,
        sequence: int | None = None,
        transactional: bool = False,
    ) -> Sequence[int]:
        """Append many records and return their offsets, a range unless other writers appended in between.

        If an append of several batches fails, the earlier batches stay in the log.
        """
        codec, level = own_compression(self.log.config)
        now_ms = self._clock.now_ms()
        base_sequence = self._sequence(sequence)
        batches = build_batches(
            records_to_append(values, keys, headers, timestamps, now_ms),
            max_batch_bytes=min(
                DEFAULT_MAX_BATCH_BYTES, self.log.config.max_message_bytes, self.log.config.segment_bytes
            ),
            default_timestamp_ms=now_ms,
            codec=codec,
            level=level,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
        appended: list[range] = []
        for batch in batches:
            batch[:8] = _NO_BASE_OFFSET  # the CRC does not cover it
            result = self._append(batch, base_sequence, is_retry=sequence is not None)
            appended.append(result.offsets)
            base_sequence = sequence_after(base_sequence, len(result.offsets))
        return _merged_offsets(appended, self.log.end_offset)

    def end_transaction(self, *, committed: bool, producer_epoch: int | None = None) -> None:
        """Write the marker that ends the open transaction. Without one this is a no-op.

        A newer ``producer_epoch`` fences producers with this writer's epoch.
        """
        entry = self._entry
        if entry is None or entry.transaction_first_offset is None:
            return
        coordinator_epoch = max(_FIRST_COORDINATOR_EPOCH, entry.coordinator_epoch)
        marker = build_end_transaction_batch(
            EndTransactionMarker(committed=committed, coordinator_epoch=coordinator_epoch),
            base_offset=0,
            timestamp=self._clock.now_ms(),
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch if producer_epoch is None else producer_epoch,
        )
        self.log.append_as_leader(marker, leader_epoch=self._leader_epoch, origin=AppendOrigin.COORDINATOR)

    # --- inside ---

    @property
    def _entry(self) -> ProducerEntry | None:
        return self.log.producers.get(self._producer_id)

    @property
    def _leader_epoch(self) -> int:
        latest = self.log.epochs.latest
        return _FIRST_LEADER_EPOCH if latest is None else latest

    def _sequence(self, wanted: int | None) -> int:
        if wanted is None:
            return self.next_sequence
        if not 0 <= wanted <= MAX_SEQUENCE:
            raise ValueError(f"a sequence is a number from 0 to {MAX_SEQUENCE}, not {wanted}")
        return wanted

    def _append(self, batch: bytearray, base_sequence: int, *, is_retry: bool) -> AppendResult:
        try:
            result = self.log.append_as_leader(batch, leader_epoch=self._leader_epoch)
        except OutOfOrderSequenceError as error:
            if not is_retry:
                raise
            raise OutOfOrderSequenceError(
                f"{error.message}; the log has the records before next_sequence, and recognizes a repeated batch only"
                " if it is unchanged and among the producer's last batches",
                path=self.log.directory,
                offset=error.offset,
            ) from error
        if not result.is_duplicate:
            self._appended_up_to = sequence_after(base_sequence, len(result.offsets))
        return result


def _merged_offsets(appended: Sequence[range], log_end: int) -> Sequence[int]:
    """Return the offsets of several appends, as a range if they are contiguous."""
    if not appended:
        return range(log_end, log_end)
    count = sum(map(len, appended))
    whole = range(appended[0].start, appended[-1].stop)
    return whole if len(whole) == count else list(chain.from_iterable(appended))
