"""The reports of ``tidelog compact``: a row for each log, tables of the rows, and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tidelog.cli.applying import applied_report
from tidelog.cli.report import FINDINGS, UNREADABLE, ExitCode, Report, Row, Table
from tidelog.storage.manager.compact.compact import CompactResult
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook, CompactPlan
from tidelog.storage.manager.compact.obstacles import Obstacle, ObstacleKind
from tidelog.storage.manager.survey.setting_sources import SettingSources

PLAN_COLUMNS = (
    "name",
    "first_dirty",
    "first_uncleanable",
    "clean_bytes",
    "dirty_bytes",
    "uncleanable_bytes",
    "dirty_ratio",
    "due",
    "why",
)
DONE_COLUMNS = ("name", "first_dirty", "rounds", "segments_before", "segments", "bytes_before", "bytes")
_KEYS = ("cleanup.policy", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "max.compaction.lag.ms")


def plan_report(plans: Sequence[CompactPlan], sources: Mapping[Path, SettingSources], exit_code: ExitCode) -> Report:
    """Return the plan's report, whose rows have all logs and whose tables have only compacted logs."""
    logs = [(plan, log) for plan in plans for log in plan.logs]
    if any(log.stopped_by is not None for _, log in logs):
        exit_code.at_least(FINDINGS)
    if any(log.error is not None for _, log in logs):
        exit_code.at_least(UNREADABLE)
    where = ["directory"] * (len(plans) > 1)
    compacted = [_plan_row(plan, log) for plan, log in logs if log.settings.config.is_compacted]
    return Report(
        rows=[_plan_row(plan, log) for plan, log in logs],
        tables=[Table(rows=compacted, columns=[*where, *PLAN_COLUMNS], show={"dirty_ratio": "{:.1%}".format})],
        notes=[note for plan in plans for note in _plan_notes(plan, sources[plan.path])],
        exit_code=exit_code,
    )


def _plan_row(plan: CompactPlan, log: CompactionOutlook) -> Row:
    found, stop = log.plan, log.stopped_by
    config = log.settings.config
    return {
        "directory": str(plan.path),
        "name": log.name,
        "topic": log.partition.topic,
        "partition": log.partition.partition,
        "first_dirty": None if found is None else found.first_dirty_offset,
        "first_uncleanable": None if found is None else found.first_uncleanable_offset,
        "clean_end": None if found is None else found.end_offset,
        "held_by": None if found is None else found.uncleanable_limit.value,
        "clean_bytes": None if found is None else found.clean_bytes,
        "dirty_bytes": None if found is None else found.dirty_bytes,
        "uncleanable_bytes": None if found is None else found.uncleanable_bytes,
        "reclaimable_bytes": None if found is None else found.reclaimable_bytes,
        "dirty_ratio": None if found is None else found.dirty_ratio,
        "due": log.is_due,
        "why": _why(log),
        "stopped_by": None if stop is None else stop.what,
        "stop_file": None if stop is None else str(stop.path),
        "stop_position": None if stop is None else stop.position,
        "stop_offset": None if stop is None else stop.offset,
        "warnings": list(_warnings(log)),
        "cleanup_policy": sorted(config.cleanup_policy),
        "min_cleanable_dirty_ratio": config.min_cleanable_dirty_ratio,
        "settings_from": {key: log.settings.origins[key] for key in _KEYS},
        "error": None if log.error is None else str(log.error),
    }


def _why(log: CompactionOutlook) -> str:
    """Return the table's last column: why the log is due, is not due, or will fail."""
    if log.error is not None:
        return str(log.error)
    if log.plan is None:
        return f"cleanup.policy is {','.join(sorted(log.settings.config.cleanup_policy)) or 'empty'}"
    if log.stopped_by is not None:
        return f"it will fail: {obstacle_text(log.stopped_by)}"
    return log.plan.reason


def obstacle_text(obstacle: Obstacle) -> str:
    """Return the obstacle and its place: file, position and offset."""
    places = [str(obstacle.path)]
    places += [] if obstacle.position is None else [f"position {obstacle.position:,}"]
    places += [] if obstacle.offset is None else [f"offset {obstacle.offset:,}"]
    return f"{obstacle.what} ({', '.join(places)})"


def _warnings(log: CompactionOutlook) -> Iterator[str]:
    """Yield sentences without their full stop."""
    if log.plan is not None:
        yield from (warning.removesuffix(".") for warning in log.plan.warnings)
    for obstacle in log.obstacles:
        match obstacle.kind:
            case ObstacleKind.NO_KEY:
                yield f"{log.name}: {obstacle.count:,} records without a key are dropped: {obstacle_text(obstacle)}"
            case ObstacleKind.OVERFLOWED:
                yield f"{log.name}: a segment is split before it is cleaned: {obstacle_text(obstacle)}"


def _plan_notes(plan: CompactPlan, sources: SettingSources) -> Iterator[str]:
    compacted = [log for log in plan.logs if log.settings.config.is_compacted]
    yield (
        f"{plan.path} ({plan.state.condition}): {len(plan.due):,} of {len(compacted):,} compacted logs are due,"
        f" {plan.bytes_to_clean:,} bytes to rewrite; {len(plan.logs) - len(compacted):,} logs are not compacted."
    )
    for log in compacted:
        if log.stopped_by is not None:
            yield f"{log.name} will fail: {obstacle_text(log.stopped_by)}."
        for warning in _warnings(log):
            yield f"Warning: {warning}."
    for warning in plan.warnings:
        yield f"Warning: {warning}."
    yield sources_note(sources)
    if plan.state.holder is not None:
        yield f"Process {plan.state.holder} holds the directory. Its cleaner compacts these logs by the same rules."


def sources_note(sources: SettingSources) -> str:
    if sources.metadata_from is None:
        return "There is no cluster metadata here: set the topics' settings with --topic-config or --config-file."
    return f"Topic settings are those of the cluster metadata in {sources.metadata_from}."


def done_report(results: Sequence[CompactResult], exit_code: ExitCode) -> Report:
    if any(result.failures for result in results):
        exit_code.at_least(FINDINGS)
    return applied_report(
        [row for result in results for row in _done_rows(result)],
        DONE_COLUMNS,
        several=len(results) > 1,
        notes=[_done_note(result) for result in results],
        exit_code=exit_code,
    )


def _done_rows(result: CompactResult) -> Iterator[Row]:
    for log in result.logs:
        yield {
            "directory": str(result.path),
            "name": log.name,
            "topic": log.partition.topic,
            "partition": log.partition.partition,
            "first_dirty": log.first_dirty_offset,
            "rounds": log.rounds,
            "segments_before": log.segments_before,
            "segments": log.segments,
            "bytes_before": log.bytes_before,
            "bytes": log.bytes,
            "error": None,
        }
    for name, error in result.failures:
        unknown = dict.fromkeys(("topic", "partition", *DONE_COLUMNS[1:]))
        yield {"directory": str(result.path), "name": name, **unknown, "error": str(error)}


def _done_note(result: CompactResult) -> str:
    before = sum(log.bytes_before for log in result.logs)
    done = f"{len(result.logs):,} logs compacted, {result.bytes_freed:,} of {before:,} bytes freed"
    failed = f"; {len(result.failures):,} logs failed and are unchanged" if result.failures else ""
    return f"{result.path}: {done}{failed}."
