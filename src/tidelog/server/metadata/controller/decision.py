"""What the controller decides: records to write, and an answer that is given once they are. Also what it goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.metadata.metadata_record import MetadataRecord

T = TypeVar("T")

MAX_RECORDS: Final = 10_000
"""Of one change that a user asks for (Kafka's ``MAX_RECORDS_PER_USER_OP``)."""


class Decision(NamedTuple, Generic[T]):
    """No records: nothing changes."""

    records: Sequence[MetadataRecord]
    answer: T


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    node_id: int
    config: BrokerConfig
    """As the properties file and the overrides have it; what was changed since is in the image."""
    random: Random = field(default_factory=Random)
    """For the placement of replicas."""


def require_bounded(records: int) -> None:
    """ApiError POLICY_VIOLATION for a change of too many records."""
    if records > MAX_RECORDS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
