"""The requests, responses and commands of a ``MetadataObserver``. Immutable values.

The commands of one event belong together, in sequence. An error in one of them ends the observer:

===================  ==================================================================================================
command              what the driver does
===================  ==================================================================================================
WriteQuorumState     replaces ``quorum-state``, durable before the next command
AnnounceLeader       tells the other channels to the controller where it is
SendFetch            sends a Fetch request for ``__cluster_metadata``-0, by its topic id
SendFetchSnapshot    sends a FetchSnapshot request
Append               appends the batches up to its leader epoch; then ``written``, or ``refused`` for invalid batches
TruncateTo           truncates the log; then ``written``
BeginSnapshot        creates an empty temporary file for the snapshot
AddToSnapshot        appends a piece to the temporary file
InstallSnapshot      checks the snapshot, renames it, and truncates the log fully, so that it starts at the snapshot's
                     end; then ``written``, or ``refused`` for an invalid snapshot
DropSnapshot         removes the temporary file
SetHighWatermark     sets the high watermark: the records below it are committed
AvoidNode            logs the error; the node gets no request until then
StopBroker           stops the process: the quorum contradicts this log, or refuses this node
===================  ==================================================================================================

Source: Kafka's ``KafkaRaftClient``, ``RaftUtil``; KIP-595, KIP-630, KIP-853, KIP-1166.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch_response import SnapshotId
from tidelog.replication.broker_lifecycle import StopBroker
from tidelog.replication.follower_commands import Append, SetHighWatermark, TruncateTo
from tidelog.storage.epoch import EpochEndOffset

if TYPE_CHECKING:
    from typing_extensions import Buffer

UNKNOWN: Final = -1
"""No leader, no epoch, or no offset."""


class QuorumNode(NamedTuple):
    """A controller's address. The nodes of ``controller.quorum.bootstrap.servers`` have ids below -1."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFetch:
    """The fields of a Fetch request that change."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    """The epoch of the last batch, or of the snapshot below the log; never negative."""
    high_watermark: int = UNKNOWN
    """The high watermark that this node knows (Fetch v18), or -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFetch:
    """The fields of a FetchSnapshot request that change."""

    leader_epoch: int
    snapshot_id: SnapshotId
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumResponse:
    """The common fields of responses of the quorum."""

    top_level_error: ErrorCode = ErrorCode.NONE
    error: ErrorCode = ErrorCode.NONE
    """The error of the partition."""
    leader_id: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    endpoints: Mapping[int, QuorumNode] = field(default_factory=dict)
    """The controllers' addresses by their id. Fetch has them since version 16, FetchSnapshot since 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedMetadata(QuorumResponse):
    """A Fetch response."""

    high_watermark: int = UNKNOWN
    """-1 until the leader has committed a record of its own epoch."""
    diverging: EpochEndOffset | None = None
    snapshot_id: SnapshotId | None = None
    """The log must begin with this snapshot: the leader no longer has the records."""
    records: Buffer = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedSnapshot(QuorumResponse):
    """A FetchSnapshot response."""

    snapshot_id: SnapshotId | None = None
    """None, or negative fields: the leader does not have the snapshot."""
    position: int = 0
    size: int = 0
    """The bytes of the whole snapshot."""
    data: bytes = b""
    """Bytes from ``position`` on. They may begin and end inside batches."""


class WriteQuorumState(NamedTuple):
    leader_id: int
    epoch: int


class AnnounceLeader(NamedTuple):
    """The quorum's leader, or None while it is unknown."""

    leader: QuorumNode | None
    epoch: int


class SendFetch(NamedTuple):
    number: int
    node: QuorumNode
    request: MetadataFetch
    deadline_ms: int
    """The request counts as lost from then on. A later response is ignored."""


class SendFetchSnapshot(NamedTuple):
    number: int
    node: QuorumNode
    request: SnapshotFetch
    deadline_ms: int


class BeginSnapshot(NamedTuple):
    snapshot_id: SnapshotId


class AddToSnapshot(NamedTuple):
    snapshot_id: SnapshotId
    position: int
    data: bytes


class InstallSnapshot(NamedTuple):
    snapshot_id: SnapshotId
    size: int


class DropSnapshot(NamedTuple):
    snapshot_id: SnapshotId


class AvoidNode(NamedTuple):
    node: QuorumNode
    error: ErrorCode
    until_ms: int


ObserverCommand = (
    WriteQuorumState
    | AnnounceLeader
    | SendFetch
    | SendFetchSnapshot
    | Append
    | TruncateTo
    | BeginSnapshot
    | AddToSnapshot
    | InstallSnapshot
    | DropSnapshot
    | SetHighWatermark
    | AvoidNode
    | StopBroker
)
