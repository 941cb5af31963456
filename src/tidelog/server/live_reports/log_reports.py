"""The background work on logs: the scheduler's tasks, the cleaner, and the log directories with their loading.

No lock of the log manager or of the cleaner is taken: their holders may work on all logs. Thread rule: the event loop
only.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from tidelog.model import StorageError
from tidelog.runtime import ThreadScheduler
from tidelog.server.live_reports.node_report import directory_id_text
from tidelog.server.live_reports.reported_node import Report, ReportedNode, Wanted
from tidelog.server.live_reports.turns import Top, Turns
from tidelog.storage.cleaner.pool.cleaner_thread import CleanerThread
from tidelog.storage.manager.directory.log_directory import LogDirectory
from tidelog.storage.manager.log_manager import LogManager

_NEVER_MS = 2**53
"""Kafka means "never" with a period of 292 million years."""


async def report_tasks(reported: ReportedNode, _wanted: Wanted, _turns: Turns) -> Report:
    """Return the tasks of the scheduler, with their last and next runs."""
    scheduler = reported.node.scheduler
    tasks = scheduler.tasks() if isinstance(scheduler, ThreadScheduler) else []
    rows = [asdict(task) for task in tasks]
    for row in rows:
        row |= {name: None for name in ("period_ms", "next_in_ms") if (row[name] or 0) >= _NEVER_MS}
    return {"rows": rows, "total": len(rows)}


async def report_cleaner(reported: ReportedNode, wanted: Wanted, _turns: Turns) -> Report:
    """Return the cleaner's threads, and the partitions that are being cleaned, paused or set aside."""
    cleaner = None if reported.logs is None else reported.logs.cleaner
    if cleaner is None:
        return {"is_on": False, "rows": [], "total": 0, "logs": {"rows": [], "total": 0}}
    state = cleaner.state
    logs = [
        {"topic": name.topic, "partition": name.partition, "state": str(found), "reason": None, "log_dir": None}
        for name, found in sorted(state.states().items())
    ]
    logs += [
        {
            "topic": name.topic,
            "partition": name.partition,
            "state": "set aside",
            "reason": found.reason,
            "log_dir": str(found.log.directory.parent),
        }
        for name, found in sorted(state.set_aside().items())
    ]
    rows = [_thread_row(thread) for thread in cleaner.threads]
    return {
        "is_on": True,
        "rows": rows,
        "total": len(rows),
        "max_dirty_ratio": round(state.max_dirty_ratio, 4),
        "since_last_run_ms": state.since_last_run_ms,
        "bytes": cleaner.throttle.total,
        "logs": {"rows": logs[: wanted.most], "total": len(logs)},
    }


async def report_log_dirs(reported: ReportedNode, wanted: Wanted, turns: Turns) -> Report:
    """Return the log directories, and the logs that are damaged, set aside or moving."""
    logs = reported.logs
    if logs is None:
        rows = [{"path": str(path), "state": "in use"} for path in _directories(reported)]
        return {"rows": rows, "total": len(rows), "problems": {"rows": [], "total": 0}, "moves": []}
    online = {directory.path: directory for directory in logs.online}
    offline = logs.offline
    paths = [*online, *(path for path in offline if path not in online)]
    rows = [_directory_row(logs, path, online.get(path), offline.get(path)) for path in paths]
    problems = Top[Report](wanted.most)
    for kind, found in (
        ("damaged", {path: error.message for path, error in logs.damaged.items()}),
        ("stray", dict.fromkeys(logs.strays)),
        ("unknown name", dict.fromkeys(logs.unknown)),
    ):
        async for path, reason in turns.each(list(found.items())):
            problems.add(0, {"path": str(path), "problem": kind, "reason": reason})
    moves = [
        {
            "topic": name.topic,
            "partition": name.partition,
            "source": str(move.current.directory.parent),
            "target": str(move.future.directory.parent),
            "lag": move.lag,
            "copied_bytes": move.copied_bytes,
        }
        for name, move in list(logs.moves.items())[: wanted.most]
    ]
    return {"rows": rows, "total": len(rows), "problems": problems.rows(dict), "moves": moves}


def _directories(reported: ReportedNode) -> list[Path]:
    try:
        return list(reported.node.data_directories)
    except AttributeError:
        return []  # a broker whose start has not reached its logs


def _directory_row(logs: LogManager, path: Path, directory: LogDirectory | None, error: StorageError | None) -> Report:
    loading = logs.loading
    remaining = None if loading is None else loading.remaining_logs.get(path)
    segments = (
        None
        if loading is None
        else sum(count for (one, _), count in list(loading.remaining_segments.items()) if one == path)
    )
    state = "offline" if error is not None else "loading" if remaining else "online"
    return {
        "path": str(path),
        "directory_id": None if directory is None else directory_id_text(directory.id),
        "state": state,
        "error": None if error is None else error.message,
        "is_cordoned": path in logs.cordoned,
        "was_clean": None if directory is None else directory.was_clean,
        "logs": None if directory is None else len(directory.logs),
        "remaining_logs": remaining,
        "remaining_segments": segments,
        "deleted_logs": sum(one.directory.parent == path for one in logs.deleted_logs),
    }


def _thread_row(thread: CleanerThread) -> Report:
    stats = thread.last_stats
    return {
        "thread": thread.name,
        "state": "dead" if thread.is_dead else "alive" if thread.is_alive() else "ended",
        "last_bytes_read": None if stats is None else stats.bytes_read,
        "last_bytes_written": None if stats is None else stats.bytes_written,
        "last_messages_read": None if stats is None else stats.messages_read,
        "last_took_ms": None if stats is None else stats.end_ms - stats.start_ms,
        "last_map_use": None if stats is None else round(stats.buffer_utilization, 4),
        "longest_delay_ms": thread.last_max_delay_ms,
    }
