"""Partitions without a broker: real logs, and failures that a test controls."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tidelog.model import LogOffsetSnapshot, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.runtime import Clock
from tidelog.server.metadata.partition_state import NO_LEADER
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import NO_GUARD, AppendOrigin, VerificationGuard


class LocalPartition:
    """A partition that replicates immediately unless ``is_held``. Appends fail with ``error`` if it is set."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.error: ErrorCode | None = None
        self.is_held = False
        self._changed = asyncio.Event()

    def leading_log(self) -> PartitionLog:
        """Return the log. Too few replicas in sync refuse appends alone."""
        if self.error not in (None, ErrorCode.NOT_ENOUGH_REPLICAS):
            raise ApiError(self.error)
        return self.log

    def append(
        self,
        records: bytearray,
        *,
        required_acks: int = -1,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard = NO_GUARD,
        transaction_version: int = 0,
    ) -> AppendResult:
        if self.error is not None:
            raise ApiError(self.error)
        return self.log.append_as_leader(
            records, leader_epoch=0, origin=origin, guard=guard, transaction_version=transaction_version
        )

    async def replicated(self, end: int, timeout_ms: int) -> None:
        while self.is_held:
            self._changed.clear()
            await self._changed.wait()
        if self.error is not None:
            raise ApiError(self.error)

    def release(self) -> None:
        self.is_held = False
        self._changed.set()

    @property
    def offsets(self) -> LogOffsetSnapshot:
        return self.log.offsets()


class LocalReplicas:
    def __init__(self, directory: Path, clock: Clock, *, verifies_transactions: bool = True) -> None:
        self._directory = directory
        self._clock = clock
        self._verifies_transactions = verifies_transactions
        self._partitions: dict[TopicPartition, LocalPartition] = {}
        self.elsewhere: dict[TopicPartition, int] = {}
        """The leaders of the partitions that other brokers lead."""

    def make(self, name: TopicPartition) -> LocalPartition:
        log = PartitionLog.open(
            OpenRequest(
                fs=LOCAL,
                directory=self._directory / name.directory_name,
                clock=self._clock,
                config=LogConfig(),
                clean_shutdown=True,
                verifies_transactions=self._verifies_transactions,
            )
        )
        partition = self._partitions[name] = LocalPartition(log)
        return partition

    def partition(self, name: TopicPartition) -> LocalPartition:
        if name not in self._partitions:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._partitions[name]

    def delete(self, name: TopicPartition) -> None:
        self._partitions.pop(name).log.delete()

    def leader_of(self, name: TopicPartition) -> int | None:
        """Return None for a missing partition, and no leader if appends fail because there is none."""
        if name in self.elsewhere:
            return self.elsewhere[name]
        if name not in self._partitions:
            return None
        return NO_LEADER if self._partitions[name].error is ErrorCode.NOT_LEADER_OR_FOLLOWER else 1

    def close(self) -> None:
        for partition in self._partitions.values():
            partition.log.close()
