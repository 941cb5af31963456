"""The sections of the broker's page about its logs and its background work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidelog.web.page import Column, Kind, Section
from tidelog.web.pages.broker_section import LiveReports
from tidelog.web.pages.row_links import topic_column

_NUMBER = Kind.NUMBER


def log_sections(live: LiveReports) -> Iterator[Section]:
    report = live.report("log_dirs")
    yield _log_dirs(live, report)
    problems = report.get("problems", {"rows": []})
    if problems["rows"]:
        yield live.section(
            "problems",
            "Directories that are not served",
            problems,
            [Column(name="path", kind=Kind.CODE), Column(name="problem"), Column(name="reason")],
        )
    if report.get("moves"):
        yield _moves(live, report["moves"])
    cleaner = live.report("cleaner")
    if cleaner.get("is_on"):
        yield from _cleaner(live, cleaner)
    yield _tasks(live)
    yield _metrics(live)


def _log_dirs(live: LiveReports, report: Any) -> Section:
    return live.section(
        "log_dirs",
        "Log directories",
        report,
        [
            Column(name="path", kind=Kind.CODE, link=live.log_dir_link),
            Column(name="state"),
            Column(name="logs", kind=_NUMBER),
            Column(name="was_clean", title="clean before this start"),
            Column(name="remaining_logs", title="logs to load", kind=_NUMBER),
            Column(name="remaining_segments", title="segments to recover", kind=_NUMBER),
            Column(name="deleted_logs", kind=_NUMBER, help="Deleted logs whose files still exist"),
            Column(name="is_cordoned", title="cordoned"),
            Column(name="error"),
        ]
        if report["rows"] and "logs" in report["rows"][0]
        else [Column(name="path", kind=Kind.CODE, link=live.log_dir_link), Column(name="state")],
    )


def _moves(live: LiveReports, moves: list[dict[str, Any]]) -> Section:
    return live.section(
        "moves",
        "Moves between log directories",
        {"rows": moves},
        [
            topic_column(),
            Column(name="partition", kind=_NUMBER),
            Column(name="source", kind=Kind.CODE),
            Column(name="target", kind=Kind.CODE),
            Column(name="lag", kind=_NUMBER),
            Column(name="copied_bytes", title="copied", kind=Kind.BYTES),
        ],
    )


def _cleaner(live: LiveReports, report: Any) -> Iterator[Section]:
    yield live.section(
        "cleaner",
        "Cleaner",
        report,
        [
            Column(name="thread", kind=Kind.CODE),
            Column(name="state"),
            Column(name="last_bytes_read", title="read", kind=Kind.BYTES, help="By its last compaction"),
            Column(name="last_bytes_written", title="written", kind=Kind.BYTES),
            Column(name="last_messages_read", title="records", kind=_NUMBER),
            Column(name="last_took_ms", title="duration", kind=Kind.DURATION),
            Column(name="last_map_use", title="use of the offset map", kind=Kind.PERCENT),
            Column(name="longest_delay_ms", title="longest delay", kind=Kind.DURATION),
        ],
        text=f"The threads, with the last compaction of each. The largest dirty ratio was"
        f" {report['max_dirty_ratio']:.1%} at the last search for a log to compact, {report['since_last_run_ms']:,} ms"
        " ago.",
    )
    if report["logs"]["rows"]:
        yield live.section(
            "cleaner_logs",
            "Logs that are compacted, paused or set aside",
            report["logs"],
            [
                topic_column(),
                Column(name="partition", kind=_NUMBER, link=live.log_link),
                Column(name="state"),
                Column(name="reason"),
            ],
        )


def _tasks(live: LiveReports) -> Section:
    return live.section(
        "tasks",
        "Background tasks",
        live.report("tasks"),
        [
            Column(name="name", kind=Kind.CODE),
            Column(name="period_ms", title="period", kind=Kind.DURATION),
            Column(
                name="last_run_ago_ms", title="since the last run", kind=Kind.DURATION, help="The time since it began"
            ),
            Column(name="last_took_ms", title="duration", kind=Kind.DURATION),
            Column(name="next_in_ms", title="next run in", kind=Kind.DURATION),
            Column(name="is_running", title="running"),
            Column(name="runs", kind=_NUMBER),
            Column(name="errors", kind=_NUMBER),
        ],
        text="The tasks of the scheduler. A task without a period does not repeat, or plans its next run itself.",
    )


def _metrics(live: LiveReports) -> Section:
    return live.section(
        "metrics",
        "Meters",
        live.report("metrics"),
        [
            Column(name="metric", kind=Kind.CODE),
            Column(name="count", kind=_NUMBER),
            Column(name="one_minute_rate", title="a second, 1 min", kind=_NUMBER),
            Column(name="fifteen_minute_rate", title="a second, 15 min", kind=_NUMBER),
            Column(name="mean", kind=_NUMBER),
            Column(name="p99", kind=_NUMBER),
            Column(name="max", kind=_NUMBER),
        ],
        text="The meters and timers of the metrics. Gauges are in the reports of the metrics' reporters.",
        is_folded=True,
    )
