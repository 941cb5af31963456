"""A group in a list: a few numbers, without its members and offsets. Pure.

A survey may keep 100,000 of these. The page of one group reads the group's records again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.server.groups.reports import group_protocol_type, group_type
from tidelog.server.groups.state.classic_group import ClassicGroup
from tidelog.server.groups.state.group_map import Group
from tidelog.server.groups.state.unserved_group import UnservedGroup
from tidelog.web.reports.group_log import GroupPlace, LogCounts, times_of_expiry


@dataclass(slots=True, eq=False, kw_only=True)
class GroupSummary:
    """``lag`` counts offsets of the partitions whose log is here, None without any. It is the backlog of a share
    group. ``log`` is the partition of ``__consumer_offsets`` that has the group."""

    group_id: str
    log: LogCounts
    type: str
    protocol_type: str
    state: str | None
    members: int
    epoch: int | None
    """The generation of a classic group, and the group epoch of any other."""
    leader: str | None
    partitions: int
    """The partitions with a committed offset, or with share state."""
    lag: int | None = None
    without_log: int = 0
    newest_commit_ms: int | None
    newest_record: int | None
    """The offset of the newest record about the group, or about its offsets if it has no other."""
    retained_from: Sequence[int]
    """The times (ms) from which on the retention of offsets counts."""
    expiring: Sequence[int]
    """The expiry times (ms) that commits have set."""
    kept_offsets: int
    """The number of the other offsets, which never expire."""

    def expiry(self, retention_ms: int) -> list[int]:
        """Return the time at which each offset expires. Offsets that never expire are left out."""
        return [start + retention_ms for start in self.retained_from] + list(self.expiring)

    def set_lags(self, lags: Sequence[int | None]) -> None:
        """Take the lag of each partition, None for a partition whose log is not here."""
        known = [lag for lag in lags if lag is not None]
        self.partitions, self.without_log = len(lags), len(lags) - len(known)
        self.lag = sum(known) if known else None


def summary_of(place: GroupPlace, counts: LogCounts) -> GroupSummary:
    """Return the summary of a group without its lag."""
    group, offsets = place.group, place.offsets
    own: list[int] = []
    starts: list[int] = []
    for partition, time in times_of_expiry(place, 0).items():
        if time is not None:
            (starts if offsets[partition].expire_ms is None else own).append(time)
    newest = place.log.newest.get(place.group_id)
    if newest is None:
        newest = max((committed.record_offset for committed in offsets.values()), default=None)
    return GroupSummary(
        group_id=place.group_id,
        log=counts,
        type="offsets only" if group is None else sys.intern(str(group_type(group))),
        protocol_type="" if group is None else sys.intern(str(group_protocol_type(group))),
        state=None if group is None else sys.intern(str(group.state)),
        members=_member_count(group),
        epoch=_epoch_of(group),
        leader=group.leader_id if isinstance(group, ClassicGroup) else None,
        partitions=len(offsets),
        newest_commit_ms=max((one.commit_ms for one in offsets.values()), default=None),
        newest_record=newest,
        retained_from=tuple(starts),
        expiring=tuple(own),
        kept_offsets=len(offsets) - len(starts) - len(own),
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
