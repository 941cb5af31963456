"""The driver of a ``MetadataObserver``: its requests go to the controllers, and its writes to the observed log.

Committed records go to the image, and the quorum's leader to the channel for the other requests. Writes run in
background threads. A log that cannot be written, or a log that contradicts the quorum, ends the broker.
Thread rule: the event loop only. Source: Kafka's ``KafkaRaftClient``, ``KafkaRaftManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.model.errors import ClientError
from tidelog.model import CheckpointError, CorruptRecordError, OffsetsOutOfOrderError, UnexpectedAppendOffsetError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch_response import read_fetch_response
from tidelog.replication import MetadataObserver
from tidelog.replication.broker_lifecycle import StopBroker
from tidelog.replication.follower_commands import Append, SetHighWatermark, TruncateTo
from tidelog.replication.observer_messages import (
    AddToSnapshot,
    AnnounceLeader,
    AvoidNode,
    BeginSnapshot,
    DropSnapshot,
    InstallSnapshot,
    ObserverCommand,
    QuorumNode,
    SendFetch,
    SendFetchSnapshot,
    WriteQuorumState,
)
from tidelog.runtime.executor import InThread
from tidelog.runtime.repeated_errors import RepeatedErrors
from tidelog.server.metadata.kraft.quorum import Voters
from tidelog.server.metadata.observer.core_driver import CoreDriver
from tidelog.server.metadata.observer.observed_image import ObservedImage
from tidelog.server.metadata.observer.observed_log import ObservedLog
from tidelog.server.metadata.observer.quorum_links import QuorumLinks
from tidelog.server.metadata.observer.quorum_messages import (
    Observer,
    fetch_values,
    fetched_metadata,
    fetched_snapshot,
    snapshot_values,
)

_log: Final = logging.getLogger(__name__)
_REFUSALS: Final = (CheckpointError, CorruptRecordError, OffsetsOutOfOrderError, UnexpectedAppendOffsetError)
"""Errors of fetched bytes. The log is unchanged, and they are fetched again."""
_EXPECTED: Final = frozenset({ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors of an election, and of a node that only names the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverParts:
    core: MetadataObserver
    log: ObservedLog
    image: ObservedImage
    links: QuorumLinks
    observer: Observer
    in_thread: InThread
    request_timeout_ms: int
    on_leader: Callable[[QuorumNode | None], None]
    on_stop: Callable[[str], None]
    """Called with the reason for which the broker must not go on."""


class ObserverDriver(CoreDriver[ObserverCommand]):
    def __init__(self, parts: ObserverParts, monotonic_ms: Callable[[], int]) -> None:
        super().__init__(monotonic_ms)
        self._parts = parts
        self._core, self._log = parts.core, parts.log
        self._failures = RepeatedErrors(_log, "Controller %s: %s")

    @property
    def _due_ms(self) -> int | None:
        return self._core.next_poll_ms

    def _tick(self, now_ms: int) -> Iterable[ObserverCommand]:
        return self._core.poll(now_ms)

    def start(self, *, epoch: int, leader_id: int, voters: Mapping[int, QuorumNode]) -> None:
        """Begin with the contents of ``quorum-state``."""
        self.post(lambda _now_ms: self._core.start(epoch=epoch, leader_id=leader_id, voters=voters))

    async def _carry_out(self, command: ObserverCommand) -> Iterable[ObserverCommand]:
        in_thread, log = self._parts.in_thread, self._log
        match command:
            case SendFetch() | SendFetchSnapshot():
                self._spawn(self._send(command))
            case Append() | TruncateTo() | InstallSnapshot():
                return await self._write(command)
            case SetHighWatermark():
                log.update_high_watermark(command.offset)
                self._parts.image.advance(command.offset)
            case WriteQuorumState(leader_id, epoch):
                await in_thread(log.write_quorum_state, leader_id, epoch, _static_ids(self._parts.image.voters))
            case AnnounceLeader(leader, epoch):
                self._announce(leader, epoch)
            case BeginSnapshot(snapshot_id):
                _log.info("Fetching snapshot %d-%d of the cluster metadata", *snapshot_id)
                await in_thread(log.begin_snapshot, snapshot_id)
            case AddToSnapshot(snapshot_id, position, data):
                await in_thread(log.add_to_snapshot, snapshot_id, position, data)
            case DropSnapshot(snapshot_id):
                await in_thread(log.drop_snapshot, snapshot_id)
            case AvoidNode():
                self._avoid(command)
            case StopBroker(reason):
                self._parts.on_stop(reason)
        return ()

    def _announce(self, leader: QuorumNode | None, epoch: int) -> None:
        if leader is not None:
            self._failures = RepeatedErrors(_log, "Controller %s: %s")
            _log.info("Controller %d at %s:%d leads the metadata quorum in epoch %d", *leader, epoch)
        self._parts.on_leader(leader)

    def _avoid(self, command: AvoidNode) -> None:
        if command.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._parts.on_stop(
                f"controller {_name(command.node)} is of another cluster than this broker's log directories, which are"
                f" of cluster {self._parts.observer.cluster_id}: check controller.quorum.bootstrap.servers and log.dirs"
            )
        elif command.error not in _EXPECTED and command.error is not ErrorCode.BROKER_NOT_AVAILABLE:
            self._note(command.node, f"it responds to a Fetch of the metadata log with {command.error.name}")

    def _note(self, node: QuorumNode, reason: str) -> None:
        self._failures.note(_name(node), ClientError(reason))

    async def _write(self, command: Append | TruncateTo | InstallSnapshot) -> Iterable[ObserverCommand]:
        log, in_thread = self._log, self._parts.in_thread
        try:
            async with self._parts.image.disk:
                match command:
                    case Append():
                        await in_thread(log.append_fetched, command.records, command.leader_epoch)
                    case TruncateTo():
                        _log.warning("The metadata log is truncated to %d: %s", command.offset, command.cause.value)
                        await in_thread(log.truncate_to, command.offset)
                    case InstallSnapshot(snapshot_id, size):
                        await in_thread(log.install_snapshot, snapshot_id, size)
        except _REFUSALS as error:
            _log.error("Fetched metadata is refused, and will be fetched again: %s", error)
            return self._core.refused(self._monotonic_ms())
        return self._core.written()

    async def _send(self, command: SendFetch | SendFetchSnapshot) -> None:
        number, node = command.number, command.node
        parts = self._parts
        timeout_ms = parts.request_timeout_ms
        try:
            if isinstance(command, SendFetch):
                values = fetch_values(parts.observer, command.request, self._log.log_start_offset)
                found = fetched_metadata(
                    await parts.links.send(
                        node,
                        ApiKey.FETCH,
                        values,
                        purpose="metadata",
                        timeout_ms=timeout_ms,
                        decode=read_fetch_response,
                    )
                )
                self.post(lambda now_ms: self._core.fetched(number, found, now_ms))
            else:
                values = snapshot_values(parts.observer, command.request)
                piece = fetched_snapshot(
                    await parts.links.send(
                        node, ApiKey.FETCH_SNAPSHOT, values, purpose="metadata", timeout_ms=timeout_ms
                    )
                )
                self.post(lambda now_ms: self._core.fetched_snapshot(number, piece, now_ms))
        except ClientError as error:
            self._note(node, error.message)
            self.post(lambda now_ms: self._core.fail_request(number, now_ms))


def _name(node: QuorumNode) -> str:
    return f"{node.host}:{node.port}" if node.id < 0 else f"{node.id} at {node.host}:{node.port}"


def _static_ids(voters: Voters) -> tuple[int, ...] | None:
    return voters.ids if voters.kraft_version == 0 else None
