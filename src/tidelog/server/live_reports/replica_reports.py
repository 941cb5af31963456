"""The replicas of this broker: in-sync replicas of led partitions, fetchers of followed ones, and purgatories.

Thread rule: the event loop only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tidelog.following.fetcher import Fetcher
from tidelog.model import TidelogError
from tidelog.replication.replica_state import NEVER_MS, ReplicaState
from tidelog.server.live_reports.group_reports import log_dir_of
from tidelog.server.live_reports.reported_node import Report, ReportedNode, Wanted
from tidelog.server.live_reports.turns import Top, Turns
from tidelog.server.replicas.fetcher_manager import FetcherManager
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.partition_follower import PartitionFollower


async def report_partitions(reported: ReportedNode, wanted: Wanted, turns: Turns) -> Report:
    """Return counts of all partitions here, and a row for each led partition with followers: under-replicated ones
    first, then by lag."""
    replicas, now_ms = reported.replicas, reported.monotonic_ms
    top, counts = Top[Partition](wanted.most), Counter[str]()
    async for one in turns.each([] if replicas is None else list(replicas.partitions())):
        counts["partitions"] += 1
        is_online, is_leading = one.is_online, one.is_leading
        counts["offline"] += not is_online
        counts["led"] += is_leading
        if not is_leading or not is_online or not one.in_sync.followers:
            continue
        counts["under_replicated"] += one.is_under_replicated
        counts["under_min_isr"] += one.in_sync_surplus < 0
        counts["reassigning"] += one.is_reassigning
        if wanted.fits(one.topic_partition.topic):
            lags = [_lag(one, state) or 0 for state in one.in_sync.followers.values()]
            top.add((one.is_under_replicated, max(lags, default=0)), one)
    names = ("partitions", "led", "offline", "under_replicated", "under_min_isr", "reassigning")
    return {**top.rows(lambda one: _led_row(one, now_ms)), "counts": {name: counts[name] for name in names}}


async def report_fetchers(reported: ReportedNode, wanted: Wanted, turns: Turns) -> Report:
    """Return the fetchers, and the partitions that they fetch, those with the largest lag first."""
    manager = None if reported.replicas is None else reported.replicas.fetchers
    if manager is None:
        return {"rows": [], "total": 0, "partitions": {"rows": [], "total": 0}, "failed": [], "dead": 0}
    sums: dict[tuple[int, int], _FetcherSum] = {key: _FetcherSum() for key in manager.fetchers}
    top = Top[tuple[tuple[int, int], PartitionFollower]](wanted.most)
    async for key, replica in turns.each(list(manager.lags)):
        sums.setdefault(key, _FetcherSum()).add(replica)
        if wanted.fits(replica.partition.topic):
            top.add(replica.lag, (key, replica))
    rows = [_fetcher_row(manager, key, manager.fetchers.get(key), found) for key, found in sorted(sums.items())]
    return {
        "rows": rows,
        "total": len(rows),
        "partitions": top.rows(lambda one: _followed_row(*one, reported.monotonic_ms)),
        "failed": sorted(str(one) for one in manager.failed_partitions)[: wanted.most],
        "dead": manager.dead_fetchers,
    }


async def report_purgatories(reported: ReportedNode, wanted: Wanted, turns: Turns) -> Report:
    """Return the partitions with delayed operations. An operation that watches several partitions counts in each."""
    replicas, top, counts = reported.replicas, Top[Partition](wanted.most), Counter[str]()
    async for one in turns.each([] if replicas is None else list(replicas.partitions())):
        waiting = len(one.purgatory)
        if waiting and wanted.fits(one.topic_partition.topic):
            counts["replications"] += one.purgatory.replications
            counts["others"] += waiting - one.purgatory.replications
            top.add(waiting, one)
    return {
        **top.rows(_purgatory_row),
        "replications": counts["replications"],
        "others": counts["others"],
    }


@dataclass(slots=True)
class _FetcherSum:
    partitions: int = 0
    lag: int = 0
    largest: int = 0
    throttled: int = 0
    phases: Counter[str] | None = None

    def add(self, replica: PartitionFollower) -> None:
        self.phases = self.phases or Counter()
        self.phases[replica.follower.phase.value] += 1
        self.partitions += 1
        self.lag += replica.lag
        self.largest = max(self.largest, replica.lag)
        self.throttled += replica.is_throttled


def _lag(partition: Partition, state: ReplicaState) -> int | None:
    """Return the offsets that a follower lacks, or None before its first fetch, or if the log is gone."""
    if state.log_end.message_offset < 0:
        return None
    try:
        return max(0, partition.log.end_offset - state.log_end.message_offset)
    except TidelogError:
        return None


def _led_row(one: Partition, now_ms: int) -> Report:
    in_sync = one.in_sync
    followers = [_follower_row(one, replica_id, state, now_ms) for replica_id, state in in_sync.followers.items()]
    end: int | None = None
    high_watermark: int | None = None
    try:
        end, high_watermark = one.log.end_offset, one.log.high_watermark
    except TidelogError:
        pass  # the log is offline or deleted
    return {
        "topic": one.topic_partition.topic,
        "partition": one.topic_partition.partition,
        "leader_epoch": one.leader_epoch,
        "partition_epoch": in_sync.partition_epoch,
        "replicas": list(one.replicas),
        "isr": sorted(in_sync.isr),
        "min_isr": in_sync.min_isr,
        "proposed_isr": None if in_sync.pending is None else sorted(in_sync.pending.broker_ids),
        "high_watermark": high_watermark,
        "log_end": end,
        "followers": followers,
        "largest_lag": max((row["lag"] or 0 for row in followers), default=0),
        "longest_behind_ms": max((row["behind_ms"] or 0 for row in followers), default=0),
        "is_under_replicated": one.is_under_replicated,
        "delayed": len(one.purgatory),
        "log_dir": log_dir_of(one),
    }


def _follower_row(partition: Partition, replica_id: int, state: ReplicaState, now_ms: int) -> Report:
    lag = _lag(partition, state)
    return {
        "broker": replica_id,
        "in_sync": replica_id in partition.in_sync.isr,
        "log_end": None if state.log_end.message_offset < 0 else state.log_end.message_offset,
        "lag": lag,
        "behind_ms": 0 if lag == 0 else _since(state.last_caught_up_ms, now_ms),
        "last_fetch_ago_ms": _since(state.last_fetch_ms, now_ms),
    }


def _since(then_ms: int, now_ms: int) -> int | None:
    return None if then_ms == NEVER_MS else max(0, now_ms - then_ms)


def _fetcher_row(
    manager: FetcherManager, key: tuple[int, int], fetcher: Fetcher[PartitionFollower] | None, found: _FetcherSum
) -> Report:
    requests, size = manager.rates(key)
    return {
        "leader": key[0],
        "fetcher": key[1],
        "state": _fetcher_state(fetcher),
        "partitions": found.partitions,
        "phases": dict(found.phases or {}),
        "lag": found.lag,
        "largest_lag": found.largest,
        "throttled": found.throttled,
        "failures": 0 if fetcher is None else fetcher.failures,
        "requests_rate": round(requests, 2),
        "bytes_rate": round(size, 2),
    }


def _fetcher_state(fetcher: Fetcher[PartitionFollower] | None) -> str:
    if fetcher is None or fetcher.task.done():
        return "dead"
    if fetcher.failures:
        return "failing"
    return "fetching" if fetcher.is_fetching else "idle"


def _followed_row(key: tuple[int, int], replica: PartitionFollower, now_ms: int) -> Report:
    ready_ms = replica.ready_at_ms
    try:
        end: int | None = replica.log.end_offset
    except TidelogError:
        end = None
    return {
        "topic": replica.partition.topic,
        "partition": replica.partition.partition,
        "leader": key[0],
        "fetcher": key[1],
        "phase": replica.follower.phase.value,
        "lag": replica.follower.lag,
        "log_end": end,
        "is_throttled": replica.is_throttled,
        "ready_in_ms": None if ready_ms is None else max(0, ready_ms - now_ms),
        "log_dir": log_dir_of(replica.served),
    }


def _purgatory_row(one: Partition) -> Report:
    return {
        "topic": one.topic_partition.topic,
        "partition": one.topic_partition.partition,
        "replications": one.purgatory.replications,
        "others": len(one.purgatory) - one.purgatory.replications,
        "log_dir": log_dir_of(one),
    }
