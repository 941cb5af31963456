"""A broker of the simulation: its machine, its metadata, and the drivers of its cores.

A broker is *down*, or its lifecycle is in one of the states of ``BrokerState``. In STARTING it registers and reads the
metadata up to its registration. In RECOVERY it loads its logs and applies that metadata. A crash ends every state.
Messages are those of the network; the run calls ``receive``, ``read_metadata`` and ``tick``.
"""

from __future__ import annotations

import uuid
from typing import Protocol

from simulation.controller import TOPIC_ID, Controller
from simulation.following import FollowingDriver
from simulation.history import History, name_of
from simulation.leading import LeadingDriver, PendingAck, Surroundings
from simulation.machine import Machine
from simulation.network import CONTROLLER, Message, Network
from simulation.plan import Shape
from simulation.registering import RegisteringDriver
from simulation.replica import Replica
from simulation.requests import AlterPartition, AlterPartitionResponse, Fetch, Fetched, ListedOffsets, ListOffsets
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import (
    AlterPartitionBatch,
    AlterPartitions,
    BrokerState,
    FetchPosition,
    IsrProposal,
    NamedOffset,
)
from tidelog.replication import ListOffsets as ListCommand
from tidelog.replication.heartbeat import BrokerHeartbeatRequest
from tidelog.replication.registration_request import BrokerRegistrationRequest
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.partition_state import NO_LEADER, PartitionState
from tidelog.testing import ManualClock


