"""Placement of new replicas on brokers: round-robin over the racks, and over the brokers in each.

It starts at random, and each partition begins one rack further, and one broker further in each rack. So leaders and
replicas are spread, and topics differ. A broker gets no replica in a controlled shutdown, or if all its log directories
are cordoned (KIP-1066). Fenced brokers come last and never first, because the first replica is the leader. After every
active broker has led once, all are shuffled. It is pure, but for ``random``. Source: Kafka's ``StripedReplicaPlacer``.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.metadata.broker_registration import BrokerRegistration


def place_replicas(
    brokers: Iterable[BrokerRegistration], partitions: int, replicas: int, random: Random
) -> list[tuple[int, ...]]:
    """Return the brokers of each partition, the leader first. Raise ApiError(INVALID_REPLICATION_FACTOR) if there are
    too few brokers."""
    usable = (broker for broker in brokers if not broker.in_controlled_shutdown and broker.takes_partitions)
    known = sorted(usable, key=lambda broker: broker.id)
    active = sum(not broker.is_fenced for broker in known)
    if replicas <= 0:
        raise _refusal(f"Invalid replication factor {replicas}: the replication factor must be positive.")
    if not active:
        raise _refusal("All brokers are currently fenced, or have all their log directories cordoned.")
    if replicas > len(known):
        raise _refusal(
            f"The target replication factor of {replicas} cannot be reached because only {len(known)} broker(s) are"
            " registered or some brokers have all their log directories cordoned."
        )
    racks = _Racks(known, random)
    placed = []
    for number in range(partitions):
        if number and active > 1 and number % active == 0:
            racks.shuffle()
        placed.append(racks.next(replicas))
    return placed


def _refusal(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


class _Racks:
    def __init__(self, brokers: list[BrokerRegistration], random: Random) -> None:
        self._random = random
        names = sorted({broker.rack for broker in brokers}, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack([broker for broker in brokers if broker.rack == name], random) for name in names]
        self._first = random.randrange(len(self._racks))

    def shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for rack in self._racks:
            rack.shuffle(self._random)

    def next(self, replicas: int) -> tuple[int, ...]:
        order = self._racks[self._first :] + self._racks[: self._first]
        self._first = (self._first + 1) % len(self._racks)
        for rack in order:
            rack.begin()
        leader_rack = next(rack for rack in order if rack.has_active)
        chosen = [leader_rack.take()]
        skipped: _Rack | None = leader_rack
        while len(chosen) < replicas:
            for rack in order:
                if rack is skipped:  # it has placed the leader already
                    skipped = None
                elif rack.left and len(chosen) < replicas:
                    chosen.append(rack.take())
        return tuple(chosen)


class _Rack:
    """The brokers of one rack in the sequence for one partition, active ones first."""

    def __init__(self, brokers: list[BrokerRegistration], random: Random) -> None:
        self._active = [broker.id for broker in brokers if not broker.is_fenced]
        self._fenced = [broker.id for broker in brokers if broker.is_fenced]
        self._offset = random.randrange(len(brokers))
        self.has_active = bool(self._active)
        self.left: list[int] = []

    def shuffle(self, random: Random) -> None:
        random.shuffle(self._active)
        random.shuffle(self._fenced)

    def begin(self) -> None:
        """Begin another partition, one broker further."""
        self._offset += 1
        self.left = _turned(self._active, self._offset) + _turned(self._fenced, self._offset)

    def take(self) -> int:
        return self.left.pop(0)


def _turned(brokers: list[int], offset: int) -> list[int]:
    start = offset % len(brokers) if brokers else 0
    return brokers[start:] + brokers[:start]
