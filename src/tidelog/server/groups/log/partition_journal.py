"""The journal of one shard: records appended to its partition of ``__consumer_offsets``, applied, and waited for.

What an append fails with is told in the words of a coordinator (``coordinator_log``).

State is that of the log's end, not of its high watermark: where replicas lag, a fetch may see a commit whose client has
not heard of it yet. Thread rule: the loop's.
Source: Kafka's ``CoordinatorRuntime``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.model import Record, TidelogError, TimestampType
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.record.build import build_batch
from tidelog.server.coordinator_log import coordinator_code
from tidelog.server.groups.journal import Done, TransactionalProducer
from tidelog.server.groups.log.group_record import GroupRecord
from tidelog.server.groups.log.replay import Replay
from tidelog.server.groups.settings import CoordinatorSettings
from tidelog.server.replicas.partition import Partition
from tidelog.server.timers import Timers
from tidelog.server.work import Spawn
from tidelog.storage.producer import NO_GUARD, AppendOrigin

_NO_PRODUCER: Final = -1


class PartitionJournal:
    """A ``Journal``; lost for good once the partition is another broker's."""

    def __init__(self, partition: Partition, *, timers: Timers, spawn: Spawn, settings: CoordinatorSettings) -> None:
        self.replay: Replay | None = None
        """Applies what is written; set when the shard is made."""
        self.is_lost = False
        self._partition = partition
        self._timers = timers
        self._spawn = spawn
        self._settings = settings
        self._end = 0
        """Behind the last record written here."""

    def write(self, records: Sequence[GroupRecord], done: Done, *, apply: bool = True) -> None:
        self._write(records, done, apply=apply)

    def write_transactional(self, records: Sequence[GroupRecord], producer: TransactionalProducer, done: Done) -> None:
        self._write(records, done, producer, apply=True)

    def _write(
        self,
        records: Sequence[GroupRecord],
        done: Done,
        producer: TransactionalProducer | None = None,
        *,
        apply: bool,
    ) -> None:
        if self.is_lost:
            done(ErrorCode.NOT_COORDINATOR)
            return
        if records:
            try:
                first = self._append(records, producer)
            except TidelogError as error:
                done(coordinator_code(error_code_of(error)))
                return
            if apply and self.replay is not None:
                producer_id = _NO_PRODUCER if producer is None else producer.producer_id
                for offset, record in enumerate(records, first):
                    self.replay.apply(record, offset, producer_id)
        self._tell_when_replicated(done)

    def _append(self, records: Sequence[GroupRecord], producer: TransactionalProducer | None) -> int:
        """The offset of the first record."""
        now_ms = self._timers.now_ms()
        batch = build_batch(
            [
                Record(offset, now_ms, TimestampType.CREATE, record.key_bytes(), record.value_bytes())
                for offset, record in enumerate(records)
            ],
            codec=self._settings.codec,
            producer_id=_NO_PRODUCER if producer is None else producer.producer_id,
            producer_epoch=-1 if producer is None else producer.producer_epoch,
            base_sequence=-1 if producer is None else 0,
            transactional=producer is not None,
        )
        guard = NO_GUARD if producer is None else producer.guard
        result = self._partition.append(bytearray(batch), origin=AppendOrigin.COORDINATOR, guard=guard)
        self._end = result.last_offset + 1
        return result.first_offset

    def _tell_when_replicated(self, done: Done) -> None:
        end = self._end
        error = self._partition.replication_error(end)
        if error is None:
            self._spawn(self._wait(end, done))
        else:
            done(coordinator_code(error))

    async def _wait(self, end: int, done: Done) -> None:
        try:
            await self._partition.replicated(end, self._settings.commit_timeout_ms)
            error = ErrorCode.NOT_COORDINATOR if self.is_lost else ErrorCode.NONE
        except ApiError as raised:
            error = coordinator_code(raised.code)
        done(error)
