"""The requests and responses of the simulation, with the fields of Kafka's that matter here."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.storage.epoch import EpochEndOffset


class Fetch(NamedTuple):
    """A follower's fetch of one partition. ``last_fetched_epoch`` is -1 if its log is empty."""

    broker_id: int
    broker_epoch: int
    partition: int
    offset: int
    leader_epoch: int
    last_fetched_epoch: int


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
    epoch: int = -1


class AlterPartition(NamedTuple):
    broker_id: int
    broker_epoch: int
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    """The proposed in-sync replicas with their broker epochs, -1 for an unknown one."""
    is_recovering: bool


class AlterPartitionResponse(NamedTuple):
    error: ErrorCode
    state: PartitionState | None


class Register(NamedTuple):
    broker_id: int
    incarnation: uuid.UUID
    previous_epoch: int | None
    """The epoch of the previous run after a clean shutdown, or None."""


class Registered(NamedTuple):
    error: ErrorCode
    epoch: int
