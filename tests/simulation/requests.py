"""The requests and responses of the simulation, with the fields of Kafka's that matter here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.replication import AlteredPartition, IsrProposal
from tidelog.storage.epoch import EpochEndOffset


class Fetch(NamedTuple):
    """A follower's fetch of one partition. ``last_fetched_epoch`` is -1 if its log is empty."""

    broker_id: int
    broker_epoch: int
    partition: int
    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start: int


class Fetched(NamedTuple):
    error: ErrorCode
    high_watermark: int = -1
    log_start: int = -1
    data: bytes = b""
    diverging: EpochEndOffset | None = None


class ListOffsets(NamedTuple):
    """A follower's request for the leader's log start or log end."""

    partition: int
    leader_epoch: int
    is_earliest: bool


class ListedOffsets(NamedTuple):
    error: ErrorCode
    offset: int = -1


class AlterPartition(NamedTuple):
    """A leader's proposals of in-sync replicas, by partition."""

    broker_id: int
    broker_epoch: int
    proposals: Mapping[int, IsrProposal]


class AlterPartitionResponse(NamedTuple):
    """``error`` is that of the whole request; ``parts`` has the responses by partition."""

    error: ErrorCode
    parts: Mapping[int, AlteredPartition]


class Registered(NamedTuple):
    error: ErrorCode
    epoch: int
