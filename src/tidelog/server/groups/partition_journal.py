"""The journal of one shard: gathers changes, appends them to ``__consumer_offsets`` and applies them.

A change completes when its batch is replicated. A ``GatheredBatch`` has the changes that share a batch.

=====================================  =============================================================================
change                                 handling
=====================================  =============================================================================
of a transaction; larger than a        appended alone, after the gathered batch; applied if the append succeeds
batch; any change with a linger of 0
any other                              applied at once, so that the next change builds on it, and added to the
                                       gathered batch
without records                        completed with the gathered batch, or with the last append
=====================================  =============================================================================

The gathered batch is appended when it is full, and before a record that must follow it in the log. The latest time
depends on the linger:

- with a linger of -1 (adaptive), after the requests that have already arrived. Changes share a batch if they arrive
  faster than they are handled, and a single change does not wait;
- with a linger above 0, that many ms after its first change.

A change that cannot be appended now (too few in-sync replicas, no leader) is refused before it is applied. A batch can
still fail, or begin at another offset because other records were appended first. The state then differs from the log:
every change in the batch fails, the journal is lost, and ``on_state_diverged`` starts a new read of the shard. Clients
get a coordinator's error codes (``coordinator_log``).

The state is that of the log end and the gathered batch, not of the high watermark. If replicas lag, OffsetFetch may see
a commit whose client has no response yet. OffsetFetch calls ``flush`` first, so a crash loses nothing that it
returned. After a crash the log has the appended batches, and no client has a response for the rest.
Thread rule: the event loop only. Source: Kafka's ``CoordinatorRuntime``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.model import Record, TidelogError, TimestampType
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.record.build import build_batch
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.runtime.executor import Spawn
from tidelog.runtime.timers import TimerHandle, Timers
from tidelog.server.groups.records.replay import Replay
from tidelog.server.groups.state.journal import Done, TransactionalProducer
from tidelog.server.groups.state.settings import CoordinatorSettings
from tidelog.server.replicas.partition import ACKS_ALL, Partition
from tidelog.server.topics.coordinator_log import coordinator_code
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.producer import NO_GUARD, AppendOrigin

_RECORD_OVERHEAD: Final = 32
"""An upper bound of a record's bytes without key and value: lengths, offset and time as variable-length integers."""


class RecordBytes(NamedTuple):
    key: bytes
    value: bytes | None

    @classmethod
    def of(cls, record: GroupRecord) -> RecordBytes:
        return cls(record.key_bytes(), record.value_bytes())


def size_of(records: Sequence[RecordBytes]) -> int:
    """Return an upper bound of the bytes that the records take in an uncompressed batch."""
    return sum(_RECORD_OVERHEAD + len(key) + (0 if value is None else len(value)) for key, value in records)


@dataclass(slots=True, kw_only=True)
class GatheredBatch:
    first_offset: int
    """The batch's expected base offset: correct unless other records are appended to the partition first."""
    records: list[RecordBytes] = field(default_factory=list)
    size: int = V2_HEADER_BYTES
    """An upper bound of its size in bytes."""
    waiting: list[Done] = field(default_factory=list)
    is_applied: bool = False
    """The shard's state already has a part of it."""

    def add(self, records: Sequence[RecordBytes], done: Done) -> int:
        """Add one change. Return the offset that its first record will have."""
        first = self.first_offset + len(self.records)
        self.records += records
        self.size += size_of(records)
        self.waiting.append(done)
        return first


_NO_PRODUCER: Final = -1
ADAPTIVE: Final = -1
"""The linger that adapts to the load."""
_COMPRESSED_RESERVE: Final = 16
"""A 16th of the largest batch is left free, because compression can enlarge incompressible data."""

_log = logging.getLogger(__name__)


