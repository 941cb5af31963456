"""Server-side assignors of consumer groups (KIP-848): from subscriptions to assignments. Pure.

``range``: each subscriber of a topic gets one range of its partitions. Static members come first, sorted by instance
id, then the others by member id. A returning static member gets the same partitions again. Topics with equal partition
counts are assigned alike, so that a member can join them. Of *p* partitions and *m* members each gets ``p // m``, and
the first ``p % m`` get one more. Previous assignments do not matter.

``uniform``: members get equal shares, and keep their partitions where possible. If all members read the same topics,
each may have ``p // m`` partitions, and ``p % m`` members one more. Members above their share give partitions up, and
members below it take them. Two members then differ by at most one, and no unnecessary move happens.

If they read different topics, all members keep the partitions that they still read. Unassigned partitions go, topic by
topic (most partitions per subscriber first), to the subscriber with the fewest. Then partitions move, topic by topic,
from the member with the most to the member with the fewest, while that reduces the difference of two subscribers.
Source: Kafka's ``RangeAssignor`` and ``UniformAssignor``. The uniform assignor may give partitions to other members
than Kafka, with the same counts.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidelog.server.groups.state.consumer_member import Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedMember:
    """``topics`` are the existing topics of its subscription. ``assigned`` is its previous target."""

    instance_id: str | None = None
    topics: frozenset[uuid.UUID]
    assigned: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInput:
    """``members`` by id, and the partition count of each topic that any of them reads."""

    members: Mapping[str, AssignedMember]
    partitions: Mapping[uuid.UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """True if all members read the same topics."""
        return len({member.topics for member in self.members.values()}) <= 1


Assignor = Callable[[AssignmentInput], dict[str, Partitions]]
"""A function whose result has every member, and assigns each partition of a subscribed topic to one subscriber."""


def assign_ranges(given: AssignmentInput) -> dict[str, Partitions]:
    """Assign by the module's rules. Previous assignments do not matter."""
    assigned: dict[str, dict[uuid.UUID, frozenset[int]]] = {member_id: {} for member_id in given.members}
    ordered = sorted(given.members, key=lambda member_id: _rank(given, member_id))
    for topic_id, partitions in given.partitions.items():
        subscribers = [member_id for member_id in ordered if topic_id in given.members[member_id].topics]
        start = 0
        for index, member_id in enumerate(subscribers):
            size = partitions // len(subscribers) + (index < partitions % len(subscribers))
            if size:
                assigned[member_id][topic_id] = frozenset(range(start, start + size))
            start += size
    return dict(assigned)


def _rank(given: AssignmentInput, member_id: str) -> tuple[bool, str]:
    instance_id = given.members[member_id].instance_id
    return (instance_id is None, member_id if instance_id is None else instance_id)


_Partition = tuple[uuid.UUID, int]
_Shares = dict[str, list[_Partition]]


def assign_uniformly(given: AssignmentInput) -> dict[str, Partitions]:
    """Assign by the module's rules."""
    shares = _kept(given)
    owned = {partition for partitions in shares.values() for partition in partitions}
    free = [partition for partition in _all_partitions(given) if partition not in owned]
    if given.is_homogeneous:
        _share_equally(shares, free)
    else:
        _give_to_the_least(given, shares, free)
        _even_out(given, shares)
    return {member_id: _by_topic(partitions) for member_id, partitions in shares.items()}


def _kept(given: AssignmentInput) -> _Shares:
    """Return each member's partitions of topics that it still reads. The first of two owners keeps a partition."""
    taken: set[_Partition] = set()
    shares: _Shares = {}
    for member_id, member in given.members.items():
        mine = [
            (topic_id, number)
            for topic_id, numbers in member.assigned.items()
            if topic_id in member.topics
            for number in sorted(numbers)
            if number < given.partitions.get(topic_id, 0) and (topic_id, number) not in taken
        ]
        taken.update(mine)
        shares[member_id] = mine
    return shares


def _all_partitions(given: AssignmentInput) -> Iterator[_Partition]:
    for topic_id, partitions in given.partitions.items():
        for number in range(partitions):
            yield topic_id, number


def _share_equally(shares: _Shares, free: list[_Partition]) -> None:
    if not shares:
        return
    total = len(free) + sum(len(partitions) for partitions in shares.values())
    quota, extra = divmod(total, len(shares))
    rest = deque(free)
    takers = []
    for member_id in sorted(shares, key=lambda member_id: -len(shares[member_id])):  # the largest keep the extra ones
        mine = shares[member_id]
        limit = quota + (extra > 0 and len(mine) > quota)
        extra -= limit > quota
        rest.extend(mine[limit:])
        del mine[limit:]
        takers.append(member_id)
    for member_id in takers:
        mine = shares[member_id]
        limit = quota
        if len(mine) <= quota and extra > 0:
            limit, extra = quota + 1, extra - 1
        while len(mine) < limit:
            mine.append(rest.popleft())


def _give_to_the_least(given: AssignmentInput, shares: _Shares, free: Iterable[_Partition]) -> None:
    subscribers = _subscribers(given)
    ordered = sorted(
        free, key=lambda one: (-given.partitions[one[0]] / len(subscribers[one[0]]), len(subscribers[one[0]]), one[0])
    )
    for topic_id, number in ordered:
        least = min(subscribers[topic_id], key=lambda member_id: len(shares[member_id]))
        shares[least].append((topic_id, number))


def _even_out(given: AssignmentInput, shares: _Shares) -> None:
    """Move partitions until no move helps. It terminates: each move reduces the sum of the squared partition counts."""
    subscribers = {topic_id: members for topic_id, members in _subscribers(given).items() if len(members) > 1}
    has_moved = True
    while has_moved:
        has_moved = False
        for topic_id, members in subscribers.items():
            has_moved |= _even_out_topic(topic_id, members, shares)


def _even_out_topic(topic_id: uuid.UUID, members: list[str], shares: _Shares) -> bool:
    has_moved = False
    while True:
        least = min(members, key=lambda member_id: len(shares[member_id]))
        giver = _most_with(topic_id, members, shares)
        if giver is None or len(shares[giver]) - len(shares[least]) <= 1:
            return has_moved
        partition = next(one for one in reversed(shares[giver]) if one[0] == topic_id)
        shares[giver].remove(partition)
        shares[least].append(partition)
        has_moved = True


def _most_with(topic_id: uuid.UUID, members: list[str], shares: _Shares) -> str | None:
    """Return the member with the most partitions in total, among members with a partition of the topic."""
    having = [member_id for member_id in members if any(one[0] == topic_id for one in shares[member_id])]
    return max(having, key=lambda member_id: len(shares[member_id]), default=None)


def _subscribers(given: AssignmentInput) -> dict[uuid.UUID, list[str]]:
    return {
        topic_id: [member_id for member_id, member in given.members.items() if topic_id in member.topics]
        for topic_id in given.partitions
    }


def _by_topic(partitions: Iterable[_Partition]) -> Partitions:
    numbers: dict[uuid.UUID, set[int]] = {}
    for topic_id, number in partitions:
        numbers.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(found) for topic_id, found in numbers.items()}
