"""A run: a cluster that carries out the events of a plan, and checks the invariants after each of them.

After the last event the network heals, all brokers start, and the cluster gets time to recover: then every replica must
have every record. A run is a function of its plan: the same plan gives the same history.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from log_maker import BASE_TIME
from simulation.batches import MAX_RECORDS, read_prints
from simulation.broker import Broker
from simulation.controller import SESSION_TIMEOUT_MS, Controller
from simulation.history import History, listed, name_of
from simulation.invariants import InvariantBroken, Invariants
from simulation.leading import LAG_TIME_MS, PendingAck
from simulation.network import CONTROLLER, Message, Network
from simulation.plan import Event, Kind, Plan
from simulation.replica import Replica
from simulation.requests import AlterPartition
from tidelog.model import OffsetOutOfRangeError
from tidelog.replication import BrokerState
from tidelog.testing import ManualClock, PowerLoss

_STEP_MS = 20
_BEGINNING_MS, _SETTLING_MS = 10, 1000
_SETTLING_ROUNDS = 200
"""A follower that is far behind needs about two rounds for each fetch."""
_ALL_ENTRIES = 1 << 30
_RUNNING = (BrokerState.RUNNING, BrokerState.PENDING_CONTROLLED_SHUTDOWN)
_CALLS = 12
"""A crash at a disk call happens within so many calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run. ``problem`` is None if no invariant was broken."""

    plan: Plan
    steps: int
    problem: str | None
    invariant: str | None
    history: History
    acknowledged: int


def run(plan: Plan, *, keeps_history: bool = False) -> Outcome:
    """Carry out a plan. Errors other than broken invariants are problems too."""
    history = History(is_kept=keeps_history)
    problem = invariant = None
    logger = logging.getLogger("tidelog")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    cluster = Cluster(plan, history)
    try:
        cluster.run()
    except InvariantBroken as error:
        problem, invariant = str(error), error.invariant
    except Exception as error:
        problem, invariant = f"{type(error).__name__}: {error}", type(error).__name__
    finally:
        logger.setLevel(level)
    return Outcome(
        plan=plan,
        steps=history.step,
        problem=problem,
        invariant=invariant,
        history=history,
        acknowledged=cluster.invariants.acknowledged,
    )


class Cluster:
    def __init__(self, plan: Plan, history: History) -> None:
        self.plan = plan
        self.history = history
        self.clock = ManualClock(BASE_TIME + 1_000_000)
        self.network = Network()
        self.controller = Controller(plan.shape, history)
        ids = range(1, plan.shape.brokers + 1)
        self.brokers = {
            node_id: Broker(node_id, plan.shape, self.clock, self.network, self.controller, history, self)
            for node_id in ids
        }
        self.invariants = Invariants(self.brokers, self.controller, plan.shape, history)
        self._ids = list(ids)
        self._batches = 0
        self._consumed: dict[int, int] = {}
        """The offset of the consumer, by partition."""
        self._actions: dict[Kind, Callable[[int], None]] = {
            Kind.EXCHANGE: self._exchange,
            Kind.DELIVER: self._deliver_any,
            Kind.LOSE: self._lose,
            Kind.DOUBLE: self._double,
            Kind.HOLD: self._hold,
            Kind.RELEASE: lambda _: self.network.release(),
            Kind.GIVE_UP: self.network.give_up,
            Kind.PRODUCE: self._produce,
            Kind.CONSUME: self._consume,
            Kind.METADATA: self._read_metadata,
            Kind.WAIT: self._wait,
            Kind.STALL: self._stall,
            Kind.BLOCK: self._block,
            Kind.HEAL: self._heal,
            Kind.CRASH: self._crash,
            Kind.CRASH_AT_CALL: self._crash_at_call,
            Kind.START: self._start,
            Kind.SHUT_DOWN: self._shut_down,
            Kind.FLUSH: self._flush,
            Kind.CHECKPOINT: self._checkpoint,
            Kind.DELETE_RECORDS: self._delete_records,
            Kind.ELECT: self._elect,
            Kind.REASSIGN: self._reassign,
            Kind.RETURN: self._return,
            Kind.CONTROLLER_RESTART: lambda _: self.controller.restart(self.clock.now),
        }

    # --- the run ---

    def run(self) -> None:
        for broker in self.brokers.values():
            broker.start()
        while not all(map(self.controller.image.is_active, self.brokers)):
            self._round(_BEGINNING_MS)
        self.controller.create_partitions(self.plan.shape)
        for broker in self.brokers.values():
            broker.read_metadata(_ALL_ENTRIES)
        self.invariants.check()
        self.history.begin()
        for partition, state in self.controller.partitions.items():
            self.history.note(
                "broker {} leads {} in epoch {}, and the in-sync replicas are {}",
                state.leader,
                name_of(partition),
                state.leader_epoch,
                listed(state.isr),
            )
        for event in self.plan.events:
            self.step(event)
        self.settle()

    def step(self, event: Event) -> None:
        self.history.step += 1
        self.clock.now += _STEP_MS
        self._actions[event.kind](event.number)
        self.invariants.check()

    def settle(self) -> None:
        """Heal everything, and let the cluster recover until every replica has every record."""
        self.history.note("the network heals, and all brokers start")
        self.network.heal()
        self.network.release()
        problem: InvariantBroken | None = None
        for _ in range(_SETTLING_ROUNDS):
            for broker in self.brokers.values():
                if not broker.is_up:
                    self._start_broker(broker)
            self._round(_SETTLING_MS)
            try:
                self.invariants.check_settled()
            except InvariantBroken as error:
                problem = error
            else:
                self.invariants.check_files()
                return
        assert problem is not None
        raise problem

    def _round(self, step_ms: int) -> None:
        """Let time pass: timers run, all metadata is read, and all messages arrive."""
        self.history.step += 1
        self.clock.now += step_ms
        self.controller.tick(self.clock.now)
        for broker in self.brokers.values():
            self._do(broker, broker.tick)
        for message in list(self.network.in_flight):
            if message in self.network.in_flight:
                self.network.in_flight.remove(message)
                self._deliver(message)
        for broker in self.brokers.values():
            self._do(broker, partial(broker.read_metadata, _ALL_ENTRIES))
        self.invariants.check()

    # --- the observer of brokers ---

    def begins_to_lead(self, broker: Broker, partition: int) -> None:
        self.invariants.begins_to_lead(broker, partition)

    def advanced(self, broker: Broker, partition: int) -> None:
        self.invariants.commit(broker, partition)

    def opened(self, broker: Broker, replica: Replica) -> None:
        self.invariants.opened(broker, replica)

    def agrees(self, broker: Broker, replica: Replica, epoch: int) -> None:
        self.invariants.agrees(broker, replica, epoch)

    def acknowledged(self, broker: Broker, partition: int, ack: PendingAck, epoch: int) -> None:
        self.history.note(
            "broker {} acknowledges batch {} at offset {} of {}, acks=all",
            broker.node_id,
            ack.batch,
            ack.first,
            name_of(partition),
        )
        self.invariants.acknowledge(broker, partition, ack, epoch)

    # --- messages ---

    def _exchange(self, number: int) -> None:
        """Deliver up to four messages, each with the response to it."""
        for at in range(1 + (number >> 26) % 4):
            message = self._take(number >> at)
            if message is None:
                return
            self._deliver(message)
            if not message.is_response:
                self._deliver_response(message)
            self.invariants.check()

    def _deliver_response(self, request: Message) -> None:
        for at in range(len(self.network.in_flight) - 1, -1, -1):
            response = self.network.in_flight[at]
            if response.is_response and response.correlation_id == request.correlation_id:
                self._deliver(self.network.take(at))
                return

    def _deliver_any(self, number: int) -> None:
        message = self._take(number)
        if message is not None:
            self._deliver(message)

    def _lose(self, number: int) -> None:
        in_flight = self.network.in_flight
        if in_flight:
            self.network.lose(number % len(in_flight))

    def _hold(self, number: int) -> None:
        """Delay a message, often a leader's proposal of in-sync replicas, because it decides about records."""
        in_flight = self.network.in_flight
        places = [at for at, message in enumerate(in_flight) if isinstance(message.body, AlterPartition)]
        if not places or not number & (1 << 20):
            places = list(range(len(in_flight)))
        if places:
            self.network.hold(places[number % len(places)])

    def _double(self, number: int) -> None:
        """Deliver a request that stays in flight, so that it arrives again."""
        requests = [message for message in self.network.in_flight if not message.is_response]
        if requests:
            self._deliver(requests[number % len(requests)])

    def _take(self, number: int) -> Message | None:
        in_flight = self.network.in_flight
        return self.network.take(number % len(in_flight)) if in_flight else None

    def _deliver(self, message: Message) -> None:
        if message.receiver == CONTROLLER:
            self.network.respond(message, self.controller.handle(message.body, self.clock.now))
            return
        broker = self.brokers[message.receiver]
        self._do(broker, lambda: broker.receive(message))

    # --- clients ---

    def _produce(self, number: int) -> None:
        """Produce to a broker that leads a partition by its own metadata."""
        leaders = [
            (broker, partition) for broker in self.brokers.values() if broker.is_up for partition in broker.leading
        ]
        if not leaders:
            return
        broker, partition = leaders[number % len(leaders)]
        records, acks_all = 1 + (number >> 8) % (MAX_RECORDS - 1), (number >> 16) % 3 > 0
        self._batches += 1
        batch = self._batches

        def append() -> None:
            broker.leading[partition].produce(batch, records, self.clock.now, acks_all=acks_all)

        self._do(broker, append)

    def _consume(self, number: int) -> None:
        """Read up to the high watermark of a leader, and compare the records with the committed ones."""
        leaders = [
            (broker, partition) for broker in self.brokers.values() if broker.is_up for partition in broker.leading
        ]
        if not leaders:
            return
        broker, partition = leaders[number % len(leaders)]
        replica = broker.machine.replicas[partition]
        try:
            data = replica.read(self._consumed.get(partition, 0), 300, up_to_high_watermark=True)
        except OffsetOutOfRangeError:
            self._consumed[partition] = replica.start
            return
        for first, prints in read_prints(data):
            if not self.invariants.is_committed(partition, first, prints, replica):
                raise InvariantBroken(
                    "consumers",
                    f"a consumer reads records of {name_of(partition)} at offset {first} from broker"
                    f" {broker.node_id} that are not the committed ones",
                )
            self._consumed[partition] = first + len(prints)

    # --- time and metadata ---

    def _read_metadata(self, number: int) -> None:
        behind = [
            broker
            for broker in self.brokers.values()
            if broker.is_up and broker.metadata_lag and self.network.connects(broker.node_id, CONTROLLER)
        ]
        if behind:
            broker = behind[number % len(behind)]
            self._do(broker, lambda: broker.read_metadata(1 + (number >> 8) % 6))

    def _wait(self, number: int) -> None:
        """Let up to three seconds pass. Timers run, and most brokers exchange heartbeats with the controller."""
        self.clock.now += number % 3000
        self.controller.tick(self.clock.now)
        left_out = self._ids[(number >> 12) % len(self._ids)] if (number >> 20) % 4 == 0 else None
        for node_id, broker in self.brokers.items():
            if node_id != left_out:
                self._do(broker, broker.tick)
                self._exchange_with_controller(broker)

    def _stall(self, number: int) -> None:
        """Let a session pass for some of the brokers."""
        self._pass_session([broker for broker in self.brokers.values() if (number >> broker.node_id) & 1])

    def _pass_session(self, awake: Sequence[Broker]) -> None:
        """Let more time pass than the lag time or a session, while only ``awake`` brokers run."""
        for _ in range(6):
            self.clock.now += max(LAG_TIME_MS, SESSION_TIMEOUT_MS) // 5
            for broker in awake:
                self._do(broker, broker.tick)
                self._exchange_with_controller(broker)
            self.controller.tick(self.clock.now)

    def _exchange_with_controller(self, broker: Broker) -> None:
        """Deliver a broker's requests to the controller, and the responses to them."""
        for message in [one for one in self.network.in_flight if one.receiver == CONTROLLER]:
            if message.sender == broker.node_id and message in self.network.in_flight:
                self.network.in_flight.remove(message)
                self._deliver(message)
                self._deliver_response(message)

    def _block(self, number: int) -> None:
        """Block the way from one node to another, or both ways."""
        nodes = [CONTROLLER, *self._ids]
        one = nodes[number % len(nodes)]
        other = nodes[(number % len(nodes) + 1 + (number >> 8) % (len(nodes) - 1)) % len(nodes)]
        self.history.note("the network loses everything from {} to {}", _node(one), _node(other))
        self.network.block(one, other)
        if number & (1 << 20):
            self.network.block(other, one)

    def _heal(self, _number: int) -> None:
        if not self.network.is_whole:
            self.history.note("the network heals")
            self.network.heal()

    # --- brokers ---

    def _crash(self, number: int) -> None:
        broker = self._running(number)
        if broker is not None:
            self._crashed(broker, number >> 8)

    def _crash_at_call(self, number: int) -> None:
        """Let a broker crash at one of its next disk calls."""
        broker = self._running(number)
        if broker is not None:
            broker.machine.crash_within((number >> 8) % _CALLS)

    def _crashed(self, broker: Broker, number: int) -> None:
        loses = self.plan.shape.power_losses and bool(number & 1)
        self.history.note("broker {} {}", broker.node_id, "loses its power" if loses else "is killed")
        broker.crashed(number >> 1 if loses else None)

    def _start(self, number: int) -> None:
        """Start a broker. Mostly it joins the cluster in the same step."""
        down = [broker for broker in self.brokers.values() if not broker.is_up]
        if not down:
            return
        self._join(down[number % len(down)], rounds=5 if (number >> 8) % 4 else 0)

    def _join(self, broker: Broker, *, rounds: int) -> None:
        """Start a broker, and let it register and read the metadata."""
        self._start_broker(broker)
        for _ in range(rounds):
            self._exchange_with_controller(broker)
            if broker.is_up and self.network.connects(broker.node_id, CONTROLLER):
                self._do(broker, partial(broker.read_metadata, _ALL_ENTRIES))
            self.clock.now += _BEGINNING_MS
            self._do(broker, broker.tick)

    def _return(self, number: int) -> None:
        """Restart a broker that a proposal on its way adds to the in-sync replicas, and deliver the proposal then.

        The controller registers the new process only after the session of the old one, so a session passes.
        """
        joining = [
            (message, broker)
            for message in self.network.under_way
            if isinstance(message.body, AlterPartition)
            for partition, proposal in message.body.proposals.items()
            for broker in map(self.brokers.__getitem__, sorted(proposal.broker_ids))
            if broker.is_up and broker.node_id not in {message.sender, *self.controller.partitions[partition].isr}
        ]
        if not joining:
            return
        message, broker = joining[number % len(joining)]
        self.network.remove(message)
        self._crashed(broker, number >> 8)
        self._pass_session([one for one in self.brokers.values() if one is not broker])
        self._join(broker, rounds=5)
        self._deliver(message)

    def _start_broker(self, broker: Broker) -> None:
        self._act(broker, broker.start)

    def _shut_down(self, number: int) -> None:
        broker = self._running(number)
        if broker is not None:
            self._do(broker, broker.shut_down)

    def _flush(self, number: int) -> None:
        broker = self._running(number)
        if broker is not None:
            self._do(broker, lambda: [replica.log.flush() for replica in broker.machine.replicas.values()])

    def _checkpoint(self, number: int) -> None:
        broker = self._running(number)
        if broker is not None:
            self._do(broker, broker.machine.checkpoint)

    def _delete_records(self, number: int) -> None:
        """Delete the records below an offset that is at most the leader's high watermark."""
        broker = self._running(number)
        if broker is None or not broker.leading:
            return
        partition = sorted(broker.leading)[(number >> 8) % len(broker.leading)]
        replica = broker.machine.replicas[partition]
        span = replica.high_watermark - replica.start
        if span > 0:
            offset = replica.start + 1 + (number >> 12) % span
            self.history.note("broker {} deletes records of {} below {}", broker.node_id, name_of(partition), offset)
            self._do(broker, lambda: broker.machine.delete_below(partition, offset))

    def _elect(self, number: int) -> None:
        self.controller.elect_preferred(number % self.plan.shape.partitions)

    def _reassign(self, number: int) -> None:
        factor = self.plan.shape.replication_factor
        first = (number >> 8) % len(self._ids)
        replicas = [self._ids[(first + at) % len(self._ids)] for at in range(factor)]
        self.controller.reassign(number % self.plan.shape.partitions, replicas)

    def _running(self, number: int) -> Broker | None:
        up = [broker for broker in self.brokers.values() if broker.state in _RUNNING]
        return up[number % len(up)] if up else None

    def _do(self, broker: Broker, action: Callable[[], object]) -> None:
        """Let a broker act that is up. Its disk may lose its power meanwhile."""
        if broker.is_up:
            self._act(broker, action)

    def _act(self, broker: Broker, action: Callable[[], object]) -> None:
        try:
            action()
        except PowerLoss:
            self._crashed(broker, len(broker.machine.disk.calls))


def _node(node_id: int) -> str:
    return "the controller" if node_id == CONTROLLER else f"broker {node_id}"
