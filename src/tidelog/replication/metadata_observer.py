"""A broker's copy of the metadata log: it finds the quorum's leader, and fetches records and snapshots from it.

The node to ask next:

===============================================  =====================================================================
situation                                        request
===============================================  =====================================================================
a request is in flight, or the log is written    none
no leader is known                               Fetch from a bootstrap server
the leader's response timed out                  Fetch from a bootstrap server
the leader backs off                             Fetch from a bootstrap server
a snapshot is being fetched                      FetchSnapshot from the leader, at the position reached
any other                                        Fetch from the leader
===============================================  =====================================================================

A random bootstrap server is chosen that does not back off. A follower of the quorum refuses the Fetch, and
names the leader. The observer believes a response by its epoch and leader. The first matching row counts:

==========================================================  ==========================================================
response                                                    effect
==========================================================  ==========================================================
lost, or an error without an epoch                          the node backs off
CLUSTER_AUTHORIZATION_FAILED                                the broker stops
an older epoch, or UNKNOWN_LEADER_EPOCH                     ignored; the node backs off
another leader in the same epoch                            the broker stops: two leaders were elected
a newer epoch, with or without a leader                     ``quorum-state`` is written, then the leader is followed
the leader of the same epoch, which was unknown             the same; without an error its contents count, too
INVALID_REQUEST                                             the broker stops
another error                                               the node backs off
a diverging epoch below the high watermark                  the broker stops: committed records would be lost
a diverging epoch                                           the log is truncated
a snapshot id                                               the snapshot is fetched, unless the log has it
a high watermark of -1                                      the leader does not know it yet: it stays
records, or none                                            they are appended; the high watermark follows, at most to
                                                            the log end, and never falls
==========================================================  ==========================================================

A snapshot comes in pieces. Once all bytes are there, it is checked, renamed, and the log starts again at its end. A
leader that no longer has the snapshot, another leader, or an unexpected piece ends it: the next Fetch begins again.

Three differences from Kafka 4.4, which sends the next request immediately or ends the process. An ignored response, an
error without news, and a piece without bytes make the node back off. A leader without a known address counts as
unknown. An unexpected piece of a snapshot drops the snapshot. ``controller.quorum.fetch.timeout.ms`` has no effect on
observers since Kafka 4.0; ``controller.quorum.request.timeout.ms`` leads to another server.

The owner calls ``poll`` at ``next_poll_ms``, carries out the commands (``observer_messages``), and reports the end of
each request by its number, and of each write. Thread rule: one owner. Times are in ms, and come from the owner. Source:
Kafka's ``KafkaRaftClient`` (the observer's part), ``FollowerState``, ``QuorumState``, ``RequestManager``, ``RaftLog``;
KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch_response import SnapshotId
from tidelog.replication.broker_lifecycle import StopBroker
from tidelog.replication.follower_commands import Append, SetHighWatermark, TruncateTo, TruncationCause
from tidelog.replication.observer_messages import (
    UNKNOWN,
    AddToSnapshot,
    AnnounceLeader,
    AvoidNode,
    BeginSnapshot,
    DropSnapshot,
    FetchedMetadata,
    FetchedSnapshot,
    InstallSnapshot,
    MetadataFetch,
    ObserverCommand,
    QuorumNode,
    QuorumResponse,
    SendFetch,
    SendFetchSnapshot,
    SnapshotFetch,
    WriteQuorumState,
)
from tidelog.storage.epoch import EpochEndOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    node_id: int
    bootstrap: Sequence[QuorumNode]
    """``controller.quorum.bootstrap.servers``, or the voters of a static quorum."""
    request_timeout_ms: int = 2000
    """``controller.quorum.request.timeout.ms``"""
    retry_backoff_ms: int = 20
    """``controller.quorum.retry.backoff.ms``"""


class MetadataReplica(Protocol):
    """The metadata log and its snapshots as the observer reads them."""

    @property
    def end_offset(self) -> int: ...
    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch; without batches that of the last snapshot, or 0."""
        ...

    def end_of_epoch(self, epoch: int, /) -> EpochEndOffset:
        """Return the largest epoch at or below ``epoch``, and its end. Without one, it is that of the first snapshot;
        without snapshots it is the log end."""
        ...

    def has_snapshot(self, snapshot_id: SnapshotId, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class _InFlight:
    number: int
    node: QuorumNode
    deadline_ms: int
    is_to_leader: bool


@dataclass(slots=True)
class _PartialSnapshot:
    id: SnapshotId
    position: int = 0


class MetadataObserver:
    """The state of one observer. ``choose`` returns a random number below its argument."""

    def __init__(self, log: MetadataReplica, settings: ObserverSettings, choose: Callable[[int], int]) -> None:
        self._log = log
        self._settings = settings
        self._choose = choose
        self.epoch = 0
        self.leader_id = UNKNOWN
        self.leader: QuorumNode | None = None
        """The leader's address, or None while no leader can be reached."""
        self.high_watermark: int | None = None
        self._voters: Mapping[int, QuorumNode] = {}
        self._requests = 0
        self._in_flight: _InFlight | None = None
        self._has_leader_timed_out = False
        self._backs_off_until_ms: dict[QuorumNode, int] = {}
        self._partial: _PartialSnapshot | None = None
        self._writing: Append | TruncateTo | InstallSnapshot | None = None
        self._leaders_high_watermark = UNKNOWN
        self._has_stopped = False

    # --- events of the broker ---

    def start(self, *, epoch: int, leader_id: int, voters: Mapping[int, QuorumNode]) -> list[ObserverCommand]:
        """Begin with the contents of ``quorum-state``, or with 0 and -1. ``voters`` has the known addresses.

        An epoch below that of the log is out of date: the leader is then unknown.
        """
        self._voters = voters
        if epoch < self._log.last_epoch:
            epoch, leader_id = self._log.last_epoch, UNKNOWN
        return self._follow(epoch, leader_id, voters.get(leader_id))

    def see_voters(self, voters: Mapping[int, QuorumNode]) -> None:
        """Take over the voters' addresses from the log. They count where responses have no addresses."""
        self._voters = voters

    @property
    def next_poll_ms(self) -> int | None:
        """The time of the next ``poll``, or None while the log is written. A past time means immediately."""
        if self._writing is not None or self._has_stopped:
            return None
        if self._in_flight is not None:
            return self._in_flight.deadline_ms
        nodes = [*self._settings.bootstrap, *([] if self.leader is None else [self.leader])]
        return min(self._backs_off_until_ms.get(node, 0) for node in nodes)

    def poll(self, now_ms: int) -> list[ObserverCommand]:
        """Send the next request if it is due."""
        if self._writing is not None or self._has_stopped:
            return []
        if self._in_flight is not None:
            if now_ms < self._in_flight.deadline_ms:
                return []
            self._has_leader_timed_out = self._in_flight.is_to_leader
            self._in_flight = None
        leader = self.leader
        if leader is None or self._has_leader_timed_out or self._backs_off(leader, now_ms):
            self._has_leader_timed_out = False  # the leader is asked again after that
            node = self._ready_bootstrap_server(now_ms)
            return [] if node is None else [self._fetch(node, now_ms)]
        if self._partial is None:
            return [self._fetch(leader, now_ms)]
        return [self._fetch_snapshot(leader, self._partial, now_ms)]

    # --- events of requests ---

    def fail_request(self, number: int, now_ms: int) -> list[ObserverCommand]:
        """Note a failed connection."""
        request = self._end(number)
        return [] if request is None else self._back_off(request, ErrorCode.BROKER_NOT_AVAILABLE, now_ms)

    def fetched(self, number: int, response: FetchedMetadata, now_ms: int) -> list[ObserverCommand]:
        """Take a Fetch response over, by the table above."""
        request = self._end(number)
        if request is None:
            return []
        commands, counts = self._judge(request, response, now_ms)
        if not counts:
            return commands
        if response.error is not ErrorCode.NONE:
            return [*commands, *self._back_off(request, response.error, now_ms)]
        commands += self._drop_snapshot()
        if response.diverging is not None:
            return [*commands, *self._truncate(response.diverging)]
        if response.snapshot_id is not None:
            return [*commands, *self._begin_snapshot(request, response.snapshot_id, now_ms)]
        self._leaders_high_watermark = response.high_watermark
        if len(memoryview(response.records)) == 0:
            return [*commands, *self._raise_high_watermark()]
        return [*commands, self._write(Append(records=response.records, leader_epoch=self.epoch))]

    def fetched_snapshot(self, number: int, response: FetchedSnapshot, now_ms: int) -> list[ObserverCommand]:
        """Take a FetchSnapshot response over: one piece."""
        request = self._end(number)
        if request is None:
            return []
        commands, counts = self._judge(request, response, now_ms)
        partial = self._partial
        if not counts or partial is None:
            return commands
        snapshot_id = response.snapshot_id
        if response.error is ErrorCode.SNAPSHOT_NOT_FOUND or snapshot_id is None or min(snapshot_id) < 0:
            return [*commands, *self._drop_snapshot()]
        if response.error is not ErrorCode.NONE:
            return [*commands, *self._back_off(request, response.error, now_ms)]
        end = partial.position + len(response.data)
        if (snapshot_id, response.position) != (partial.id, partial.position) or end > response.size:
            return [*commands, *self._drop_snapshot(), *self._back_off(request, ErrorCode.INVALID_REQUEST, now_ms)]
        if not response.data and end < response.size:
            return [*commands, *self._back_off(request, ErrorCode.NONE, now_ms)]
        commands.append(AddToSnapshot(partial.id, partial.position, response.data))
        partial.position = end
        if end == response.size:
            self._partial = None
            commands.append(self._write(InstallSnapshot(partial.id, response.size)))
        return commands

    # --- events of writes ---

    def written(self) -> list[ObserverCommand]:
        """Go on after the log was changed."""
        change, self._writing = self._writing, None
        match change:
            case Append():
                return self._raise_high_watermark()
            case InstallSnapshot(snapshot_id, _):
                if self._log.end_offset != snapshot_id.end_offset:
                    return self._stop(f"the log ends at {self._log.end_offset} after the installation of {snapshot_id}")
                self._leaders_high_watermark = snapshot_id.end_offset
                return self._raise_high_watermark()
        return []

    def refused(self, now_ms: int) -> list[ObserverCommand]:
        """Fetch again after invalid batches, or after an invalid snapshot. The log may have got the batches before."""
        change, self._writing = self._writing, None
        if self.leader is not None:
            self._backs_off_until_ms[self.leader] = now_ms + self._settings.retry_backoff_ms
        if isinstance(change, InstallSnapshot):
            return [DropSnapshot(change.snapshot_id)]
        return self._raise_high_watermark()

    # --- leader and epoch ---

    def _judge(self, request: _InFlight, response: QuorumResponse, now_ms: int) -> tuple[list[ObserverCommand], bool]:
        """Return the commands for the response's leader and epoch, and True if its contents count as well."""
        if response.top_level_error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return self._stop("the controllers refuse this node: it needs CLUSTER_ACTION on the cluster"), False
        if response.top_level_error is not ErrorCode.NONE:
            return self._back_off(request, response.top_level_error, now_ms), False
        epoch, error = response.leader_epoch, response.error
        if epoch < self.epoch or error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            return self._back_off(request, error, now_ms), False
        leader_id = response.leader_id
        if leader_id == self._settings.node_id:
            return self._stop(f"the quorum names this node, an observer, as the leader of epoch {epoch}"), False
        if epoch == self.epoch and UNKNOWN not in (leader_id, self.leader_id) and leader_id != self.leader_id:
            return self._stop(f"epoch {epoch} has two leaders, {self.leader_id} and {leader_id}"), False
        address = response.endpoints.get(leader_id, self._voters.get(leader_id))
        is_newer = epoch > self.epoch
        if is_newer or (self.leader is None and address is not None):
            return self._follow(epoch, leader_id, address), not is_newer and error is ErrorCode.NONE
        if error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER) or self.leader is None:
            return self._back_off(request, error, now_ms), False
        if error is ErrorCode.INVALID_REQUEST:
            return self._stop("the quorum's leader refuses this node's request as invalid"), False
        return [], True

    def _follow(self, epoch: int, leader_id: int, address: QuorumNode | None) -> list[ObserverCommand]:
        """Enter an epoch, or learn of its leader. A snapshot of another leader is dropped."""
        self.epoch, self.leader_id = epoch, leader_id
        self.leader = address
        self._in_flight = None
        self._has_leader_timed_out = False
        self._backs_off_until_ms.clear()
        return [*self._drop_snapshot(), WriteQuorumState(leader_id, epoch), AnnounceLeader(address, epoch)]

    # --- the log ---

    def _truncate(self, diverging: EpochEndOffset) -> list[ObserverCommand]:
        high_watermark = self.high_watermark or 0
        if diverging.end_offset < high_watermark:
            return self._stop(
                f"the leader's log diverges at {diverging.end_offset}, below the high watermark {high_watermark}:"
                " committed metadata would be lost"
            )
        own = self._log.end_of_epoch(diverging.epoch)
        if diverging.epoch == 0:
            offset = min(diverging.end_offset, self._log.end_offset)
        elif own.epoch == diverging.epoch:
            offset = min(diverging.end_offset, own.end_offset)
        else:
            offset = own.end_offset
        if offset < high_watermark:
            return self._stop(f"a truncation to {offset} would remove committed records below {high_watermark}")
        cause = TruncationCause.DIVERGING_EPOCH
        truncation = TruncateTo(offset=offset, cause=cause, high_watermark=high_watermark)
        return [self._write(truncation)]

    def _begin_snapshot(self, request: _InFlight, snapshot_id: SnapshotId, now_ms: int) -> list[ObserverCommand]:
        if min(snapshot_id) < 0 or self._log.has_snapshot(snapshot_id):
            return self._back_off(request, ErrorCode.NONE, now_ms)
        self._partial = _PartialSnapshot(snapshot_id)
        return [BeginSnapshot(snapshot_id)]

    def _drop_snapshot(self) -> list[ObserverCommand]:
        partial, self._partial = self._partial, None
        return [] if partial is None else [DropSnapshot(partial.id)]

    def _raise_high_watermark(self) -> list[ObserverCommand]:
        leaders, self._leaders_high_watermark = self._leaders_high_watermark, UNKNOWN
        if leaders < 0:
            return []
        offset = min(leaders, self._log.end_offset)
        if self.high_watermark is not None and offset < self.high_watermark:
            return self._stop(f"the leader's high watermark fell from {self.high_watermark} to {offset}")
        if offset == self.high_watermark:
            return []
        self.high_watermark = offset
        return [SetHighWatermark(offset=offset)]

    def _write(self, change: Append | TruncateTo | InstallSnapshot) -> ObserverCommand:
        self._writing = change
        return change

    def _stop(self, reason: str) -> list[ObserverCommand]:
        self._has_stopped = True
        return [StopBroker(reason)]

    # --- requests ---

    def _fetch(self, node: QuorumNode, now_ms: int) -> ObserverCommand:
        request = MetadataFetch(
            leader_epoch=self.epoch,
            offset=self._log.end_offset,
            last_fetched_epoch=self._log.last_epoch,
            high_watermark=UNKNOWN if self.high_watermark is None else self.high_watermark,
        )
        sent = self._begin(node, now_ms)
        return SendFetch(sent.number, node, request, sent.deadline_ms)

    def _fetch_snapshot(self, node: QuorumNode, partial: _PartialSnapshot, now_ms: int) -> ObserverCommand:
        request = SnapshotFetch(leader_epoch=self.epoch, snapshot_id=partial.id, position=partial.position)
        sent = self._begin(node, now_ms)
        return SendFetchSnapshot(sent.number, node, request, sent.deadline_ms)

    def _begin(self, node: QuorumNode, now_ms: int) -> _InFlight:
        self._requests += 1
        deadline_ms = now_ms + self._settings.request_timeout_ms
        self._in_flight = _InFlight(self._requests, node, deadline_ms, node == self.leader)
        return self._in_flight

    def _end(self, number: int) -> _InFlight | None:
        """Return the request in flight and end it. Return None for a late response: the request was lost."""
        request = self._in_flight
        if request is None or request.number != number:
            return None
        self._in_flight = None
        return request

    def _ready_bootstrap_server(self, now_ms: int) -> QuorumNode | None:
        servers = self._settings.bootstrap
        first = self._choose(len(servers))
        chosen = (servers[(first + number) % len(servers)] for number in range(len(servers)))
        return next((node for node in chosen if not self._backs_off(node, now_ms)), None)

    def _backs_off(self, node: QuorumNode, now_ms: int) -> bool:
        return now_ms < self._backs_off_until_ms.get(node, now_ms)

    def _back_off(self, request: _InFlight, error: ErrorCode, now_ms: int) -> list[ObserverCommand]:
        until_ms = now_ms + self._settings.retry_backoff_ms
        self._backs_off_until_ms[request.node] = until_ms
        return [AvoidNode(request.node, error, until_ms)]
