"""A model of the metadata quorum for an observer's tests: logs are lists of records, and the leader is the truth.

Raft lets a new leader lose records that are not committed, and never others. The leader knows the high watermark only
once it has committed a record of its own epoch. A batch is one record: its epoch and its value, 12 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch_response import SnapshotId
from tidelog.replication.observer_messages import (
    UNKNOWN,
    FetchedMetadata,
    FetchedSnapshot,
    MetadataFetch,
    QuorumNode,
    SnapshotFetch,
)
from tidelog.storage.epoch import EpochEndOffset

NO_SNAPSHOT = SnapshotId(0, 0)
CONTROLLERS = (11, 12, 13)
_RECORD = struct.Struct(">iq")


class Entry(NamedTuple):
    epoch: int
    value: int


def to_bytes(entries: Iterable[Entry]) -> bytes:
    return b"".join(_RECORD.pack(*entry) for entry in entries)


def from_bytes(data: bytes) -> list[Entry]:
    return [Entry(*fields) for fields in _RECORD.iter_unpack(data)]


@dataclass
class ModelLog:
    """A metadata log: the records above a snapshot. It implements ``MetadataReplica``."""

    start: SnapshotId = NO_SNAPSHOT
    """The snapshot below the log."""
    below: list[Entry] = field(default_factory=list)
    """The contents of that snapshot."""
    entries: list[Entry] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        return self.start.end_offset + len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else self.start.epoch

    @property
    def everything(self) -> list[Entry]:
        return [*self.below, *self.entries]

    def end_of_epoch(self, epoch: int) -> EpochEndOffset:
        known = [number for number, entry in enumerate(self.entries) if entry.epoch <= epoch]
        if known:
            return EpochEndOffset(self.entries[known[-1]].epoch, self.start.end_offset + known[-1] + 1)
        if self.has_base:
            return EpochEndOffset(self.start.epoch, self.start.end_offset)
        return EpochEndOffset(self.last_epoch, self.end_offset)

    @property
    def has_base(self) -> bool:
        return self.start.end_offset > 0

    def has_snapshot(self, snapshot_id: SnapshotId) -> bool:
        return snapshot_id == self.start

    def truncate_to(self, offset: int) -> None:
        del self.entries[max(0, offset - self.start.end_offset) :]

    def start_at(self, snapshot_id: SnapshotId, contents: list[Entry]) -> None:
        self.start, self.below, self.entries = snapshot_id, contents, []

    def read(self, offset: int, count: int) -> list[Entry]:
        first = offset - self.start.end_offset
        return self.entries[first : first + count]


@dataclass
class Quorum:
    """The controllers. Each knows an epoch and its leader; the newest is in ``epoch`` and ``leader_id``."""

    log: ModelLog = field(default_factory=ModelLog)
    """The leader's log."""
    epoch: int = 0
    leader_id: int = UNKNOWN
    committed: int = 0
    epoch_start: int = 0
    known: dict[int, tuple[int, int]] = field(default_factory=lambda: dict.fromkeys(CONTROLLERS, (0, UNKNOWN)))
    values: int = 0
    pieces: int = 20
    """The bytes of a piece of a snapshot: no multiple of a record."""

    def node(self, node_id: int) -> QuorumNode:
        return QuorumNode(node_id, f"controller-{node_id}", 9093)

    @property
    def bootstrap(self) -> list[QuorumNode]:
        return [QuorumNode(-1 - node, f"controller-{node}", 9093) for node in self.known]

    @property
    def high_watermark(self) -> int:
        """The leader's high watermark as followers see it."""
        return self.committed if self.committed > self.epoch_start else UNKNOWN

    # --- events ---

    def elect(self, leader_id: int, lost: int = 0) -> None:
        """Elect a leader that has lost up to ``lost`` records that are not committed. It writes its first record."""
        self.log.truncate_to(max(self.committed, self.log.end_offset - lost))
        self.epoch += 1
        self.leader_id = leader_id
        self.epoch_start = self.log.end_offset
        self.known[leader_id] = (self.epoch, leader_id)
        self.append()

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.values += 1
            self.log.entries.append(Entry(self.epoch, self.values))

    def commit(self) -> None:
        """Commit all records of the leader's log."""
        self.committed = self.log.end_offset

    def snapshot(self, offset: int) -> None:
        """Replace the records below ``offset`` by a snapshot."""
        count = offset - self.log.start.end_offset
        if count > 0:
            below, above = self.log.entries[:count], self.log.entries[count:]
            contents = [*self.log.below, *below]
            self.log.start_at(SnapshotId(offset, below[-1].epoch), contents)
            self.log.entries = above

    def inform(self, node_id: int) -> None:
        self.known[node_id] = (self.epoch, self.leader_id)

    # --- requests ---

    def fetch(self, node_id: int, request: MetadataFetch, most: int = 3) -> FetchedMetadata:
        """Return a controller's response to Fetch."""
        epoch, leader_id = self.known[node_id]
        error = self._error(node_id, request.leader_epoch)
        endpoints = {leader_id: self.node(leader_id)} if leader_id != UNKNOWN else {}
        answer = FetchedMetadata(error=error, leader_id=leader_id, leader_epoch=epoch, endpoints=endpoints)
        if error is not ErrorCode.NONE:
            return answer
        found = {"leader_id": leader_id, "leader_epoch": epoch, "endpoints": endpoints}
        log, start = self.log, self.log.start
        if request.offset < start.end_offset or (log.has_base and request.last_fetched_epoch < start.epoch):
            return FetchedMetadata(**found, snapshot_id=start)  # type: ignore[arg-type]
        end = log.end_of_epoch(request.last_fetched_epoch)
        if request.offset > 0 and (end.epoch != request.last_fetched_epoch or end.end_offset < request.offset):
            return FetchedMetadata(**found, diverging=end)  # type: ignore[arg-type]
        records = to_bytes(log.read(request.offset, most))
        return FetchedMetadata(**found, high_watermark=self.high_watermark, records=records)  # type: ignore[arg-type]

    def fetch_snapshot(self, node_id: int, request: SnapshotFetch) -> FetchedSnapshot:
        epoch, leader_id = self.known[node_id]
        found = {"leader_id": leader_id, "leader_epoch": epoch}
        error = self._error(node_id, request.leader_epoch)
        if error is ErrorCode.NONE and request.snapshot_id != self.log.start:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        if error is not ErrorCode.NONE:
            return FetchedSnapshot(**found, error=error)  # type: ignore[arg-type]
        contents = to_bytes(self.log.below)
        piece = contents[request.position : request.position + self.pieces]
        return FetchedSnapshot(
            **found,  # type: ignore[arg-type]
            snapshot_id=request.snapshot_id,
            position=request.position,
            size=len(contents),
            data=piece,
        )

    def _error(self, node_id: int, epoch: int) -> ErrorCode:
        own_epoch, leader_id = self.known[node_id]
        if epoch > own_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if node_id != leader_id or own_epoch < self.epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < own_epoch else ErrorCode.NONE
