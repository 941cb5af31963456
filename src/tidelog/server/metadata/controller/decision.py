"""A controller's decision, with records to write and a result, and the controller's settings."""

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
"""The most records of one change that a user requests (Kafka's ``MAX_RECORDS_PER_USER_OP``)."""


class Decision(NamedTuple, Generic[T]):
    """A decision. The result is returned once the records are written; without records nothing changes."""

    records: Sequence[MetadataRecord]
    answer: T


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    node_id: int
    config: BrokerConfig
    """The properties file with its overrides. Later changes are in the image."""
    random: Random = field(default_factory=Random)
    """The random numbers for the placement of replicas."""


def require_bounded(records: int) -> None:
    """Raise ApiError(POLICY_VIOLATION) if a change has too many records."""
    if records > MAX_RECORDS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
