"""A broker of the simulation: registration, heartbeats, metadata, and the drivers of its partitions.

States: *down* -> ``start`` -> *starting* (registers, reads the metadata up to its registration) -> *running* (may be
fenced) -> *stopping* (controlled shutdown) -> *down*. A crash leads to *down* from every state. Messages are those of
the network; the run calls ``receive``, ``read_metadata`` and ``tick``.
"""

from __future__ import annotations

import enum
import uuid
from typing import Protocol

from simulation.controller import Controller
from simulation.following import FollowingDriver
from simulation.history import History, name_of
from simulation.leading import LeadingDriver, PendingAck, Surroundings
from simulation.machine import Machine
from simulation.network import CONTROLLER, Message, Network
from simulation.plan import Shape
from simulation.replica import Replica
from simulation.requests import (
    AlterPartition,
    AlterPartitionResponse,
    Fetch,
    Fetched,
    ListedOffsets,
    ListOffsets,
    Register,
    Registered,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import FetchPosition, NamedOffset
from tidelog.replication import ListOffsets as ListCommand
from tidelog.replication.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.partition_state import NO_LEADER, PartitionState
from tidelog.testing import ManualClock

HEARTBEAT_MS = 2_000
_UNKNOWN_EPOCH = -1


class Phase(enum.Enum):
    DOWN = "down"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class Observer(Protocol):
    """The receiver of a broker's reports: the run."""

    def begins_to_lead(self, broker: Broker, partition: int) -> None: ...

    def advanced(self, broker: Broker, partition: int) -> None: ...

    def acknowledged(self, broker: Broker, partition: int, ack: PendingAck, epoch: int) -> None: ...

    def agrees(self, broker: Broker, replica: Replica, epoch: int) -> None:
        """Note a fetch response in ``epoch`` that found no divergence."""
        ...


class Broker:
    def __init__(
        self,
        node_id: int,
        shape: Shape,
        clock: ManualClock,
        network: Network,
        controller: Controller,
        history: History,
        observer: Observer,
    ) -> None:
        self.node_id = node_id
        self.machine = Machine(node_id, shape, clock)
        self.phase = Phase.DOWN
        self.epoch = _UNKNOWN_EPOCH
        self.incarnation = uuid.UUID(int=node_id)
        self.leading: dict[int, LeadingDriver] = {}
        self.following: dict[int, FollowingDriver] = {}
        self.partitions: dict[int, PartitionState] = {}
        """The metadata that the broker has applied."""
        self.registrations: dict[int, BrokerRegistration] = {}
        self._shape = shape
        self._clock = clock
        self._network = network
        self._controller = controller
        self._history = history
        self._observer = observer
        self._requests: dict[int, tuple[object, object]] = {}
        """The driver and the request of each awaited response, by correlation id."""
        self._applied = 0
        """The number of applied entries of the metadata log."""
        self._metadata_offset = -1
        self._previous_epoch: int | None = None
        self._is_fenced = True
        self._starts = 0
        self._heartbeat: int | None = None
        self._heartbeat_ms = 0
        self._registering: int | None = None

    @property
    def is_up(self) -> bool:
        return self.phase is not Phase.DOWN

    @property
    def is_current(self) -> bool:
        """True if the controller's registration is that of this incarnation."""
        registration = self._controller.image.brokers.get(self.node_id)
        return self.is_up and registration is not None and registration.epoch == self.epoch

    # --- start and end ---

    def begin_running(self) -> None:
        """Begin as a running broker of a new cluster, which has read all metadata."""
        self.machine.start()
        self.phase = Phase.RUNNING
        self._is_fenced = False
        self.epoch = self._controller.image.brokers[self.node_id].epoch
        self._read_all()

    def start(self) -> None:
        """Start the process: load the logs and register."""
        self._starts += 1
        self.incarnation = uuid.UUID(int=self._starts * 1000 + self.node_id)
        self._previous_epoch = self.machine.start()
        self.phase, self.epoch = Phase.STARTING, _UNKNOWN_EPOCH
        self._applied, self._metadata_offset = 0, -1
        self.partitions, self.registrations = {}, {}
        self._is_fenced = True
        for partition, replica in sorted(self.machine.replicas.items()):
            self._history.note(
                "broker {} starts and loads {}: offsets {} to {}, high watermark {}",
                self.node_id,
                name_of(partition),
                replica.start,
                replica.end,
                replica.high_watermark,
            )
        self._register()

    def shut_down(self) -> None:
        """Begin a controlled shutdown."""
        if self.phase is Phase.RUNNING:
            self._history.note("broker {} begins a controlled shutdown", self.node_id)
            self.phase = Phase.STOPPING
            self._send_heartbeat()

    def crashed(self, lost: int | None) -> None:
        """Note that the process has ended without warning."""
        self.machine.crash(lost)
        self._forget()

    def _forget(self) -> None:
        self.phase = Phase.DOWN
        self.leading, self.following = {}, {}
        self._requests = {}
        self._heartbeat = self._registering = None
        self._network.forget(self.node_id)

    # --- messages ---

    def receive(self, message: Message) -> None:
        now_ms = self._clock.now
        if message.is_response:
            asked = self._requests.pop(message.correlation_id, None)
            if asked is not None:
                self._handle_response(message.correlation_id, *asked, message.body, now_ms)
        else:
            self._network.respond(message, self._handle(message.body, now_ms))

    def _handle(self, body: object, now_ms: int) -> object:
        assert isinstance(body, Fetch | ListOffsets), body
        leading = self.leading.get(body.partition)
        if leading is None:
            error = self._not_leader_error(body.partition, body.leader_epoch)
            return Fetched(error) if isinstance(body, Fetch) else ListedOffsets(error)
        return leading.fetch(body, now_ms) if isinstance(body, Fetch) else leading.list_offsets(body)

    def _not_leader_error(self, partition: int, leader_epoch: int) -> ErrorCode:
        state = self.partitions.get(partition)
        if state is not None and leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if state is not None and leader_epoch > state.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _handle_response(self, correlation_id: int, driver: object, asked: object, body: object, now_ms: int) -> None:
        if isinstance(driver, FollowingDriver):
            assert isinstance(asked, FetchPosition | ListCommand)
            driver.respond(correlation_id, asked, body, now_ms)
            if isinstance(body, Fetched) and body.error is ErrorCode.NONE and body.diverging is None:
                self._observer.agrees(self, driver.replica, asked.leader_epoch)
        elif isinstance(driver, LeadingDriver):
            assert body is None or isinstance(body, AlterPartitionResponse)
            if driver is self.leading.get(driver.replica.partition):
                driver.altered(body, now_ms)
        elif isinstance(asked, Register):
            self._registering = None
            if isinstance(body, Registered) and body.error is ErrorCode.NONE:
                self.epoch = body.epoch
        else:
            self._heartbeat = None
            if isinstance(body, BrokerHeartbeatResponse):
                self._take_heartbeat(body)

    def _request(self, receiver: int, body: object, driver: object, asked: object) -> int:
        correlation_id = self._network.request(self.node_id, receiver, body)
        self._requests[correlation_id] = (driver, asked)
        return correlation_id

    # --- life ---

    def tick(self) -> None:
        """Run everything that is due: fetches after a back-off, ISR checks, heartbeats, a repeated registration."""
        now_ms = self._clock.now
        for following in list(self.following.values()):
            following.go_on(now_ms)
        for leading in list(self.leading.values()):
            leading.tick(now_ms)
        if self.phase is Phase.STARTING and self.epoch == _UNKNOWN_EPOCH:
            self._register()
        elif self._heartbeat is None and now_ms - self._heartbeat_ms >= HEARTBEAT_MS:
            self._send_heartbeat()

    def _register(self) -> None:
        if self._registering is None:
            body = Register(self.node_id, self.incarnation, self._previous_epoch)
            self._registering = self._request(CONTROLLER, body, None, body)

    def _send_heartbeat(self) -> None:
        if self.epoch == _UNKNOWN_EPOCH or self._heartbeat is not None:
            return
        body = BrokerHeartbeatRequest(
            broker_id=self.node_id,
            broker_epoch=self.epoch,
            metadata_offset=self._metadata_offset,
            wants_fence=self.phase is Phase.STARTING,
            wants_shutdown=self.phase is Phase.STOPPING,
        )
        self._heartbeat_ms = self._clock.now
        self._heartbeat = self._request(CONTROLLER, body, None, body)

    def _take_heartbeat(self, response: BrokerHeartbeatResponse) -> None:
        self._is_fenced = response.is_fenced
        if self.phase is Phase.STOPPING and response.should_shut_down:
            self._history.note("broker {} shuts down cleanly", self.node_id)
            self.machine.shut_down(self.epoch)
            self._forget()

    # --- metadata ---

    def read_metadata(self, entries: int) -> None:
        """Apply the next entries of the metadata log. The first image of a start is read as a whole."""
        log = self._controller.log
        if self.phase is Phase.STARTING:
            if self.epoch != _UNKNOWN_EPOCH and log[-1].end_offset > self.epoch:
                self._read_all()
                self.phase = Phase.RUNNING
                self._send_heartbeat()
            return
        for entry in log[self._applied : self._applied + entries]:
            self._applied += 1
            self._metadata_offset = entry.end_offset - 1
            self.registrations.update(entry.brokers)
            for partition, state in entry.partitions.items():
                self._apply(partition, state)

    @property
    def metadata_lag(self) -> int:
        return len(self._controller.log) - self._applied

    def _read_all(self) -> None:
        controller = self._controller
        self._applied = len(controller.log)
        self._metadata_offset = controller.end_offset - 1
        self.registrations = dict(controller.image.brokers)
        for partition in [one for one in self.machine.replicas if one not in controller.partitions]:
            self.machine.delete(partition)
        for partition, state in controller.partitions.items():
            self._apply(partition, state)

    def _apply(self, partition: int, state: PartitionState) -> None:
        known = self.partitions.get(partition)
        if known is not None and state.partition_epoch <= known.partition_epoch:
            return
        self.partitions[partition] = state
        if self.node_id not in state.replicas:
            self._leave(partition)
            return
        if partition not in self.machine.replicas:
            self.machine.create(partition)
        if state.leader == self.node_id:
            self._lead(partition, state)
        else:
            self._follow(partition, state)

    def _leave(self, partition: int) -> None:
        self.leading.pop(partition, None)
        following = self.following.pop(partition, None)
        if following is not None:
            following.stop()
        if partition in self.machine.replicas:
            self._history.note("broker {} deletes its replica of {}", self.node_id, name_of(partition))
            self.machine.delete(partition)

    def _lead(self, partition: int, state: PartitionState) -> None:
        leading = self.leading.get(partition)
        if leading is not None and leading.state.leader_epoch == state.leader_epoch:
            if state.partition_epoch > leading.state.partition_epoch:
                leading.update(state, self._clock.now)
            return
        following = self.following.pop(partition, None)
        if following is not None:
            following.stop()
        leading = LeadingDriver(self.machine.replicas[partition], state, self._surroundings())
        self.leading[partition] = leading
        self._observer.begins_to_lead(self, partition)
        leading.begin(self._clock.now)

    def _follow(self, partition: int, state: PartitionState) -> None:
        self.leading.pop(partition, None)
        if partition not in self.following:
            self.following[partition] = FollowingDriver(
                self.machine.replicas[partition], self._send_fetch, self.machine.delete_below, self._history
            )
        following = self.following[partition]
        if state.leader == NO_LEADER:
            following.stop()
        else:
            following.follow(state.leader, state.leader_epoch, self._clock.now)

    def _send_fetch(self, leader_id: int, driver: FollowingDriver, asked: FetchPosition | ListCommand) -> int:
        partition = driver.replica.partition
        body: Fetch | ListOffsets
        if isinstance(asked, FetchPosition):
            body = Fetch(
                broker_id=self.node_id,
                broker_epoch=self.epoch,
                partition=partition,
                offset=asked.offset,
                leader_epoch=asked.leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
            )
        else:
            body = ListOffsets(
                partition=partition,
                leader_epoch=asked.leader_epoch,
                is_earliest=asked.timestamp is NamedOffset.EARLIEST,
            )
        return self._request(leader_id, body, driver, asked)

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            node_id=self.node_id,
            min_isr=self._shape.min_isr,
            broker_epoch=lambda: self.epoch,
            registration=self.registrations.get,
            send=self._send_alter_partition,
            acknowledge=lambda partition, ack, epoch: self._observer.acknowledged(self, partition, ack, epoch),
            advanced=lambda partition: self._observer.advanced(self, partition),
            history=self._history,
        )

    def _send_alter_partition(self, body: AlterPartition) -> None:
        self._request(CONTROLLER, body, self.leading[body.partition], body)
