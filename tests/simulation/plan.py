"""The plan of one run: the cluster's shape and a list of events, all drawn from one seeded random source.

The events are drawn before the run and do not depend on it. An event is a kind and a number, and the run interprets the
number: ``number % len(candidates)`` picks a message, a broker or a partition. So every sublist of the events is a plan
too, and a failing plan can be shrunk. Each seed has its own weights, with some kinds left out, because bugs often need
many events of few kinds.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

EVENTS = 260
"""The number of events of a plan. The run settles after them, which takes more steps."""


class Kind(enum.Enum):
    """The event of a step, with its usual weight."""

    EXCHANGE = "exchange", 420
    """A few messages arrive, and the responses to them too."""
    DELIVER = "deliver", 80
    """A message arrives."""
    LOSE = "lose", 12
    DOUBLE = "double", 12
    """A request arrives twice."""
    HOLD = "hold", 14
    """A message is delayed for a long time."""
    RELEASE = "release", 10
    """The delayed messages can arrive."""
    GIVE_UP = "give up", 10
    """A client stops waiting for a response. Its request may still arrive."""
    PRODUCE = "produce", 120
    CONSUME = "consume", 30
    METADATA = "metadata", 170
    """A broker reads the metadata log."""
    WAIT = "wait", 100
    """Time passes; timers run."""
    STALL = "stall", 7
    """A broker is not scheduled for longer than its session, or its followers' lag time."""
    BLOCK = "block", 8
    """A way between two nodes loses all messages."""
    HEAL = "heal", 12
    CRASH = "crash", 12
    """A broker's process is killed, or its machine loses its power."""
    CRASH_AT_CALL = "crash at a disk call", 10
    START = "start", 50
    SHUT_DOWN = "shut down", 9
    """A controlled shutdown begins."""
    FLUSH = "flush", 14
    CHECKPOINT = "checkpoint", 14
    DELETE_RECORDS = "delete records", 8
    ELECT = "elect", 16
    """The preferred leader is elected."""
    REASSIGN = "reassign", 4
    CONTROLLER_RESTART = "controller restart", 3
    RETURN = "return", 0
    """A broker restarts while a proposal that adds it to the in-sync replicas is on its way. Then that arrives."""

    def __init__(self, words: str, weight: int) -> None:
        self.words = words
        self.weight = weight


_ALWAYS = frozenset({Kind.EXCHANGE, Kind.PRODUCE, Kind.METADATA, Kind.WAIT, Kind.START, Kind.HEAL})
_KINDS = tuple(kind for kind in Kind if kind.weight)
_RETURNS = (0, 0, 0, 6)
"""The numbers of RETURN events of a plan. They are added to the other events, since they need a rare moment."""
_NUMBERS = 1 << 30


class Event(NamedTuple):
    kind: Kind
    number: int
    place: int
    """The place in the plan of its seed, from 1. A shrunk plan is a seed with the places that are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The cluster of one run."""

    brokers: int = 3
    partitions: int = 1
    replication_factor: int = 3
    min_isr: int = 2
    unclean_elections: bool = False
    """The topic's ``unclean.leader.election.enable``."""
    power_losses: bool = False
    """Crashes may lose unsynced data. Without it only processes are killed, and the page cache survives."""
    flush_messages: int | None = None
    """The topic's ``flush.messages``."""
    segment_bytes: int = 1 << 20
    eligible_leaders: bool = True
    """The cluster keeps eligible leader replicas (``eligible.leader.replicas.version``), as from 4.1 on."""

    def __str__(self) -> str:
        parts = [
            f"{self.brokers} brokers",
            f"{self.partitions} partition{'s' if self.partitions > 1 else ''}",
            f"replication factor {self.replication_factor}",
            f"min.insync.replicas={self.min_isr}",
        ]
        parts += ["unclean.leader.election.enable=true"] * self.unclean_elections
        parts += ["power losses"] * self.power_losses
        parts += ["no eligible leader replicas"] * (not self.eligible_leaders)
        parts += [f"flush.messages={self.flush_messages}"] * (self.flush_messages is not None)
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    seed: int
    shape: Shape
    events: tuple[Event, ...]

    def with_events(self, events: tuple[Event, ...]) -> Plan:
        return replace(self, events=events)

    def only(self, places: Collection[int]) -> Plan:
        """Return the plan with the events at ``places``."""
        return self.with_events(tuple(event for event in self.events if event.place in places))

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(event.place for event in self.events)


def plan_of(seed: int, length: int = EVENTS) -> Plan:
    """Return the plan of a seed, always the same one."""
    source = random.Random(seed)
    brokers = source.choice((3, 3, 3, 4, 5))
    factor = source.choice((2, 3, 3, 3, 3)) if brokers < 5 else source.choice((3, 3, 4, 5))
    losses = source.random() < 0.5
    shape = Shape(
        brokers=brokers,
        partitions=source.choice((1, 1, 1, 2)),
        replication_factor=factor,
        min_isr=source.choice((1, 2, 2, 2)) if factor < 4 else source.choice((2, 3)),
        unclean_elections=source.random() < 0.12,
        power_losses=losses,
        flush_messages=source.choice((None, None, None, None, 1)),
        segment_bytes=source.choice((1 << 20, 1 << 20, 400)) if not losses else 1 << 20,
    )
    weights = [_weight(kind, source) for kind in _KINDS]
    totals = list(accumulate(weights))
    kinds = source.choices(_KINDS, cum_weights=totals, k=length)
    events = [Event(kind, source.randrange(_NUMBERS), place) for place, kind in enumerate(kinds, 1)]
    for place in range(length + 1, length + 1 + source.choice(_RETURNS)):
        events.insert(source.randrange(len(events)), Event(Kind.RETURN, source.randrange(_NUMBERS), place))
    if not losses:  # without eligible leaders, the last in-sync replica leads after a power loss, too
        shape = replace(shape, eligible_leaders=source.random() >= 0.2)
    return Plan(seed=seed, shape=shape, events=tuple(events))


def _weight(kind: Kind, source: random.Random) -> float:
    """Return the kind's weight for one seed: left out, rare, usual or frequent."""
    factor = source.choice((0, 0.3, 1, 1, 1, 1, 2.5))
    return kind.weight * (factor or (0.5 if kind in _ALWAYS else 0))
