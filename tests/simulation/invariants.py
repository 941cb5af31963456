"""The invariants of replication, checked after every step of a run.

They are those of Kafka's TLA+ models (KafkaReplication, Kip101, Kip279, Kip320). ``committed`` has the
records below the highest high watermark of a leader: no replica may lose or change them from then on.

======================  ===================================================================================
invariant               what is compared
======================  ===================================================================================
one leader an epoch     no two brokers begin to lead a partition in one leader epoch
committed records stay  each log agrees with ``committed`` below its own high watermark. So no two logs disagree
                        below a common high watermark, and no consumer sees a record that changes or vanishes
in-sync replicas        each in-sync or eligible replica that is up has every committed record. So each leader that
                        a clean election can choose has them
high watermark          never above the log end; never falls within a leader epoch of one run of a broker
acknowledged records    a record with acks=all is committed, and at least min.insync.replicas brokers wrote it
eligible                a broker that joins the in-sync replicas is neither fenced nor shutting down. An elected
                        leader may be shutting down: a late heartbeat can unfence it, and then Kafka elects it, too
leaders                 each elected leader is registered and not fenced
sessions                the controller fences a silent broker once its session is over, and no other; a broker is
                        unfenced only after it has read its own registration
epoch cache             each record's epoch in its batch is the one in the log's epoch cache
======================  ===================================================================================

An unclean election may lose committed records: exactly the records that the new leader's log does not have.
``committed`` ends there then. The other replicas are *doubtful* where they differ from it, until they agree with a
leader of that election or later. So are logs that are created later, and records that a replica appends
after a truncation: a broker with old metadata may lead, or follow, in an epoch before the election. It may even
move its high watermark, if it is the only in-sync replica that it knows. No rule can prevent that, and its records are
lost like those before the election. A replica that is down is not compared: its disk decides its contents at the next
start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulation.broker import Broker
from simulation.controller import SESSION_TIMEOUT_MS, Controller
from simulation.history import History, listed, name_of
from simulation.leading import PendingAck
from simulation.plan import Shape
from simulation.replica import Replica
from tidelog.replication.broker_sessions import SessionKey
from tidelog.server.metadata.partition_state import NO_LEADER, PartitionState


class InvariantBroken(Exception):  # noqa: N818 - the name says what has happened
    """The error of a run that broke an invariant. ``invariant`` is its name."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


@dataclass(slots=True)
class _Partition:
    committed: list[int] = field(default_factory=list)
    leaders: dict[int, int] = field(default_factory=dict)
    """The broker that leads in each epoch."""
    unclean_epoch: int = 0
    """The leader epoch of the last unclean election; 0 before the first one."""
    is_undecided: bool = False
    """An unclean election has taken place, and its leader has not begun to lead yet."""
    deleted: int = 0
    """The highest log start so far. Records below it may come back after a crash, and may differ then."""