class PartitionJournal:
    """A ``Journal``. It is lost for good when another broker gets the partition, or when the log must be read again."""

    def __init__(
        self,
        partition: Partition,
        *,
        timers: Timers,
        spawn: Spawn,
        settings: CoordinatorSettings,
        on_state_diverged: Callable[[], None],
    ) -> None:
        self.replay: Replay | None = None
        """The object that applies written records. It is set when the shard is created."""
        self.is_lost = False
        self._partition = partition
        self._timers = timers
        self._spawn = spawn
        self._settings = settings
        self._on_state_diverged = on_state_diverged
        self._end = 0
        """The offset after the last record written here."""
        self._batch: GatheredBatch | None = None
        self._timer: TimerHandle | None = None

    def write(self, records: Sequence[GroupRecord], done: Done, *, apply: bool = True) -> None:
        if self.is_lost:
            done(ErrorCode.NOT_COORDINATOR)
        elif records:
            self._write(records, done, apply=apply)
        elif self._batch is not None:
            self._batch.waiting.append(done)
        else:
            self._complete_when_replicated([done])

    def write_transactional(self, records: Sequence[GroupRecord], producer: TransactionalProducer, done: Done) -> None:
        if self.is_lost:
            done(ErrorCode.NOT_COORDINATOR)
        elif records:
            self._write_alone(records, [RecordBytes.of(record) for record in records], done, producer, apply=True)
        else:
            self.write(records, done)

    def flush(self) -> None:
        """Append the gathered batch."""
        batch, self._batch = self._batch, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if batch is None:
            return
        error = ErrorCode.NOT_COORDINATOR
        try:
            result = self._append(batch.records)
        except TidelogError as raised:
            error = coordinator_code(error_code_of(raised))
        else:
            if result.first_offset == batch.first_offset or not batch.is_applied:
                self._complete_when_replicated(batch.waiting)
                return
        if batch.is_applied:
            _log.error(
                "%s: a batch failed with %s; the groups are loaded again", self._partition.topic_partition, error.name
            )
            self.is_lost = True
            asyncio.get_running_loop().call_soon(self._on_state_diverged)
        _complete(batch.waiting, error)

    def resign(self) -> None:
        """Fail the gathered changes and refuse later ones, because another broker has the partition."""
        self.is_lost = True
        batch, self._batch = self._batch, None
        if batch is not None:
            _complete(batch.waiting, ErrorCode.NOT_COORDINATOR)

    # --- inside ---

    def _write(self, records: Sequence[GroupRecord], done: Done, *, apply: bool) -> None:
        try:
            log = self._partition.require_appendable(ACKS_ALL)
        except ApiError as error:
            done(coordinator_code(error.code))
            return
        encoded = [RecordBytes.of(record) for record in records]
        size, limit = size_of(encoded), log.config.max_message_bytes
        room = limit - limit // _COMPRESSED_RESERVE
        while self._batch is not None and self._batch.size + size > room:
            self.flush()
        if self.is_lost or self._settings.append_linger_ms == 0 or V2_HEADER_BYTES + size > room:
            self._write_alone(records, encoded, done, apply=apply)
            return
        if self._batch is None:
            self._batch = GatheredBatch(first_offset=log.end_offset)
            self._flush_later(self._batch)
        first = self._batch.add(encoded, done)
        if apply:
            self._batch.is_applied = True
            self._apply(records, first)

    def _flush_later(self, batch: GatheredBatch) -> None:
        linger_ms = self._settings.append_linger_ms
        if linger_ms != ADAPTIVE:
            self._timer = self._timers.call_later(linger_ms, self.flush)
            return

        def flush() -> None:
            if self._batch is batch:
                self.flush()

        loop = asyncio.get_running_loop()
        # Twice: a callback of the next turn alone would run before the requests that have arrived by then.
        loop.call_soon(lambda: loop.call_soon(flush))

    def _write_alone(
        self,
        records: Sequence[GroupRecord],
        encoded: Sequence[RecordBytes],
        done: Done,
        producer: TransactionalProducer | None = None,
        *,
        apply: bool,
    ) -> None:
        self.flush()
        if self.is_lost:
            done(ErrorCode.NOT_COORDINATOR)
            return
        try:
            result = self._append(encoded, producer)
        except TidelogError as error:
            done(coordinator_code(error_code_of(error)))
            return
        if apply:
            self._apply(records, result.first_offset, _NO_PRODUCER if producer is None else producer.producer_id)
        self._complete_when_replicated([done])

    def _apply(self, records: Sequence[GroupRecord], first: int, producer_id: int = _NO_PRODUCER) -> None:
        if self.replay is not None:
            for offset, record in enumerate(records, first):
                self.replay.apply(record, offset, producer_id)

    def _append(self, records: Sequence[RecordBytes], producer: TransactionalProducer | None = None) -> AppendResult:
        now_ms = self._timers.now_ms()
        batch = build_batch(
            [Record(offset, now_ms, TimestampType.CREATE, *record) for offset, record in enumerate(records)],
            codec=self._settings.codec,
            producer_id=_NO_PRODUCER if producer is None else producer.producer_id,
            producer_epoch=-1 if producer is None else producer.producer_epoch,
            base_sequence=-1 if producer is None else 0,
            transactional=producer is not None,
        )
        guard = NO_GUARD if producer is None else producer.guard
        result = self._partition.append(bytearray(batch), origin=AppendOrigin.COORDINATOR, guard=guard)
        self._end = result.last_offset + 1
        return result

    def _complete_when_replicated(self, waiting: Sequence[Done]) -> None:
        end = self._end
        error = self._partition.replication_error(end)
        if error is None:
            self._spawn(self._wait(end, waiting))
        else:
            _complete(waiting, coordinator_code(error))

    async def _wait(self, end: int, waiting: Sequence[Done]) -> None:
        try:
            await self._partition.replicated(end, self._settings.commit_timeout_ms)
            error = ErrorCode.NOT_COORDINATOR if self.is_lost else ErrorCode.NONE
        except ApiError as raised:
            error = coordinator_code(raised.code)
        _complete(waiting, error)


def _complete(waiting: Sequence[Done], error: ErrorCode) -> None:
    """Call each callback in the sequence of the changes. An exception in one does not affect the others."""
    for done in waiting:
        try:
            done(error)
        except Exception:
            _log.exception("A callback failed after a change of a group was written or refused")
