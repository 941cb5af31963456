"""The reports by name. Thread rule: the event loop only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tidelog.model import ConfigError
from tidelog.server.live_reports import client_reports, group_reports, log_reports, node_report, replica_reports
from tidelog.server.live_reports.reported_node import Report, ReportedNode, Wanted
from tidelog.server.live_reports.turns import Turns

REPORTS: Final[Mapping[str, Callable[[ReportedNode, Wanted, Turns], Awaitable[Report]]]] = {
    "node": node_report.report_node,
    "listeners": node_report.report_listeners,
    "requests": client_reports.report_requests,
    "connections": client_reports.report_connections,
    "throttled": client_reports.report_throttled,
    "quotas": client_reports.report_quotas,
    "groups": group_reports.report_groups,
    "partitions": replica_reports.report_partitions,
    "fetchers": replica_reports.report_fetchers,
    "purgatories": replica_reports.report_purgatories,
    "tasks": log_reports.report_tasks,
    "cleaner": log_reports.report_cleaner,
    "log_dirs": log_reports.report_log_dirs,
    "metrics": node_report.report_metrics,
}


async def make_report(reported: ReportedNode, name: str, wanted: Wanted) -> Report:
    """Return a report, which says if it is complete. Raise ConfigError if there is none of that name."""
    report = REPORTS.get(name)
    if report is None:
        raise ConfigError(f"there is no report {name}; there are: {', '.join(REPORTS)}")
    turns = Turns()
    return {**await report(reported, wanted, turns), "is_complete": turns.is_complete}