class Invariants:
    def __init__(self, brokers: Mapping[int, Broker], controller: Controller, shape: Shape, history: History) -> None:
        self._brokers = brokers
        self._controller = controller
        self._min_isr = shape.min_isr
        self._may_be_unclean = shape.unclean_elections
        self._history = history
        self._partitions = {number: _Partition() for number in range(shape.partitions)}
        self._watermarks: dict[tuple[int, int], tuple[Replica | None, int, int]] = {}
        """Replica, leader epoch and high watermark at the last check, by broker and partition."""
        self._agreed: dict[tuple[int, int], int] = {}
        """The leader epoch of the last fetch response, from which a follower's high watermark comes."""
        self.acknowledged = 0
        controller.on_change = self._changed
        controller.on_unfence = self._unfenced
        controller.on_expiry = self._expires
        controller.on_sessions_checked = self._check_sessions

    # --- reports ---

    def begins_to_lead(self, broker: Broker, partition: int) -> None:
        found, epoch = self._partitions[partition], broker.partitions[partition].leader_epoch
        other = found.leaders.setdefault(epoch, broker.node_id)
        if other != broker.node_id:
            raise InvariantBroken(
                "one leader an epoch",
                f"brokers {other} and {broker.node_id} both lead {name_of(partition)} in epoch {epoch}",
            )
        replica = broker.machine.replicas[partition]
        if found.is_undecided and epoch >= found.unclean_epoch:
            self._lose(found, partition, epoch, replica)
        if epoch >= found.unclean_epoch and not found.is_undecided:
            replica.doubtful_from = None

    def commit(self, broker: Broker, partition: int) -> None:
        """Take over the records that a leader's high watermark has passed."""
        found, leading = self._partitions[partition], broker.leading[partition]
        if leading.epoch < found.unclean_epoch or found.is_undecided:
            return
        found.committed.extend(leading.replica.prints[len(found.committed) : leading.replica.high_watermark])
        self.check_partition(partition)

    def agrees(self, broker: Broker, replica: Replica, epoch: int) -> None:
        """Note a fetch response of a leader in ``epoch`` that found no divergence."""
        found, key = self._partitions[replica.partition], (broker.node_id, replica.partition)
        self._agreed[key] = max(epoch, self._agreed.get(key, 0))
        if epoch >= found.unclean_epoch and not found.is_undecided:
            replica.doubtful_from = None

    def opened(self, broker: Broker, replica: Replica) -> None:
        """Note a log that a broker has loaded or created."""
        found = self._partitions[replica.partition]
        self._agreed.pop((broker.node_id, replica.partition), None)  # its high watermark is that of a checkpoint
        if found.unclean_epoch:
            replica.doubtful_from = _common(found, replica)

    def acknowledge(self, broker: Broker, partition: int, ack: PendingAck, epoch: int) -> None:
        """Check a record that is acknowledged with acks=all."""
        self.acknowledged += 1
        found, replica = self._partitions[partition], broker.machine.replicas[partition]
        if epoch < found.unclean_epoch:
            return
        mine = replica.prints[ack.first : ack.end]
        holders = [
            one.node_id
            for one in self._brokers.values()
            if one.machine.written.get(partition, frozenset()).issuperset(mine)
        ]
        if len(holders) < min(self._min_isr, len(broker.partitions[partition].replicas)):
            raise InvariantBroken(
                "acknowledged records",
                f"broker {broker.node_id} acknowledges offsets {ack.first} to {ack.end - 1} of {name_of(partition)},"
                f" but only brokers {listed(holders)} have ever written them:"
                f" min.insync.replicas is {self._min_isr}",
            )
        if found.is_undecided:
            return
        if found.committed[ack.first : ack.end] != mine and found.deleted <= ack.first:
            raise InvariantBroken(
                "acknowledged records",
                f"broker {broker.node_id} acknowledges offsets {ack.first} to {ack.end - 1} of {name_of(partition)},"
                f" but the high watermark is {len(found.committed)}",
            )

    # --- checks ---

    def check(self) -> None:
        """Check the partitions that have changed since the last check. Raise InvariantBroken."""
        touched = self._controller.touched
        while touched:
            self.check_partition(touched.pop())

    def check_partition(self, partition: int) -> None:
        found = self._partitions[partition]
        state = self._controller.partitions.get(partition)
        if state is None:
            return
        running = [
            (broker, replica)
            for broker in self._brokers.values()
            if broker.is_up and (replica := broker.machine.replicas.get(partition)) is not None
        ]
        for broker, replica in running:
            found.deleted = max(found.deleted, replica.start)
            self._check_replica(found, broker, replica)
            if (broker.node_id in state.isr or broker.node_id in state.elr) and broker.is_current:
                self._check_in_sync(found, state, broker, replica)

    def check_files(self) -> None:
        """Compare the files of every log with the appended records."""
        for broker in self._brokers.values():
            if broker.is_up:
                for partition, replica in broker.machine.replicas.items():
                    problem = replica.check_bytes()
                    if problem:
                        raise InvariantBroken("log", f"{name_of(partition)} of broker {broker.node_id}: {problem}")

    def check_settled(self) -> None:
        """Check a cluster that had time to recover: every replica has every record."""
        for partition, state in self._controller.partitions.items():
            held = {one: self._brokers[one].machine.replicas.get(partition) for one in state.replicas}
            replicas = {one: replica for one, replica in held.items() if replica is not None}
            leader = replicas.get(state.leader)
            if leader is None and state.elr and not set(state.elr) & set(state.replicas):
                continue  # its eligible leaders were reassigned away: Kafka 4.4 elects no leader then, either
            if leader is None:
                raise InvariantBroken("progress", f"{name_of(partition)} still has no leader")
            if set(state.isr) != set(state.replicas):
                raise InvariantBroken(
                    "progress",
                    f"the in-sync replicas of {name_of(partition)} are {listed(state.isr)} of {listed(state.replicas)}",
                )
            for one, replica in replicas.items():
                start = max(leader.start, replica.start)
                if replica.prints[start:] != leader.prints[start:]:
                    raise InvariantBroken(
                        "progress", f"broker {one} has another log of {name_of(partition)} than its leader"
                    )
                if replica.high_watermark != leader.end:
                    raise InvariantBroken(
                        "progress",
                        f"the high watermark of {name_of(partition)} on broker {one} is {replica.high_watermark},"
                        f" but the leader's log ends at {leader.end}",
                    )

    def is_committed(self, partition: int, first: int, prints: list[int], replica: Replica) -> bool:
        """Return True if a consumer that read ``prints`` from a leader's log read committed records."""
        found, doubtful = self._partitions[partition], replica.doubtful_from
        end = first + len(prints) if doubtful is None else max(first, min(first + len(prints), doubtful))
        start = max(first, found.deleted)
        return start >= end or found.is_undecided or found.committed[start:end] == prints[start - first : end - first]

    # --- inside ---

    def _changed(self, partition: int, before: PartitionState, after: PartitionState) -> None:
        """Note an unclean election, and check the leader and new in-sync replicas."""
        if after.leader != NO_LEADER and self._controller.image.brokers[after.leader].is_fenced:
            raise InvariantBroken("leaders", f"broker {after.leader} leads {name_of(partition)}, but it is fenced")
        complete = {*before.isr, *before.elr}
        if self._may_be_unclean and after.leader == NO_LEADER and set(after.isr) - set(before.isr):
            # The cancelled reassignment of a topic with unclean elections leaves its first replica as the in-sync one.
            if not complete.intersection(after.isr):
                self._note_unclean(partition, after)
            return
        for broker_id in set(after.isr) - {*before.isr, after.leader}:
            if not self._controller.image.is_active(broker_id):
                raise InvariantBroken(
                    "eligible",
                    f"broker {broker_id} joins the in-sync replicas of {name_of(partition)}, but it is fenced or shuts"
                    " down",
                )
        if after.leader not in (NO_LEADER, before.leader, *complete):
            is_last_known = before.last_known_elr == (after.leader,) and not before.isr
            if self._may_be_unclean or is_last_known:
                self._note_unclean(partition, after)

    def _unfenced(self, broker_id: int) -> None:
        broker, epoch = self._brokers[broker_id], self._controller.image.brokers[broker_id].epoch
        if broker.life is not None and broker.epoch == epoch and broker.life.core.metadata_offset < epoch:
            raise InvariantBroken(
                "sessions",
                f"the controller unfences broker {broker_id}, which has read the metadata up to offset"
                f" {broker.life.core.metadata_offset}, below its registration at {epoch}",
            )

    def _expires(self, broker_id: int, now_ms: int) -> None:
        silence_ms = self._silence_ms(broker_id, now_ms)
        if silence_ms is not None and silence_ms <= SESSION_TIMEOUT_MS:
            raise InvariantBroken(
                "sessions", f"the controller fences broker {broker_id} {silence_ms} ms after its last heartbeat"
            )

    def _check_sessions(self, now_ms: int) -> None:
        for broker in self._controller.image.brokers.values():
            silence_ms = self._silence_ms(broker.id, now_ms)
            if not broker.is_fenced and (silence_ms is None or silence_ms > SESSION_TIMEOUT_MS):
                raise InvariantBroken(
                    "sessions", f"broker {broker.id} is not fenced {silence_ms} ms after its last heartbeat"
                )

    def _silence_ms(self, broker_id: int, now_ms: int) -> int | None:
        """Return the time since the last heartbeat of the registered incarnation, or None without one."""
        key = SessionKey(broker_id, self._controller.image.brokers[broker_id].epoch)
        contact_ms = self._controller.contacts_ms.get(key)
        return None if contact_ms is None else now_ms - contact_ms

    def _note_unclean(self, partition: int, state: PartitionState) -> None:
        found = self._partitions[partition]
        found.is_undecided, found.unclean_epoch = True, state.leader_epoch

    def _lose(self, found: _Partition, partition: int, epoch: int, leader: Replica) -> None:
        """End ``committed`` where the uncleanly elected leader's log differs from it."""
        committed = found.committed
        same = _common(found, leader)
        if same < len(committed):
            self._history.note(
                "the unclean election loses the committed records of {} from offset {} to {}",
                name_of(partition),
                same,
                len(committed) - 1,
            )
        committed[same:] = leader.prints[same : leader.high_watermark]
        found.is_undecided, found.unclean_epoch = False, epoch
        for broker in self._brokers.values():
            replica = broker.machine.replicas.get(partition)
            if replica is not None and replica is not leader:
                replica.doubtful_from = _common(found, replica)

    def _check_replica(self, found: _Partition, broker: Broker, replica: Replica) -> None:
        watermark = replica.high_watermark
        if watermark > replica.end:
            raise InvariantBroken(
                "high watermark",
                f"the high watermark of {name_of(replica.partition)} on broker {broker.node_id} is {watermark}, above"
                f" its log end {replica.end}",
            )
        key = (broker.node_id, replica.partition)
        leading = broker.leading.get(replica.partition)
        epoch = self._agreed.get(key, 0) if leading is None else leading.epoch
        known, last_epoch, last = self._watermarks.get(key, (None, 0, 0))
        is_certain = replica.doubtful_from is None and not found.is_undecided and epoch >= found.unclean_epoch
        if known is replica and last_epoch == epoch and watermark < last and is_certain:
            raise InvariantBroken(
                "high watermark",
                f"the high watermark of {name_of(replica.partition)} on broker {broker.node_id} falls from {last} to"
                f" {watermark} in epoch {epoch}",
            )
        self._watermarks[key] = (replica, epoch, watermark)
        doubtful = replica.doubtful_from
        end = watermark if doubtful is None else min(watermark, doubtful)
        if not found.is_undecided:
            self._compare(found, broker, replica, end)
        problem = replica.epoch_problem(found.deleted)
        if problem is not None:
            raise InvariantBroken("epoch cache", f"{name_of(replica.partition)} on broker {broker.node_id}: {problem}")

    def _compare(self, found: _Partition, broker: Broker, replica: Replica, end: int) -> None:
        """Compare a log with the committed records, from its start to ``end``."""
        start = max(replica.start, found.deleted)
        if end <= start:
            return
        mine, committed = replica.prints[start:end], found.committed[start:end]
        if mine == committed:
            return
        pairs = zip(mine, committed, strict=False)
        at = start + next((at for at, (one, other) in enumerate(pairs) if one != other), len(committed))
        what = "another record" if at < len(found.committed) else "a record that no leader has committed"
        raise InvariantBroken(
            "committed records stay",
            f"broker {broker.node_id} has {what} at offset {at} of {name_of(replica.partition)}, below its high"
            f" watermark {replica.high_watermark}",
        )

    def _check_in_sync(self, found: _Partition, state: PartitionState, broker: Broker, replica: Replica) -> None:
        """Check that an in-sync or eligible replica has all committed records."""
        if found.is_undecided:
            return
        start, end = max(replica.start, found.deleted), len(found.committed)
        if replica.end < end or replica.prints[start:end] != found.committed[start:]:
            kind = "an in-sync" if broker.node_id in state.isr else "an eligible"
            raise InvariantBroken(
                "in-sync replicas",
                f"broker {broker.node_id} is {kind} replica of {name_of(replica.partition)} in partition epoch"
                f" {state.partition_epoch}, but its log does not have all committed records: it ends at {replica.end},"
                f" and offsets below {end} are committed",
            )


def _common(found: _Partition, replica: Replica) -> int:
    """Return the offset up to which a log agrees with the committed records."""
    committed, prints = found.committed, replica.prints
    end = min(len(committed), len(prints))
    start = min(end, max(replica.start, found.deleted))
    return next((at for at in range(start, end) if committed[at] != prints[at]), end)
