"""A transaction coordinator over real logs. A test controls the clock and the event loop.

``begin`` starts a request and runs the loop until everything waits. ``run`` also requires that the request is done.
``crash`` discards the coordinator and elects a new one over the same logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from server.transactions.local_replicas import LocalPartition, LocalReplicas
from server.transactions.other_brokers import OtherBrokers
from tidelog.model import Record, TimestampType, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.record.build import build_batch
from tidelog.record.internal_records.transaction_record import (
    ProducerIdAndEpoch,
    TransactionRecord,
    TransactionState,
    key_of,
    value_of,
)
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.server.topics.internal_topics import partition_of
from tidelog.server.transactions.completions import Completions
from tidelog.server.transactions.coordinator import CoordinatorParts, TransactionCoordinator
from tidelog.server.transactions.coordinator_channels import CoordinatorLookup
from tidelog.server.transactions.marker_channels import MarkerChannels
from tidelog.server.transactions.markers import LocalMarkers
from tidelog.server.transactions.owned_partitions import OwnedPartitions
from tidelog.server.transactions.producer_ids import ProducerIds
from tidelog.server.transactions.rules.ending import Ending
from tidelog.server.transactions.rules.initialization import Initialization
from tidelog.server.transactions.settings import TransactionSettings
from tidelog.server.transactions.state_log import ReplicatedStateLog, load_records
from tidelog.server.transactions.verification import Membership, Operation, Verified
from tidelog.storage.producer import AppendOrigin, VerificationGuard
from tidelog.testing.manual_clock import ManualClock
from tidelog.testing.manual_timers import ManualTimers

T = TypeVar("T")
START = 1_700_000_000_000
TIMEOUT_MS = 60_000
STATE_PARTITIONS = 2
OWN_ID = 1


class CoordinatorHarness:
    def __init__(self, directory: Path, *, server_version: int = 2, block_size: int = 1000) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(START)
        self.timers = ManualTimers(self.clock)
        self.settings = TransactionSettings(add_retry_max_ms=100)
        self.replicas = LocalReplicas(directory, self.clock)
        self.server_version = server_version
        self.brokers = OtherBrokers()
        self.coordinator_id: int | None = OWN_ID
        """The broker that leads the partitions of all transactional ids."""
        self.verifies = True
        self.block_size = block_size
        self.next_block = 1000
        self.blocks_held: asyncio.Event | None = None
        self.completed_offsets: list[tuple[int, int, bool]] = []
        """The calls to the group coordinator after a marker."""
        self.announced_markers: list[tuple[int, int]] = []
        """The calls to it before a marker: the partition, and its log end offset."""
        self.epoch = 0
        for number in range(STATE_PARTITIONS):
            self.replicas.make(TopicPartition(TRANSACTION_STATE_TOPIC, number))
        self.crash()

    # --- the loop ---

    def run(self, request: Coroutine[Any, Any, T]) -> T:
        """Return the response after all its consequences have happened."""
        task = self.begin(request)
        assert task.done(), "the request has to wait"
        return task.result()

    def begin(self, request: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = self.loop.create_task(request)
        self.settle()
        return task

    def settle(self) -> None:
        async def turns() -> None:
            for _ in range(40):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def pass_time(self, duration_ms: int) -> None:
        """Advance the clock in steps, so that repeated delays all elapse."""
        self.settle()
        step = max(1, duration_ms // 10)
        for _ in range(0, duration_ms, step):
            self.clock.sleep_ms(step)
            self.settle()

    def close(self) -> None:
        self.coordinator.stop()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.settle()
        self.loop.close()
        self.replicas.close()

    # --- the coordinator ---

    def crash(self) -> None:
        """Replace the coordinator. Pending requests never finish, and the logs stay."""
        if self.epoch:
            self.coordinator.stop()
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.settle()
        self.epoch += 1
        self.coordinator: TransactionCoordinator = self._new_coordinator()
        self.coordinator.start()
        for number in range(STATE_PARTITIONS):
            self.coordinator.elected(number, self.epoch)
        self.settle()

    def _new_coordinator(self) -> TransactionCoordinator:
        replicas = cast(ReplicaManager, self.replicas)
        partitions = OwnedPartitions(
            ReplicatedStateLog(replicas, timers=self.timers, in_thread=_at_once, settings=self.settings),
            partition_of=lambda name: partition_of(name, STATE_PARTITIONS),
            server_version=lambda: self.server_version,
            spawn=self.loop.create_task,
        )
        markers = LocalMarkers(
            replicas,
            timers=self.timers,
            timeout_ms=1000,
            before_marker=self._before_marker,
            transaction_completed=self._transaction_completed,
        )
        self.channels = MarkerChannels(self.brokers.send, self.loop.create_task)
        self.completions = completions = Completions(
            partitions,
            node_id=OWN_ID,
            local=markers,
            channels=self.channels,
            leader_of=self.replicas.leader_of,
            timers=self.timers,
            spawn=self.loop.create_task,
        )
        return TransactionCoordinator(
            CoordinatorParts(
                partitions=partitions,
                completions=completions,
                markers=markers,
                producer_ids=ProducerIds(self._allocate, self.loop.create_task),
                replicas=replicas,
                lookup=CoordinatorLookup(
                    node_id=OWN_ID, coordinator_of=lambda _name: self.coordinator_id, send=self.brokers.send
                ),
                is_verification_enabled=lambda: self.verifies,
                settings=self.settings,
                timers=self.timers,
                spawn=self.loop.create_task,
            )
        )

    async def _allocate(self) -> range:
        if self.blocks_held is not None:
            await self.blocks_held.wait()
        first = self.next_block
        self.next_block += self.block_size
        return range(first, self.next_block)

    def _before_marker(self, number: int) -> None:
        log = self.replicas.partition(TopicPartition(GROUP_METADATA_TOPIC, number)).log
        self.announced_markers.append((number, log.end_offset))

    def _transaction_completed(self, partition: int, producer_id: int, committed: bool) -> None:
        self.completed_offsets.append((partition, producer_id, committed))

    # --- requests ---

    def initialize(self, name: str = "orders", named: ProducerIdAndEpoch | None = None) -> ProducerIdAndEpoch:
        return self.run(self.coordinator.initialize(name, Initialization(timeout_ms=TIMEOUT_MS, named=named)))

    def add(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, name: str = "orders") -> None:
        self.run(self.coordinator.add_partitions(name, producer, partitions, client_version=self.server_version))

    def end(self, producer: ProducerIdAndEpoch, committed: bool, *, name: str = "orders") -> ProducerIdAndEpoch:
        return self.run(self.ending(producer, committed, name=name))

    def ending(
        self, producer: ProducerIdAndEpoch, committed: bool, *, name: str = "orders"
    ) -> Coroutine[Any, Any, ProducerIdAndEpoch]:
        wish = Ending(producer=producer, committed=committed, client_version=self.server_version)
        return self.coordinator.end(name, wish)

    def verify(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        operation: Operation = Operation.ADD,
        name: str = "orders",
    ) -> dict[TopicPartition, Verified]:
        """Let time pass while the previous transaction is still being ended."""
        task = self.begin(self.verifying(producer, *partitions, operation=operation, name=name))
        while not task.done():
            self.pass_time(self.settings.add_retry_ms)
        return task.result()

    def verifying(
        self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, operation: Operation, name: str = "orders"
    ) -> Coroutine[Any, Any, dict[TopicPartition, Verified]]:
        sequences = dict.fromkeys(partitions, 0)
        membership = Membership(transactional_id=name, producer=producer, sequences=sequences, operation=operation)
        return self.coordinator.verification.verify(membership)

    # --- the logs ---

    def newest(self, name: str = "orders") -> TransactionRecord | None:
        """Return the newest record of the state log."""
        return load_records(self.state_partition(name).log, 1 << 20).get(name)

    def leave(self, name: str = "orders", **changes: Any) -> None:
        """Change the newest record, as another coordinator may have done before this one was elected."""
        record = self.newest(name)
        assert record is not None
        value = value_of(replace(record, **changes), self.server_version)
        written = build_batch([Record(0, self.clock.now_ms(), TimestampType.CREATE, key_of(name), value)])
        self.state_partition(name).append(written, origin=AppendOrigin.COORDINATOR)
        self.crash()

    def state(self, name: str = "orders") -> TransactionState | None:
        record = self.newest(name)
        return None if record is None else record.state

    def state_partition(self, name: str = "orders") -> LocalPartition:
        return self.replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, partition_of(name, STATE_PARTITIONS)))

    def append(
        self,
        partition: LocalPartition,
        producer: ProducerIdAndEpoch,
        value: bytes,
        *,
        sequence: int,
        guard: VerificationGuard,
    ) -> int:
        """Append one record of a transaction and return its offset."""
        batch = build_batch(
            [Record(0, self.clock.now_ms(), TimestampType.CREATE, None, value)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return partition.append(batch, guard=guard).last_offset


def _at_once(function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
    async def call() -> Any:
        return function(*arguments)

    return call()
