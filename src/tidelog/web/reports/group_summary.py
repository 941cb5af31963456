"""A group in a list: a few numbers, without its members and offsets. Pure.

A survey keeps 100,000 of these. The page of one group reads the group's partition of ``__consumer_offsets`` again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidelog.model import TopicPartition
from tidelog.server.groups.reports import group_protocol_type, group_type
from tidelog.server.groups.state.classic_group import ClassicGroup
from tidelog.server.groups.state.group_map import Group
from tidelog.server.groups.state.unserved_group import UnservedGroup
from tidelog.web.reports.group_log import GroupLog, GroupPlace, times_of_expiry


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """``lag`` counts offsets of the partitions whose log is here, None without any. It is the backlog of a share
    group. ``log_dir_key`` and ``source`` are the partition of ``__consumer_offsets`` that has the group."""

    group_id: str
    log_dir_key: str
    source: TopicPartition
    type: str
    protocol_type: str
    state: str | None
    members: int
    epoch: int | None
    """The generation of a classic group, and the group epoch of any other."""
    leader: str | None
    partitions: int = 0
    lag: int | None = None
    without_log: int = 0
    newest_commit_ms: int | None
    newest_record: int | None
    """The offset of the newest record about the group, or about its offsets if it has no other."""
    retained_from: Sequence[int]
    """The times (ms) from which on the retention of offsets counts."""
    expiring: Sequence[int]
    """The expiry times (ms) that commits have set."""
    offsets: int
    """The number of committed offsets. Those without a time in either list never expire."""

    def expiry(self, retention_ms: int) -> list[int]:
        """Return the time at which each offset expires, without those that never do."""
        return [start + retention_ms for start in self.retained_from] + list(self.expiring)

    def with_lags(self, lags: Sequence[int | None]) -> GroupSummary:
        """Return the summary with the lag of each partition, None for a partition whose log is not here."""
        known = [lag for lag in lags if lag is not None]
        total = sum(known) if known else None
        return replace(self, partitions=len(lags), lag=total, without_log=len(lags) - len(known))


@dataclass(frozen=True, slots=True)
class SurveyedGroup:
    """A group whose lag is not known yet. ``shares`` is True for a group with members that a broker of ours does not
    serve."""

    summary: GroupSummary
    committed: Sequence[tuple[TopicPartition, int]]
    is_unserved: bool


def summarize(log: GroupLog, known: dict[TopicPartition, TopicPartition]) -> Iterator[SurveyedGroup]:
    """Yield the groups of a partition. Equal partitions become one object of ``known``."""
    for group_id in log.group_ids():
        place = log.place(group_id)
        committed = [(known.setdefault(part, part), one.offset) for part, one in place.offsets.items()]
        yield SurveyedGroup(_summary(place), committed, isinstance(place.group, UnservedGroup))


def _summary(place: GroupPlace) -> GroupSummary:
    group, offsets = place.group, place.offsets
    times = times_of_expiry(place, 0)
    own = {part: committed.expire_ms for part, committed in offsets.items() if committed.expire_ms is not None}
    newest = place.log.newest.get(place.group_id)
    if newest is None:
        newest = max((committed.record_offset for committed in offsets.values()), default=None)
    return GroupSummary(
        group_id=place.group_id,
        log_dir_key=place.log.log_dir_key,
        source=place.log.source,
        type="offsets only" if group is None else sys.intern(str(group_type(group))),
        protocol_type="" if group is None else sys.intern(str(group_protocol_type(group))),
        state=None if group is None else sys.intern(str(group.state)),
        members=_member_count(group),
        epoch=_epoch_of(group),
        leader=group.leader_id if isinstance(group, ClassicGroup) else None,
        newest_commit_ms=max((one.commit_ms for one in offsets.values()), default=None),
        newest_record=newest,
        retained_from=tuple(time for part, time in times.items() if time is not None and part not in own),
        expiring=tuple(time for part, time in times.items() if time is not None and part in own),
        offsets=len(times),
    )


def _member_count(group: Group | None) -> int:
    if group is None:
        return 0
    return len(group.member_ids if isinstance(group, UnservedGroup) else group.members)


def _epoch_of(group: Group | None) -> int | None:
    """Return the generation of a classic group, or the group epoch."""
    if group is None:
        return None
    return group.generation_id if isinstance(group, ClassicGroup) else group.group_epoch
