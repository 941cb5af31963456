"""A transactional producer as a model: what it has written, what it was told, and what must have become of it.

======================  ==============================================================================================
fate of a transaction   because
======================  ==============================================================================================
COMMITTED               the producer was told so
ABORTED                 the producer was told so; or it never asked for the commit, and is fenced off
EITHER                  it asked for the commit and never heard the answer: all of it is there, or nothing
======================  ==============================================================================================
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tidelog.model import TopicPartition
from tidelog.server.transactions.rules.transaction import ProducerIdAndEpoch


class Fate(enum.Enum):
    COMMITTED = enum.auto()
    ABORTED = enum.auto()
    EITHER = enum.auto()


@dataclass(slots=True)
class ModelledTransaction:
    values: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    fate: Fate | None = None
    """None: it is open."""


@dataclass(slots=True, eq=False)
class ModelledProducer:
    """One life of a client; ``is_fenced``: another has taken its transactional id."""

    name: str
    producer: ProducerIdAndEpoch
    current: ModelledTransaction = field(default_factory=ModelledTransaction)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    asked: bool | None = None
    """The end it has asked for and not heard of: it can only ask for the same again."""
    is_fenced: bool = False
    is_dead: bool = False

    @property
    def may_write(self) -> bool:
        return not self.is_dead and self.asked is None

    def has_written(self, partition: TopicPartition, value: bytes) -> None:
        self.current.values.append((partition, value))
        self.sequences[partition] = self.sequences.get(partition, 0) + 1

    def has_ended(self, committed: bool, following: ProducerIdAndEpoch) -> None:
        """It was told."""
        self.current.fate = Fate.COMMITTED if committed else Fate.ABORTED
        self.current = ModelledTransaction()
        if following != self.producer:
            self.sequences.clear()
        self.producer, self.asked = following, None

    def dies(self) -> None:
        """By itself, or because it was fenced off."""
        self.is_dead = True
        if self.current.fate is None:
            self.current.fate = Fate.EITHER if self.asked else Fate.ABORTED
