"""The comparison of one partition's replicas with a reference: the leader's replica, or else the best one given.

The reference is the leader's replica if it is given. Otherwise it is the one with the newest epoch and then the highest
log end, first among the in-sync replicas, then among the eligible ones, then among all.

Each other replica agrees with the reference up to the truncation point of ``truncation``. There is a problem if:

- records below that point differ (nothing would ever repair them), or bytes are no valid batch;
- a replica's checkpointed high watermark lies above the records that it shares with the reference: the reference lost
  committed records;
- a replica that must have all committed records lacks some, is missing, unreadable, or of another topic id. Without
  metadata this is a replica that ends below its own checkpointed high watermark.

A replica that lags, or has records after that point, is no problem: following the leader puts it right.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidelog.inspect.compare.broker_directory import BrokerDirectory, Replica
from tidelog.inspect.compare.difference import Difference, DifferenceKind
from tidelog.inspect.compare.log_difference import first_log_difference
from tidelog.inspect.compare.placement import Placement, Role
from tidelog.inspect.compare.truncation import Truncation, truncation_of
from tidelog.model import CorruptRecordError, TidelogError, TopicPartition
from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.runtime.progress import Advance


class ReplicaState(enum.StrEnum):
    """The result for one replica."""

    REFERENCE = "reference"
    EQUAL = "equal"
    BEHIND = "behind"
    AHEAD = "ahead"
    """The replica has the reference's records and more."""
    DIVERGED = "diverged"
    DIFFERENT = "different"
    """Records differ that must be equal."""
    MISSING = "missing"
    """The broker's directories lack the partition."""
    NOT_GIVEN = "not given"
    """No directory of the broker was given."""
    OTHER_TOPIC = "other topic id"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedReplica:
    node_id: int | None
    role: Role
    state: ReplicaState
    replica: Replica | None = None
    """None if it is missing or not given."""
    truncation: Truncation | None = None
    """The truncation when it follows the reference; None for the reference, or if it was not compared."""
    truncated_records: int | None = None
    reference_truncated_to: int | None = None
    """The offset to which the reference would truncate if this replica became the leader."""
    lag: int | None = None
    """The distance to the reference's log end, negative if this replica is longer."""
    difference: Difference | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPartition:
    partition: TopicPartition
    placement: Placement | None
    is_compacted: bool
    replicas: tuple[ComparedReplica, ...]
    reference: Replica | None = None
    committed_end: int | None = None
    """The highest checkpointed high watermark that the reference has. None if no checkpoint has the partition."""

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(problem for one in self.replicas for problem in one.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReplicas:
    """The input: the partition's replicas in the given directories, and its metadata."""

    partition: TopicPartition
    replicas: Sequence[Replica]
    directories: Sequence[BrokerDirectory]
    placement: Placement | None = None
    is_compacted: bool = False

    def role_of(self, replica: Replica) -> Role:
        if self.placement is None:
            return Role.UNKNOWN
        return self.placement.role_of(replica.directory.node_id, replica.directory.directory_id)

    def is_other_topic(self, replica: Replica) -> bool:
        ids = (None if self.placement is None else self.placement.topic_id, replica.topic_id)
        return None not in ids and ids[0] != ids[1]


@dataclass(slots=True)
class _Pair:
    """A replica that is compared with the reference."""

    replica: Replica
    role: Role
    truncation: Truncation
    common_end: int
    """The end of the offsets whose records the reference may have, by its epochs."""
    difference: Difference | None = None
    problems: list[str] = field(default_factory=list)


def compare_partition(given: PartitionReplicas, advance: Advance = lambda _bytes: None) -> ComparedPartition:
    """Compare all replicas with the reference. Errors of a replica are in its result."""
    usable = [one for one in given.replicas if one.is_readable and not given.is_other_topic(one)]
    reference = choose_reference(given, usable)
    results = [_not_usable(given, one) for one in given.replicas if one not in usable]
    results += _absent(given)
    if reference is None:
        return _result(given, results)
    epoch = max(*(one.latest_epoch for one in usable), -1 if given.placement is None else given.placement.leader_epoch)
    leads = given.role_of(reference) is Role.LEADER
    leader = reference.epoch_log.leading(epoch if leads else epoch + 1)
    pairs = []
    for one in usable:
        alone = Truncation(offset=one.log_end)
        truncation = alone if one is reference else truncation_of(one.epoch_log, leader)
        is_prefix = truncation.offset >= one.log_end
        common_end = reference.log_end if is_prefix or truncation.starts_over_at is not None else truncation.offset
        pairs.append(_Pair(one, given.role_of(one), truncation, common_end))
    committed = [
        min(pair.replica.checkpointed, pair.common_end) for pair in pairs if pair.replica.checkpointed is not None
    ]
    committed_end = max(committed, default=None)
    for pair in pairs:
        _find_losses(pair, reference, committed_end)
        if pair.replica is not reference:
            _find_difference(pair, reference, given, advance)
        results.append(_compared(pair, reference, epoch + 1))
    return _result(given, results, reference, committed_end)


def choose_reference(given: PartitionReplicas, usable: Sequence[Replica]) -> Replica | None:
    """Return the reference by the module's rule, or None if no replica is usable."""
    ranks = {Role.LEADER: 4, Role.IN_SYNC: 3, Role.ELIGIBLE: 2, Role.OUT_OF_SYNC: 1}
    return max(usable, key=lambda one: (ranks.get(given.role_of(one), 0), one.latest_epoch, one.log_end), default=None)


def _result(
    given: PartitionReplicas,
    results: Iterable[ComparedReplica],
    reference: Replica | None = None,
    committed_end: int | None = None,
) -> ComparedPartition:
    def key(one: ComparedReplica) -> tuple[bool, int, str]:
        node = -1 if one.node_id is None else one.node_id
        return one.state is not ReplicaState.REFERENCE, node, "" if one.replica is None else one.replica.directory.name

    return ComparedPartition(
        partition=given.partition,
        placement=given.placement,
        is_compacted=given.is_compacted,
        replicas=tuple(sorted(results, key=key)),
        reference=reference,
        committed_end=committed_end,
    )


def _not_usable(given: PartitionReplicas, replica: Replica) -> ComparedReplica:
    role = given.role_of(replica)
    name = replica.directory.name
    if replica.error is not None:
        state, problem = ReplicaState.UNREADABLE, f"{name}: {replica.error}"
    else:
        state = ReplicaState.OTHER_TOPIC
        found = "none" if replica.topic_id is None else uuid_to_text(replica.topic_id)
        problem = f"{name}: its topic id is {found}, and the metadata has another one"
    is_problem = role.has_committed_records or replica.error is not None
    return ComparedReplica(
        node_id=replica.directory.node_id,
        role=role,
        state=state,
        replica=replica,
        problems=(problem,) if is_problem else (),
    )


def _absent(given: PartitionReplicas) -> Iterable[ComparedReplica]:
    """Yield the assigned replicas that no directory has."""
    placement = given.placement
    found = {one.directory.node_id for one in given.replicas}
    for node_id in () if placement is None else placement.replicas:
        if node_id in found:
            continue
        own = [one for one in given.directories if one.node_id == node_id]
        assigned = placement.directories.get(node_id) if placement is not None else None
        is_given = any(assigned in (None, one.directory_id) or one.directory_id is None for one in own)
        role = placement.role_of(node_id, None) if placement is not None else Role.UNKNOWN
        is_problem = is_given and role.has_committed_records
        problem = f"node {node_id}: the partition is missing, although the replica is {_in_words(role)}"
        yield ComparedReplica(
            node_id=node_id,
            role=role,
            state=ReplicaState.MISSING if is_given else ReplicaState.NOT_GIVEN,
            problems=(problem,) if is_problem else (),
        )


def _in_words(role: Role) -> str:
    return {Role.LEADER: "the leader", Role.ELIGIBLE: "an eligible leader replica"}.get(role, str(role))


def _find_losses(pair: _Pair, reference: Replica, committed_end: int | None) -> None:
    replica, known = pair.replica, pair.replica.checkpointed
    name = replica.directory.name
    if known is not None and known > pair.common_end:
        first = pair.common_end
        pair.problems.append(
            f"{name}: its high watermark is {known:,}, but the log of {reference.directory.name} has only the records"
            f" below {first:,} of these: committed records are lost"
        )
    wanted = -1
    if pair.role.has_committed_records and committed_end is not None:
        wanted = committed_end
    elif pair.role is Role.UNKNOWN and known is not None and known <= pair.common_end:
        wanted = known
    if replica.log_end < wanted:
        tail = replica.tail
        reason = "" if tail is None else f" ({tail.reason}: file {tail.path}, position {tail.position})"
        pair.problems.append(
            f"{name}: the log ends at {replica.log_end:,}{reason}, but the records below {wanted:,} are committed"
        )


def _find_difference(pair: _Pair, reference: Replica, given: PartitionReplicas, advance: Advance) -> None:
    replica = pair.replica
    start, end = max(reference.log_start, replica.log_start), min(reference.log_end, replica.log_end)
    if start >= end:
        return
    compare = first_log_difference
    if given.is_compacted:  # imported here, because it loads Arrow
        from tidelog.inspect.compare.compacted_difference import first_compacted_difference

        compare = first_compacted_difference
    try:
        pair.difference = compare(reference.view, replica.view, start, end, advance)
    except CorruptRecordError as error:
        pair.difference = Difference(
            kind=DifferenceKind.UNREADABLE, offset=start if error.offset is None else error.offset, reason=str(error)
        )
    found = pair.difference
    if found is None or pair.truncation.starts_over_at is not None or found.offset >= pair.truncation.offset:
        return
    names = f"{reference.directory.name} and {replica.directory.name}"
    text = f": {found.reason}" if found.reason else ""
    pair.problems.append(f"{names} differ from offset {found.offset:,} on, and no truncation repairs it{text}")


def _compared(pair: _Pair, reference: Replica, next_epoch: int) -> ComparedReplica:
    replica, truncation = pair.replica, pair.truncation
    is_reference = replica is reference
    as_follower = truncation_of(reference.epoch_log, replica.epoch_log.leading(next_epoch))
    return ComparedReplica(
        node_id=replica.directory.node_id,
        role=pair.role,
        state=ReplicaState.REFERENCE if is_reference else _state(pair, reference),
        replica=replica,
        truncation=None if is_reference else truncation,
        truncated_records=None if is_reference else _records_after(replica, truncation),
        reference_truncated_to=None if is_reference else as_follower.offset,
        lag=reference.log_end - replica.log_end,
        difference=pair.difference,
        problems=tuple(pair.problems),
    )


def _state(pair: _Pair, reference: Replica) -> ReplicaState:
    replica, truncation = pair.replica, pair.truncation
    found = pair.difference
    if found is not None:
        is_repaired = truncation.starts_over_at is not None or found.offset >= truncation.offset
        return ReplicaState.DIVERGED if is_repaired else ReplicaState.DIFFERENT
    if replica.log_end > reference.log_end:
        return ReplicaState.AHEAD
    return ReplicaState.BEHIND if replica.log_end < reference.log_end else ReplicaState.EQUAL


def _records_after(replica: Replica, truncation: Truncation) -> int | None:
    """Count the records that the truncation removes. Return None if they cannot be read."""
    first = replica.log_start if truncation.starts_over_at is not None else max(truncation.offset, replica.log_start)
    try:
        return replica.view.count_between(first, replica.log_end).records if first < replica.log_end else 0
    except TidelogError:
        return None
