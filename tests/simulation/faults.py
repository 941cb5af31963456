"""Deliberate faults: each breaks one rule of replication in this process, and the simulation has to find it.

A fault replaces attributes of the cores, of the log or of the drivers. ``applied`` restores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from simulation.batches import read_prints
from simulation.controller import Controller
from simulation.leading import LeadingDriver
from simulation.replica import Replica
from simulation.requests import Fetch, Fetched
from tidelog.model import LogOffsetMetadata
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication import (
    Commands,
    FetchedPartition,
    FetchPosition,
    Follower,
    InSyncReplicas,
    SetHighWatermark,
    TruncationCause,
)
from tidelog.replication.broker_sessions import BrokerControlState, BrokerSessions, RegisteredBroker, StaleSession
from tidelog.replication.heartbeat import BrokerHeartbeatRequest
from tidelog.server.metadata.controller import brokers, leaders, partition_change
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.partition_state import NO_LEADER, PartitionState
from tidelog.server.metadata.requests import PartitionAlteration
from tidelog.storage.epoch import EpochEndOffset, LeaderEpochCache

Patch = tuple[object, str, object]
"""An object, the name of its attribute, and the wrong value."""


@dataclass(frozen=True, slots=True)
class Fault:
    rule: str
    """The rule that the fault breaks, as a sentence."""
    patches: Callable[[], list[Patch]]


@contextmanager
def applied(name: str | None) -> Iterator[None]:
    """Break the rule of a fault during the block. None breaks nothing."""
    patches = FAULTS[name].patches() if name is not None else []
    kept = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in patches]
    try:
        for owner, attribute, value in patches:
            setattr(owner, attribute, value)
        yield
    finally:
        for owner, attribute, value in reversed(kept):
            setattr(owner, attribute, value)


# --- followers ---


def _truncates_to_high_watermark() -> list[Patch]:
    def truncate(self: Follower, _diverging: EpochEndOffset) -> Commands:
        offset = min(self.log.high_watermark, self.log.end_offset)
        return self._write(self._truncation(offset, TruncationCause.DIVERGING_EPOCH))

    return [(Follower, "_truncate_diverging", truncate)]


def _truncates_at_each_leader() -> list[Patch]:
    original = Follower._start

    def start(self: Follower) -> Commands:
        commands = original(self)
        if commands or self.leader is None or self.leader.leader_id == NO_LEADER:
            return commands
        return self._write(self._truncation(self.log.high_watermark, TruncationCause.NO_EPOCHS))

    return [(Follower, "_start", start)]


def _takes_stale_responses() -> list[Patch]:
    return [(FetchPosition, "is_at", lambda self, other: self.offset == other.offset)]


def _ignores_divergence() -> list[Patch]:
    return [(Follower, "_truncate_diverging", lambda _self, _diverging: ())]


def _takes_leaders_high_watermark() -> list[Patch]:
    def update(self: Replica, offset: int) -> None:
        self.log._state.offsets.resolved_high_watermark(LogOffsetMetadata(offset))

    original = Follower._take_offsets

    def take(self: Follower, response: FetchedPartition) -> Commands:
        commands = original(self, response)
        return tuple(
            replace(one, offset=response.high_watermark) if isinstance(one, SetHighWatermark) else one
            for one in commands
        )

    return [(Replica, "update_high_watermark", update), (Follower, "_take_offsets", take)]


# --- the log ---


def _keeps_truncated_epochs() -> list[Patch]:
    return [(LeaderEpochCache, "truncate_from_end", lambda _self, _offset: False)]


def _begins_no_epoch() -> list[Patch]:
    return [(Replica, "begin_epoch", lambda _self, _epoch: None)]


# --- leaders ---


def _can_join(*, above_watermark: bool, above_epoch_start: bool) -> list[Patch]:
    def can_join(self: InSyncReplicas, replica_id: int) -> bool:
        end = self.followers[replica_id].log_end.message_offset
        return (
            self.pending is None
            and replica_id not in self.isr
            and (end >= self.log.high_watermark or not above_watermark)
            and (end >= self.epoch_start_offset or not above_epoch_start)
            and self._is_eligible(replica_id)
        )

    return [(InSyncReplicas, "_can_join", can_join)]


def _expands_below_high_watermark() -> list[Patch]:
    return _can_join(above_watermark=False, above_epoch_start=True)


def _expands_below_epoch_start() -> list[Patch]:
    return _can_join(above_watermark=True, above_epoch_start=False)


def _uses_assigned_isr() -> list[Patch]:
    return [
        (InSyncReplicas, "maximal_isr", property(lambda self: self.isr)),
        (InSyncReplicas, "_is_about_to_join", lambda *_: False),
    ]


def _acknowledges_at_minimum() -> list[Patch]:
    def error(self: InSyncReplicas, end_offset: int) -> ErrorCode | None:
        ends = [self.log.log_end.message_offset, *(one.log_end.message_offset for one in self.followers.values())]
        return ErrorCode.NONE if sum(end >= end_offset for end in ends) >= self.min_isr else None

    return [(InSyncReplicas, "replication_error", error)]


def _shrinks_early() -> list[Patch]:
    def maximal(self: InSyncReplicas) -> frozenset[int]:
        return self.isr if self.pending is None else self.pending.broker_ids

    return [(InSyncReplicas, "maximal_isr", property(maximal))]


def _counts_sent_data() -> list[Patch]:
    original = LeadingDriver.fetch

    def fetch(self: LeadingDriver, request: Fetch, now_ms: int) -> Fetched:
        response = original(self, request, now_ms)
        for base_offset, prints in read_prints(response.data)[-1:]:
            state = self.core.followers[request.broker_id]
            end = LogOffsetMetadata(base_offset + len(prints))
            self.core.followers[request.broker_id] = replace(state, log_end=end)
            self._run(self.core.appended(now_ms))
        return response

    return [(LeadingDriver, "fetch", fetch)]


def _advances_below_minimum() -> list[Patch]:
    return [(InSyncReplicas, "is_under_min_isr", property(lambda _self: False))]


def _begins_at_log_end() -> list[Patch]:
    original = LeadingDriver.lead

    def lead(self: LeadingDriver, state: PartitionState, now_ms: int) -> None:
        is_new = not self.core.is_leader
        original(self, state, now_ms)
        if is_new:
            self.replica.update_high_watermark(self.replica.end)
            self._outside.advanced(self.replica.partition)

    return [(LeadingDriver, "lead", lead)]


# --- the controller ---


def _elects_outside_isr() -> list[Patch]:
    def may_lead(self: Any, broker: int) -> bool:
        return bool(self._rules.may_lead(broker))

    return [(partition_change._Change, "_may_lead_cleanly", may_lead)]


def _trusts_unclean_brokers() -> list[Patch]:
    return [(brokers, "remove_unclean_broker", lambda *_: [])]


def _ignores_broker_epochs() -> list[Patch]:
    return [(Controller, "is_current_member", lambda *_: True)]


def _accepts_fenced_replicas() -> list[Patch]:
    original = leaders._check_alteration

    def check(image: MetadataImage, broker_id: int, state: PartitionState, alteration: PartitionAlteration) -> None:
        try:
            original(image, broker_id, state, alteration)
        except ApiError as error:
            if error.code != ErrorCode.INELIGIBLE_REPLICA:
                raise

    return [(leaders, "_check_alteration", check)]


# --- sessions ---


def _ends_sessions_early() -> list[Patch]:
    def is_expired(self: BrokerSessions, contact_ms: int, now_ms: int) -> bool:
        return contact_ms + self._timeout_ms // 2 < now_ms

    return [(BrokerSessions, "_is_expired", is_expired)]


def _never_ends_sessions() -> list[Patch]:
    return [(BrokerSessions, "_is_expired", lambda *_: False)]


def _fences_by_old_sessions() -> list[Patch]:
    original = BrokerSessions.take_stale

    def take_stale(
        self: BrokerSessions, now_ms: int, registered_epoch: Callable[[int], int | None]
    ) -> StaleSession | None:
        stale = original(self, now_ms, registered_epoch)
        return None if stale is None else StaleSession(stale.key, True)

    return [(BrokerSessions, "take_stale", take_stale)]


def _activates_without_sessions() -> list[Patch]:
    def activate(brokers: Iterable[RegisteredBroker], *, session_timeout_ms: int, now_ms: int) -> BrokerSessions:
        sessions = BrokerSessions(session_timeout_ms=session_timeout_ms)
        for broker in brokers:
            sessions.register(broker.id, is_fenced=broker.is_fenced)
        return sessions

    return [(BrokerSessions, "activate", staticmethod(activate))]


def _unfences_early() -> list[Patch]:
    original = BrokerSessions._next_state

    def next_state(
        self: BrokerSessions, request: BrokerHeartbeatRequest, _registration_offset: int, leads_partitions: bool
    ) -> BrokerControlState:
        ready = replace(request, wants_fence=False) if not request.wants_shutdown else request
        return original(self, ready, -1, leads_partitions)

    return [(BrokerSessions, "_next_state", next_state)]


FAULTS: dict[str, Fault] = {
    "truncate-to-high-watermark": Fault(
        "A follower whose log diverges truncates to the end of the common epoch, not to its high watermark (KIP-101).",
        _truncates_to_high_watermark,
    ),
    "truncate-at-each-leader": Fault(
        "A follower of a new leader truncates nothing until the leader's epochs show a divergence (KIP-101).",
        _truncates_at_each_leader,
    ),
    "stale-fetch-response": Fault(
        "A follower ignores a fetch response that belongs to an older leader epoch.", _takes_stale_responses
    ),
    "divergence-ignored": Fault(
        "A follower whose log diverges truncates before it appends (KIP-595).", _ignores_divergence
    ),
    "high-watermark-above-end": Fault(
        "A follower's high watermark is at most its own log end.", _takes_leaders_high_watermark
    ),
    "epochs-not-truncated": Fault(
        "A truncation of the log also removes the epochs that begin above it.", _keeps_truncated_epochs
    ),
    "epoch-not-begun": Fault("A new leader begins its epoch at its log end, before any append.", _begins_no_epoch),
    "isr-before-high-watermark": Fault(
        "A follower joins the in-sync replicas only once it has every record below the high watermark.",
        _expands_below_high_watermark,
    ),
    "isr-before-epoch-start": Fault(
        "A follower joins the in-sync replicas only once it has every record below the leader epoch's start.",
        _expands_below_epoch_start,
    ),
    "assigned-isr": Fault(
        "The high watermark waits for the maximal ISR, which includes a pending expansion.", _uses_assigned_isr
    ),
    "acks-at-minimum": Fault(
        "acks=all waits for all in-sync replicas, not only for min.insync.replicas of them.", _acknowledges_at_minimum
    ),
    "shrink-before-response": Fault(
        "A replica counts as in sync until the controller has accepted its removal.", _shrinks_early
    ),
    "fetch-counted-early": Fault(
        "A follower has the records below its fetch offset, not those of the response.", _counts_sent_data
    ),
    "below-min-isr": Fault(
        "The high watermark does not advance while fewer than min.insync.replicas are in sync (KIP-966).",
        _advances_below_minimum,
    ),
    "election-outside-isr": Fault(
        "Without unclean elections only an in-sync or eligible replica becomes leader.", _elects_outside_isr
    ),
    "high-watermark-from-log-end": Fault(
        "A new leader begins with the high watermark that it had as a follower, not with its log end.",
        _begins_at_log_end,
    ),
    "unclean-shutdown-trusted": Fault(
        "A broker that restarts after an unclean shutdown leaves the in-sync and the eligible replicas (KIP-966).",
        _trusts_unclean_brokers,
    ),
    "stale-broker-epoch": Fault(
        "A replica joins the in-sync replicas only in the broker epoch of its fetch (KIP-903).", _ignores_broker_epochs
    ),
    "fenced-replica-joins": Fault(
        "A fenced replica does not join the in-sync replicas, even if its leader does not know (KIP-841).",
        _accepts_fenced_replicas,
    ),
    "session-ends-early": Fault(
        "A broker is fenced once its last heartbeat is older than broker.session.timeout.ms.", _ends_sessions_early
    ),
    "session-never-ends": Fault(
        "A broker that sends no heartbeats is fenced after broker.session.timeout.ms.", _never_ends_sessions
    ),
    "old-session-fences": Fault(
        "The expired session of an earlier broker epoch does not fence the broker.", _fences_by_old_sessions
    ),
    "no-session-at-activation": Fault(
        "A controller that becomes active gives every unfenced broker a full session.", _activates_without_sessions
    ),
    "unfenced-before-caught-up": Fault(
        "A broker is unfenced only if it asks for it and has read its own registration.", _unfences_early
    ),
}
