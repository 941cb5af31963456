"""A model of a transactional producer: its records, the responses that it received, and its transactions' fates.

======================  ==============================================================================================
fate of a transaction   reason
======================  ==============================================================================================
COMMITTED               the producer received a successful response to its commit
ABORTED                 the producer received a successful response to its abort, or ended before it asked for a commit
EITHER                  the producer asked for a commit but received no response: everything exists, or nothing
======================  ==============================================================================================
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tidelog.model import TopicPartition
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch


class Fate(enum.Enum):
    COMMITTED = enum.auto()
    ABORTED = enum.auto()
    EITHER = enum.auto()


@dataclass(slots=True)
class ModelledTransaction:
    values: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    fate: Fate | None = None
    """``None`` while the transaction is open."""


@dataclass(slots=True, eq=False)
class ModelledProducer:
    """A client from start to end. ``is_fenced``: another client has taken its transactional id."""

    name: str
    producer: ProducerIdAndEpoch
    current: ModelledTransaction = field(default_factory=ModelledTransaction)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    asked: bool | None = None
    """The end that it asked for without a response. It can only repeat the same request."""
    is_fenced: bool = False
    is_dead: bool = False

    @property
    def may_write(self) -> bool:
        return not self.is_dead and self.asked is None

    def has_written(self, partition: TopicPartition, value: bytes) -> None:
        self.current.values.append((partition, value))
        self.sequences[partition] = self.sequences.get(partition, 0) + 1

    def has_ended(self, committed: bool, following: ProducerIdAndEpoch) -> None:
        """Apply a successful response."""
        self.current.fate = Fate.COMMITTED if committed else Fate.ABORTED
        self.current = ModelledTransaction()
        if following != self.producer:
            self.sequences.clear()
        self.producer, self.asked = following, None

    def dies(self) -> None:
        """End by itself, or because it was fenced."""
        self.is_dead = True
        if self.current.fate is None:
            self.current.fate = Fate.EITHER if self.asked else Fate.ABORTED
