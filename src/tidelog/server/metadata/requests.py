"""The requests to the controller and their results. Immutable values; pure.

A result has a part for each part of the request, in the same sequence. Some parts may fail while others succeed.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from tidelog.model import TidelogError
from tidelog.protocol.errors import ErrorCode, error_code_of
from tidelog.protocol.shortened_text import MAX_MESSAGE_CHARS, shortened
from tidelog.server.authorization.acl import Acl
from tidelog.server.configs.changes import SettingChange
from tidelog.server.metadata.image import ConfigResource, QuotaEntity
from tidelog.server.metadata.partition_state import PartitionState

DEFAULT: Final = -1
"""The number of partitions or replicas from the broker's config."""


class Outcome(NamedTuple):
    """The result of one part of a request."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @classmethod
    def of(cls, error: TidelogError) -> Self:
        """Return the outcome of an error. The message is None if it only repeats the code, and is shortened if very
        long."""
        code = error_code_of(error)
        return cls(code, None if error.message == code.name else shortened(error.message, MAX_MESSAGE_CHARS))

    @property
    def is_failure(self) -> bool:
        return self.error is not ErrorCode.NONE


DONE: Final = Outcome()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. ``assignments`` lists the brokers by partition, the preferred leader first. Both counts must
    then be ``DEFAULT``."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """The result for one topic. ``topic_id`` is None if the topic is unknown, and the counts are -1 if it failed."""

    name: str | None
    topic_id: uuid.UUID | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    """The configs set for a new topic, without defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """A request for ``total`` partitions of a topic. ``assignments`` lists the brokers of each new partition. The
    controller places them if it is None."""

    topic: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None


ConfigChanges = Mapping[ConfigResource, Sequence[SettingChange]]


class QuotaChange(NamedTuple):
    """Changes of one entity's quotas. ``operations`` are pairs of key and value, and None removes the quota."""

    entity: QuotaEntity
    operations: Sequence[tuple[str, float | None]]


class ScramDeletion(NamedTuple):
    """A credential to delete. ``mechanism`` is any number, even an unknown one."""

    user: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """A credential to set. ``salted`` is the password as the client salted it, so ``repr`` hides it."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user!r}, {self.mechanism})"


class RemovedAcls(NamedTuple):
    """The result of one filter."""

    outcome: Outcome
    acls: Sequence[Acl] = ()


class UpgradeType(enum.IntEnum):
    """Kafka's numbers; UNKNOWN stands for all others."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A feature's new level; 0 disables the feature."""

    feature: str
    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class ElectionType(enum.IntEnum):
    """Kafka's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAlteration:
    """A leader's report of its in-sync replicas. It is refused if an epoch is not current."""

    topic_id: uuid.UUID
    partition: int
    isr: Sequence[int]
    leader_epoch: int
    partition_epoch: int
    is_recovering: bool = False
    broker_epochs: Sequence[int] = ()
    """The broker epochs of the in-sync replicas; -1 is unknown. Empty if the leader does not report them."""


class AlteredPartition(NamedTuple):
    outcome: Outcome
    state: PartitionState | None
    """The current state, or None if the report was refused."""


class Reassignment(NamedTuple):
    """The new replicas of a partition; None cancels the reassignment under way."""

    topic: str
    partition: int
    replicas: Sequence[int] | None
