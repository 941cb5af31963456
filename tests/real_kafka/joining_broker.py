"""A broker of tidelog's cores that joins a cluster of real Kafka: its lifecycle and its copy of the metadata log.

It serves no clients. ``BrokerLifecycle`` and ``MetadataObserver`` decide everything; this driver sends their requests
over ``tidelog.client`` and keeps the metadata in a real ``PartitionLog``. The broker becomes ready as soon as it has
caught up, because it has no logs to load.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from random import Random
from typing import Any

from real_kafka.broker import CLUSTER_ID
from storage.log.log_harness import LogHarness
from tidelog.client import Address, ClientError, ClientSettings, Connection, open_connection
from tidelog.client.connection.connection import Decoder, Values
from tidelog.kernel import scan_batches
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch_response import SnapshotId, read_fetch_response
from tidelog.replication import BrokerLifecycle, BrokerState, LifecycleSettings, MetadataObserver, ObserverSettings
from tidelog.replication.broker_lifecycle import EnterState, SendHeartbeat, SendRegistration, StopBroker
from tidelog.replication.follower_commands import Append, SetHighWatermark, TruncateTo
from tidelog.replication.heartbeat import BrokerHeartbeatResponse
from tidelog.replication.observer_messages import (
    UNKNOWN,
    AddToSnapshot,
    AnnounceLeader,
    AvoidNode,
    BeginSnapshot,
    DropSnapshot,
    InstallSnapshot,
    QuorumNode,
    SendFetch,
    SendFetchSnapshot,
    WriteQuorumState,
)
from tidelog.replication.registration_request import BrokerEndpoint, BrokerRegistrationRequest
from tidelog.server.metadata.features import SUPPORTED
from tidelog.server.metadata.observer.lifecycle_driver import heartbeat_values, registration_values
from tidelog.server.metadata.observer.quorum_messages import (
    Observer,
    fetch_values,
    fetched_metadata,
    fetched_snapshot,
    snapshot_values,
)
from tidelog.storage.epoch import EpochEndOffset


class MetadataCopy:
    """The metadata log on the disk, above its last snapshot. It implements ``MetadataReplica``."""

    def __init__(self, directory: Path) -> None:
        self.harness = LogHarness(directory)
        self.log = self.harness.open()
        self.snapshot_id: SnapshotId | None = None
        self.snapshot = b""

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def last_epoch(self) -> int:
        latest = self.log.epochs.latest
        if latest is not None:
            return latest
        return 0 if self.snapshot_id is None else self.snapshot_id.epoch

    def end_of_epoch(self, epoch: int) -> EpochEndOffset:
        found = self.log.epochs.end_offset_for(epoch)
        return EpochEndOffset(self.last_epoch, self.end_offset) if found is None else found

    def has_snapshot(self, snapshot_id: SnapshotId) -> bool:
        return snapshot_id == self.snapshot_id


class JoiningBroker:
    def __init__(self, number: int, controllers: Iterable[str], directory: Path) -> None:
        """Keep the addresses ``HOST:PORT`` of the controllers. ``directory`` receives the metadata log."""
        addresses = [address.rpartition(":") for address in controllers]
        bootstrap = [QuorumNode(-2 - at, host, int(port)) for at, (host, _, port) in enumerate(addresses)]
        self.copy = MetadataCopy(directory)
        self.observer = MetadataObserver(
            self.copy, ObserverSettings(node_id=number, bootstrap=bootstrap), Random(number).randrange
        )
        self.log_dirs = (uuid.UUID(int=number << 64 | 1), uuid.UUID(int=number << 64 | 2))
        self.registration = BrokerRegistrationRequest(
            broker_id=number,
            cluster_id=CLUSTER_ID,
            incarnation_id=uuid.uuid4(),
            listeners=(BrokerEndpoint("INTERNAL", "127.0.0.1", 1), BrokerEndpoint("CLIENT", "127.0.0.1", 2)),
            features=SUPPORTED,
            log_dirs=self.log_dirs,
            rack="r",
        )
        self.names = Observer(
            cluster_id=CLUSTER_ID,
            node_id=number,
            directory_id=self.log_dirs[0],
            fetch_max_bytes=1 << 20,
            snapshot_max_bytes=700,  # several pieces, and none ends with a batch
        )
        self.lifecycle = BrokerLifecycle(self.registration, LifecycleSettings(heartbeat_interval_ms=400))
        self.quorum_states: list[tuple[int, int]] = []
        self.errors: list[ErrorCode] = []
        """The errors of registrations and heartbeats, and of the quorum."""
        self.snapshots = 0
        self.is_silent = False
        """True while the lifecycle gets no time: no heartbeat is sent."""
        self._partial = b""
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: dict[tuple[str, int, str], Connection] = {}
        self._news = asyncio.Event()

    async def run_until(self, is_so: Callable[[], bool], timeout_s: float = 60) -> None:
        """Let the broker live until the condition holds."""
        async with asyncio.timeout(timeout_s):
            while not is_so():
                self._go_on()
                self._news.clear()
                due = [self.observer.next_poll_ms, None if self.is_silent else self.lifecycle.next_tick_ms]
                wait_ms = min([max(0, at - now_ms()) for at in due if at is not None] + [50])
                try:
                    await asyncio.wait_for(self._news.wait(), wait_ms / 1000)
                except TimeoutError:
                    continue

    def start(self) -> None:
        self.take(self.observer.start(epoch=0, leader_id=UNKNOWN, voters={}))
        self.take(self.lifecycle.start(now_ms()))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._connections.values():
            connection.close()
        self.copy.harness.close()

    def _go_on(self) -> None:
        self.take(self.observer.poll(now_ms()))
        if not self.is_silent:
            self.take(self.lifecycle.tick(now_ms()))

    # --- commands ---

    def take(self, commands: Iterable[Any]) -> None:
        for command in commands:
            match command:
                case SendRegistration() | SendHeartbeat():
                    self._spawn(self._send_life(command))
                case SendFetch() | SendFetchSnapshot():
                    self._spawn(self._send_fetch(command))
                case EnterState(BrokerState.RECOVERY):
                    self.take(self.lifecycle.set_ready_to_unfence(now_ms()))
                case EnterState() | AnnounceLeader():
                    pass
                case WriteQuorumState(leader_id, epoch):
                    self.quorum_states.append((leader_id, epoch))
                case AvoidNode(_, error, _):
                    self.errors.append(error)
                case BeginSnapshot() | DropSnapshot():
                    self._partial = b""
                case AddToSnapshot(_, _, data):
                    self._partial += data
                case SetHighWatermark():
                    self.copy.log.update_high_watermark(command.offset)
                    self.lifecycle.metadata_offset = command.offset - 1
                case Append() | TruncateTo() | InstallSnapshot():
                    self._change(command)
                case StopBroker(reason):
                    raise AssertionError(reason)

    def _change(self, change: Append | TruncateTo | InstallSnapshot) -> None:
        match change:
            case Append():
                self.copy.log.append_as_follower(change.records, change.leader_epoch)
            case TruncateTo():
                self.copy.log.truncate_to(change.offset)
            case InstallSnapshot(snapshot_id, size):
                assert len(self._partial) == size
                assert len(scan_batches(self._partial)) > 0
                self.copy.log.truncate_fully_and_start_at(snapshot_id.end_offset)
                self.copy.snapshot_id, self.copy.snapshot = snapshot_id, self._partial
                self.snapshots += 1
        self.take(self.observer.written())

    # --- requests ---

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            self._news.set()

        task.add_done_callback(ended)

    async def _send(
        self, node: QuorumNode, purpose: str, api: ApiKey, values: Values, decode: Decoder | None = None
    ) -> Any:
        """Return the response, or None without one."""
        key = (node.host, node.port, purpose)
        connection = self._connections.get(key)
        try:
            if connection is None or not connection.is_open:
                address = Address(node.host, node.port)
                settings = ClientSettings(bootstrap=(address,), request_timeout_ms=2000)
                connection = self._connections[key] = await open_connection(address, settings, setup_timeout_ms=2000)
            return await connection.send(api, values, decode=decode)
        except ClientError:
            return None

    async def _send_life(self, command: SendRegistration | SendHeartbeat) -> None:
        leader = self.observer.leader
        if isinstance(command, SendRegistration):
            api, values = ApiKey.BROKER_REGISTRATION, registration_values(command.request)
        else:
            api, values = ApiKey.BROKER_HEARTBEAT, heartbeat_values(command.request)
        answer = None if leader is None else await self._send(leader, "life", api, values)
        error = ErrorCode.NOT_CONTROLLER if answer is None else ErrorCode(answer.error_code)
        if error is not ErrorCode.NONE:
            self.errors.append(error)
        if answer is None or error is ErrorCode.NOT_CONTROLLER:
            return self.take(self.lifecycle.fail_request(command.number, now_ms()))
        if isinstance(command, SendRegistration):
            epoch = answer.broker_epoch
            return self.take(self.lifecycle.registration_response(command.number, error, epoch, now_ms()))
        response = BrokerHeartbeatResponse(
            is_caught_up=answer.is_caught_up, is_fenced=answer.is_fenced, should_shut_down=answer.should_shut_down
        )
        return self.take(self.lifecycle.heartbeat_response(command.number, error, response, now_ms()))

    async def _send_fetch(self, command: SendFetch | SendFetchSnapshot) -> None:
        if isinstance(command, SendFetch):
            values = fetch_values(self.names, command.request, self.copy.log.log_start_offset)
            answer = await self._send(command.node, "fetch", ApiKey.FETCH, values, read_fetch_response)
        else:
            values = snapshot_values(self.names, command.request)
            answer = await self._send(command.node, "fetch", ApiKey.FETCH_SNAPSHOT, values)
        if answer is None:
            return self.take(self.observer.fail_request(command.number, now_ms()))
        if isinstance(command, SendFetch):
            return self.take(self.observer.fetched(command.number, fetched_metadata(answer), now_ms()))
        return self.take(self.observer.fetched_snapshot(command.number, fetched_snapshot(answer), now_ms()))


def now_ms() -> int:
    return int(time.monotonic() * 1000)
