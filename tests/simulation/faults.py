"""Deliberate faults: each breaks one rule of replication in this process, and the simulation has to find it.

A fault replaces attributes of the cores, of the log or of the drivers. ``applied`` restores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from simulation.leading import LeadingDriver
from simulation.replica import Replica
from simulation.requests import Fetch, Fetched
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import Commands, FetchPosition, Follower, TruncationCause
from tidelog.server.metadata.controller import brokers, partition_change
from tidelog.server.metadata.controller import leaders as controller_leaders
from tidelog.server.metadata.partition_state import NO_LEADER
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
        from tidelog.model import LogOffsetMetadata

        self.log._state.offsets._move_high_watermark(LogOffsetMetadata(offset))

    original = Follower._take_offsets

    def take(self: Follower, response: Any) -> Commands:
        from dataclasses import replace

        from tidelog.replication import SetHighWatermark

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


def _expands_early() -> list[Patch]:
    def is_caught_up(_self: LeadingDriver, _remote: object) -> bool:
        return True

    return [(LeadingDriver, "is_caught_up", is_caught_up)]


def _ignores_epoch_start() -> list[Patch]:
    return [(LeadingDriver, "is_caught_up", lambda self, remote: remote.end >= self.replica.high_watermark)]


def _uses_assigned_isr() -> list[Patch]:
    return [(LeadingDriver, "maximal_isr", property(lambda self: set(self.state.isr)))]


def _acknowledges_at_minimum() -> list[Patch]:
    def replicated_end(self: LeadingDriver, _now_ms: int) -> int:
        ends = [self.replica.end, *(one.end for one in self.remotes.values() if one.end >= 0)]
        return sorted(ends, reverse=True)[min(self.min_isr, len(ends)) - 1]

    return [(LeadingDriver, "replicated_end", replicated_end)]


def _shrinks_early() -> list[Patch]:
    def maximal(self: LeadingDriver) -> set[int]:
        return set(self.state.isr if self.pending_isr is None else self.pending_isr)

    return [(LeadingDriver, "maximal_isr", property(maximal))]


def _counts_sent_data() -> list[Patch]:
    original = LeadingDriver.fetch

    def fetch(self: LeadingDriver, request: Fetch, now_ms: int) -> Fetched:
        response = original(self, request, now_ms)
        if response.error is ErrorCode.NONE and response.data:
            from simulation.batches import read_prints

            sent = read_prints(response.data)
            if sent:
                self.remotes[request.broker_id].end = sent[-1][0] + len(sent[-1][1])
                self.advance(now_ms)
        return response

    return [(LeadingDriver, "fetch", fetch)]


def _ignores_broker_epochs() -> list[Patch]:
    return [(LeadingDriver, "has_current_epoch", lambda _self, _remote, _registration: True)]


def _forgets_pending_isr() -> list[Patch]:
    return [(LeadingDriver, "REVERTS", LeadingDriver.REVERTS | {ErrorCode.NEW_LEADER_ELECTED})]


def _advances_below_minimum() -> list[Patch]:
    return [(LeadingDriver, "is_under_min_isr", property(lambda _self: False))]


def _accepts_other_epochs() -> list[Patch]:
    return [(LeadingDriver, "epoch_error", lambda _self, _epoch: None)]


# --- the controller ---


def _elects_outside_isr() -> list[Patch]:
    def may_lead(self: Any, broker: int) -> bool:
        return bool(self._rules.may_lead(broker))

    return [(partition_change._Change, "_may_lead_cleanly", may_lead)]


def _trusts_unclean_brokers() -> list[Patch]:
    return [(brokers, "remove_unclean_broker", controller_leaders.remove_broker)]


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
        "A follower joins the in-sync replicas only once it has every record below the high watermark.", _expands_early
    ),
    "isr-before-epoch-start": Fault(
        "A follower joins the in-sync replicas only once it has every record below the leader epoch's start.",
        _ignores_epoch_start,
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
    "stale-broker-epoch": Fault(
        "A follower joins the in-sync replicas only with the broker epoch of its last fetch (KIP-903).",
        _ignores_broker_epochs,
    ),
    "pending-isr-forgotten": Fault(
        "After NEW_LEADER_ELECTED the pending in-sync replicas still count, until new metadata arrives.",
        _forgets_pending_isr,
    ),
    "below-min-isr": Fault(
        "The high watermark does not advance while fewer than min.insync.replicas are in sync (KIP-966).",
        _advances_below_minimum,
    ),
    "other-leader-epochs": Fault(
        "A leader refuses a fetch with another leader epoch than its own (KIP-320).", _accepts_other_epochs
    ),
    "election-outside-isr": Fault(
        "Without unclean elections only an in-sync or eligible replica becomes leader.", _elects_outside_isr
    ),
    "unclean-shutdown-trusted": Fault(
        "A broker that restarts after an unclean shutdown leaves the in-sync and the eligible replicas (KIP-966).",
        _trusts_unclean_brokers,
    ),
}