class Observer(Protocol):
    """The receiver of a broker's reports: the run."""

    def begins_to_lead(self, broker: Broker, partition: int) -> None: ...

    def advanced(self, broker: Broker, partition: int) -> None: ...

    def acknowledged(self, broker: Broker, partition: int, ack: PendingAck, epoch: int) -> None: ...

    def opened(self, broker: Broker, replica: Replica) -> None:
        """Note a log that was loaded or created."""
        ...

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
        self.machine = Machine(node_id, shape, clock, controller.touched)
        self.leading: dict[int, LeadingDriver] = {}
        """The partitions that the broker leads, by its own metadata."""
        self.partitions: dict[int, PartitionState] = {}
        """The metadata that the broker has applied."""
        self.registrations: dict[int, BrokerRegistration] = {}
        self.life: RegisteringDriver | None = None
        """The driver of the lifecycle; None while the broker is down."""
        self._clock = clock
        self._network = network
        self._controller = controller
        self._history = history
        self._observer = observer
        self._incarnations = 0
        self._following: dict[int, FollowingDriver] = {}
        self._led: dict[int, LeadingDriver] = {}
        """The drivers of partitions that the broker leads or has led."""
        self._alterations = AlterPartitions()
        self._requests: dict[int, tuple[object, object]] = {}
        """The driver and the request of each awaited response, by correlation id."""
        self._read = 0
        """The number of entries of the metadata log that were read."""

    # --- state ---

    @property
    def is_up(self) -> bool:
        return self.life is not None

    @property
    def state(self) -> BrokerState:
        return BrokerState.NOT_RUNNING if self.life is None else self.life.core.state

    @property
    def epoch(self) -> int:
        return -1 if self.life is None else self.life.core.broker_epoch

    @property
    def is_current(self) -> bool:
        """True if the controller's registration is that of this incarnation."""
        registration = self._controller.image.brokers.get(self.node_id)
        return self.is_up and registration is not None and registration.epoch == self.epoch

    def active_epoch(self, broker_id: int) -> int | None:
        """Return the epoch of a registered broker that is not fenced, or None."""
        registration = self.registrations.get(broker_id)
        return None if registration is None or registration.is_fenced else registration.epoch

    def is_shutting_down(self, broker_id: int) -> bool:
        registration = self.registrations.get(broker_id)
        return registration is not None and registration.in_controlled_shutdown

    # --- start and end ---

    def start(self) -> None:
        """Start the process: open the log directory and register."""
        previous_epoch = self.machine.open()
        self._incarnations += 1
        incarnation = uuid.UUID(int=self._incarnations * 1000 + self.node_id)
        self._read = 0
        self.partitions, self.registrations = {}, {}
        self._alterations = AlterPartitions()
        self._history.note(
            "broker {} starts after {}",
            self.node_id,
            "an unclean shutdown" if previous_epoch is None else f"a clean shutdown in broker epoch {previous_epoch}",
        )
        self.life = RegisteringDriver(self.node_id, incarnation, previous_epoch, self._send_life, self._entered)
        self.life.run(self.life.core.start(self._clock.now))

    def shut_down(self) -> None:
        """Begin a controlled shutdown."""
        if self.life is not None and self.state is BrokerState.RUNNING:
            self._history.note("broker {} asks for a controlled shutdown", self.node_id)
            self.life.run(self.life.core.begin_controlled_shutdown(self._clock.now))

    def crashed(self, lost: int | None) -> None:
        """Note that the process has ended without warning."""
        self.machine.crash(lost)
        self._forget()

    def _entered(self, state: BrokerState) -> None:
        assert self.life is not None
        self._controller.touch_all()
        if state is BrokerState.RECOVERY:
            self._load()
        elif state is BrokerState.SHUTTING_DOWN:
            self._history.note("broker {} shuts down cleanly in broker epoch {}", self.node_id, self.epoch)
            self.machine.shut_down(self.epoch)
            self._forget()

    def _load(self) -> None:
        """Load the logs, and apply the metadata that was read."""
        assert self.life is not None
        self.machine.load()
        for partition, replica in sorted(self.machine.replicas.items()):
            self._observer.opened(self, replica)
            self._history.note(
                "broker {} loads {}: offsets {} to {}, high watermark {}",
                self.node_id,
                name_of(partition),
                replica.start,
                replica.end,
                replica.high_watermark,
            )
        states: dict[int, PartitionState] = {}
        for entry in self._controller.log[: self._read]:
            states.update(entry.partitions)
            self.registrations.update(entry.brokers)
        for partition in [one for one in self.machine.replicas if one not in states]:
            self.machine.delete(partition)
        for partition, state in states.items():
            self._apply(partition, state)
        self.life.run(self.life.core.set_ready_to_unfence(self._clock.now))

    def _forget(self) -> None:
        self.life = None
        self.leading, self._following, self._led = {}, {}, {}
        self._requests = {}
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
        if state is None or leader_epoch == state.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.FENCED_LEADER_EPOCH if leader_epoch < state.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _handle_response(self, correlation_id: int, driver: object, asked: object, body: object, now_ms: int) -> None:
        if isinstance(driver, FollowingDriver):
            assert isinstance(asked, FetchPosition | ListCommand)
            driver.respond(correlation_id, asked, body, now_ms)
            if isinstance(body, Fetched) and body.error is ErrorCode.NONE and body.diverging is None:
                self._observer.agrees(self, driver.replica, asked.leader_epoch)
        elif isinstance(driver, RegisteringDriver):
            assert isinstance(asked, int)
            driver.respond(asked, body, now_ms)
        else:
            assert isinstance(asked, AlterPartitionBatch)
            self._altered(asked, body, now_ms)

    def _request(self, receiver: int, body: object, driver: object, asked: object) -> int:
        correlation_id = self._network.request(self.node_id, receiver, body)
        self._requests[correlation_id] = (driver, asked)
        return correlation_id

    def _send_life(
        self, request: BrokerRegistrationRequest | BrokerHeartbeatRequest, driver: RegisteringDriver, number: int
    ) -> None:
        self._request(CONTROLLER, request, driver, number)

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
                log_start=asked.log_start_offset,
            )
        else:
            body = ListOffsets(
                partition=partition,
                leader_epoch=asked.leader_epoch,
                is_earliest=asked.timestamp is NamedOffset.EARLIEST,
            )
        return self._request(leader_id, body, driver, asked)

    # --- proposals of in-sync replicas ---

    def _propose(self, partition: int, proposal: IsrProposal) -> None:
        now_ms = self._clock.now
        refused = self._alterations.submit((TOPIC_ID, partition), proposal)
        if refused is not None:
            self._led[partition].altered(proposal, refused.response, now_ms)
        self._send_alterations()

    def _send_alterations(self) -> None:
        batch = self._alterations.next_request(self._clock.now)
        if batch is not None:
            proposals = {partition: proposal for (_, partition), proposal in batch.proposals.items()}
            self._request(CONTROLLER, AlterPartition(self.node_id, self.epoch, proposals), None, batch)

    def _altered(self, batch: AlterPartitionBatch, body: object, now_ms: int) -> None:
        if not isinstance(body, AlterPartitionResponse) or body.error is not ErrorCode.NONE:
            self._alterations.failed(batch, now_ms)
            return
        parts = {(TOPIC_ID, partition): part for partition, part in body.parts.items()}
        for (_, partition), proposal, response in (
            (result.key, result.proposal, result.response) for result in self._alterations.received(batch, parts)
        ):
            led = self._led.get(partition)
            if led is not None:
                led.altered(proposal, response, now_ms)
        self._send_alterations()

    # --- time ---

    def tick(self) -> None:
        """Run everything that is due: fetches after a back-off, checks of the ISR, heartbeats, proposals."""
        now_ms = self._clock.now
        if self.life is not None:
            self.life.tick(now_ms)
        for following in list(self._following.values()):
            following.go_on(now_ms)
        for leading in list(self.leading.values()):
            leading.tick(now_ms)
        if self.is_up:
            self._send_alterations()

    # --- metadata ---

    @property
    def metadata_lag(self) -> int:
        return len(self._controller.log) - self._read

    def read_metadata(self, entries: int) -> None:
        """Read the next entries of the metadata log. They are applied once the logs are loaded."""
        assert self.life is not None
        log = self._controller.log
        is_starting = self.state is BrokerState.STARTING
        end = len(log) if is_starting else min(len(log), self._read + entries)
        for number in range(self._read, end):
            self._read = number + 1
            entry = log[number]
            self.life.core.metadata_offset = entry.end_offset - 1
            if not is_starting:
                self.registrations.update(entry.brokers)
                for partition, state in entry.partitions.items():
                    self._apply(partition, state)

    def _apply(self, partition: int, state: PartitionState) -> None:
        self.partitions[partition] = state
        if self.node_id not in state.replicas:
            self._leave(partition)
            return
        if partition not in self.machine.replicas:
            self._observer.opened(self, self.machine.create(partition))
        if state.leader == self.node_id:
            self._lead(partition, state)
        else:
            self._follow(partition, state)

    def _leave(self, partition: int) -> None:
        self.leading.pop(partition, None)
        self._led.pop(partition, None)
        following = self._following.pop(partition, None)
        if following is not None:
            following.stop()
        if partition in self.machine.replicas:
            self._history.note("broker {} deletes its replica of {}", self.node_id, name_of(partition))
            self.machine.delete(partition)

    def _lead(self, partition: int, state: PartitionState) -> None:
        following = self._following.pop(partition, None)
        if following is not None:
            following.stop()
        if partition not in self._led:
            self._led[partition] = LeadingDriver(self.machine.replicas[partition], self._surroundings())
        leading = self.leading[partition] = self._led[partition]
        self._observer.begins_to_lead(self, partition)
        leading.lead(state, self._clock.now)

    def _follow(self, partition: int, state: PartitionState) -> None:
        leading = self.leading.pop(partition, None)
        if leading is not None:
            leading.resign()
        if partition not in self._following:
            self._following[partition] = FollowingDriver(
                self.machine.replicas[partition], self._send_fetch, self.machine.delete_below, self._history
            )
        following = self._following[partition]
        if state.leader == NO_LEADER:
            following.stop()
        else:
            following.follow(state.leader, state.leader_epoch, self._clock.now)

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            node_id=self.node_id,
            brokers=self,
            propose=self._propose,
            advanced=lambda partition: self._observer.advanced(self, partition),
            acknowledge=lambda partition, ack, epoch: self._observer.acknowledged(self, partition, ack, epoch),
            history=self._history,
        )
