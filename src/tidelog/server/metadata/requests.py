"""What the controller is asked for, and what it answers. Immutable values; pure.

An answer has a part for each part of the request, in its order: some may be refused while others go through.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from tidelog.model import TidelogError
from tidelog.protocol.errors import ErrorCode, error_code_of
from tidelog.server.authorization.acl import Acl
from tidelog.server.configs.changes import SettingChange
from tidelog.server.metadata.image import ConfigResource, QuotaEntity
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.shown_text import MOST_OF_A_MESSAGE, shown

DEFAULT: Final = -1
"""As many partitions, or replicas, as the broker's settings say."""


class Outcome(NamedTuple):
    """How one part of a request went."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @classmethod
    def of(cls, error: TidelogError) -> Self:
        """Without a message where the error has none besides its code; a part of a message that is very long."""
        code = error_code_of(error)
        return cls(code, None if error.message == code.name else shown(error.message, MOST_OF_A_MESSAGE))

    @property
    def is_failure(self) -> bool:
        return self.error is not ErrorCode.NONE


DONE: Final = Outcome()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """``assignments``: brokers by partition, the preferred leader first; then the counts have to be ``DEFAULT``."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """``topic_id`` is None where there is no such topic; the counts are -1 where it was refused."""

    name: str | None
    topic_id: uuid.UUID | None = None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    """What was set for a new topic; the defaults are the caller's to add."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """Let a topic have ``total`` partitions. ``assignments``: the brokers of each new one; None: place them."""

    topic: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None


ConfigChanges = Mapping[ConfigResource, Sequence[SettingChange]]


class QuotaChange(NamedTuple):
    """``operations``: key and value; None takes the quota back."""

    entity: QuotaEntity
    operations: Sequence[tuple[str, float | None]]


class ScramDeletion(NamedTuple):
    """``mechanism``: by its number, whatever that is."""

    user: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """``salted``: the password, as its owner's client salted it; not to be shown."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user!r}, {self.mechanism})"


class RemovedAcls(NamedTuple):
    """What one filter of a request has come to."""

    outcome: Outcome
    acls: Sequence[Acl] = ()


class UpgradeType(enum.IntEnum):
    """The numbers are Kafka's; UNKNOWN stands for all others."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """Level 0 disables the feature."""

    feature: str
    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class ElectionType(enum.IntEnum):
    """The numbers are Kafka's."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAlteration:
    """What a partition's leader has found out: who is in sync. Refused where an epoch is not the present one."""

    topic_id: uuid.UUID
    partition: int
    isr: Sequence[int]
    leader_epoch: int
    partition_epoch: int
    is_recovering: bool = False


class AlteredPartition(NamedTuple):
    outcome: Outcome
    state: PartitionState | None
    """As it is now; None where it was refused."""


class Reassignment(NamedTuple):
    """``replicas`` None: the reassignment under way is taken back."""

    topic: str
    partition: int
    replicas: Sequence[int] | None
