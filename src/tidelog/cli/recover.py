"""``tidelog recover``: prints a plan, and with ``--apply`` carries it out."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from tidelog.cli.applying import applied_report, apply_to_each, warn_of_space, with_progress
from tidelog.cli.options import output_options, selection, threads_option
from tidelog.cli.report import UNREADABLE, ExitCode, Report, Row, Table, count_of_files
from tidelog.cli.setting_options import topic_config_option, topic_settings
from tidelog.cli.targets import Target, select_on_disk
from tidelog.cli.zookeeper_options import read_topic_settings, settings_from_zookeeper
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.progress import ProgressListener
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.recovery.directory_recovery import RecoverResult, recover_directory
from tidelog.storage.manager.recovery.recover_plan import PartitionPlan, RecoverOptions, RecoverPlan, plan_directory

PLAN_COLUMNS = ("name", "segments", "from_offset", "reasons", "read_bytes", "write_bytes", "leftovers", "trims")
DONE_COLUMNS = (
    "name",
    "log_start",
    "log_end",
    "segments",
    "recovered_segments",
    "batches",
    "cut_bytes",
    "deleted_segments",
    "removed_files",
)


@click.command()
@selection
@click.option("--apply", "is_applied", is_flag=True, help="Apply the plan. Without this option, nothing is changed.")
@settings_from_zookeeper
@topic_config_option
@threads_option
@output_options
def recover(
    arguments: Sequence[str],
    topics: Sequence[str],
    is_applied: bool,
    zookeeper: str | None,
    zookeeper_config: Path | None,
    settings: Sequence[str],
    threads: int | None,
) -> Report:
    """Recover log directories after an unclean shutdown, without a broker.

    This does the work of a broker's start after a kill and of its clean shutdown. Temporary files are removed or
    renamed, and unflushed segments are checked and truncated after their last valid batch. Indexes are rebuilt and
    trimmed. Then producer snapshots, checkpoints and the clean-shutdown marker are written.

    Look at the plan first. With --apply, whole log directories are recovered, while no broker runs on them. Ctrl-C ends
    the run after the segments in progress; a new run finishes the work.

    Topic settings (segment.index.bytes and others) come from the cluster metadata, in the directory itself or in
    another one of the same broker. Therefore name all of a broker's log directories. For a broker before Kafka 4, use
    --zookeeper.

    Exit codes: 0 planned or recovered, 2 wrong usage, 3 a directory cannot be read, is held, or a partition cannot be
    recovered.

    \b
    Examples:
      tidelog recover /var/lib/kafka
      tidelog recover '/mnt/disk*/kafka' --apply
      tidelog recover /var/lib/kafka --apply --topic-config orders:index.interval.bytes=1024
    """
    exit_code = ExitCode()
    targets = select_on_disk(arguments, topics, exit_code)
    options = RecoverOptions(
        now_ms=SYSTEM_CLOCK.now_ms(),
        topic_settings=topic_settings(settings),
        elsewhere=read_topic_settings(zookeeper, zookeeper_config, [target.path for target in targets]),
        sibling_directories=tuple(target.path for target in targets),
        threads=threads,
    )
    if not is_applied:
        return _plan_report(targets, options, exit_code)
    if any(target.only is not None for target in targets):
        raise click.UsageError("--apply recovers complete log directories: do not name a topic or partition.")
    return _apply_report(targets, options, exit_code)


def _plan_report(targets: Sequence[Target], options: RecoverOptions, exit_code: ExitCode) -> Report:
    plans = [plan_directory(LOCAL, target.path, options, only=target.only) for target in targets]
    rows = [_plan_row(plan, part) for plan in plans for part in plan.partitions]
    where = ["directory"] * (len(plans) > 1)
    total = {"name": "total"} | {
        name: sum(value for row in rows if isinstance(value := row[name], int))
        for name in ("segments", "read_bytes", "write_bytes")
    }
    table = Table(
        rows=rows,
        columns=[*where, *PLAN_COLUMNS],
        total=total if len(rows) > 1 else None,
        show={"reasons": ", ".join, "leftovers": count_of_files, "trims": count_of_files},
    )
    return Report(
        rows=rows, tables=[table], notes=[note for plan in plans for note in _plan_notes(plan)], exit_code=exit_code
    )


def _plan_row(plan: RecoverPlan, part: PartitionPlan) -> Row:
    renames = [f"{source} to {target}" for source, target in part.leftovers.renames]
    return {
        "directory": str(plan.path),
        "name": part.name,
        "topic": part.topic_partition.topic,
        "partition": part.topic_partition.partition,
        "recovery_point": part.recovery_point,
        "log_start": part.log_start_offset,
        "segments": len(part.recover),
        "from_offset": part.recover[0].base_offset if part.recover else None,
        "reasons": sorted({segment.reason.value for segment in part.recover}),
        "read_bytes": part.read_bytes,
        "write_bytes": part.write_bytes,
        "leftovers": [*part.leftovers.removals, *renames],
        "leftover_bytes": part.leftover_bytes,
        "splits": list(part.splits),
        "trims": list(part.trims),
    }


def _plan_notes(plan: RecoverPlan) -> Iterator[str]:
    free = shutil.disk_usage(plan.path).free
    yield (
        f"{plan.path} ({plan.condition}): {plan.segments:,} segments of {len(plan.partitions):,} partitions to recover,"
        f" {plan.read_bytes:,} bytes to read; at most {plan.free_bytes_needed:,} bytes of space needed, {free:,} free."
    )
    if plan.commit is not None:
        files, partitions = len(plan.commit.names), len(plan.commit.files)
        yield f"Decided commit of {plan.commit}, to complete: {files} staged files into {partitions} partitions."
    if plan.staged:
        yield f"Staged files without a commit, to remove: {', '.join(plan.staged)}."
    if plan.temporary:
        yield f"Unfinished checkpoints to remove: {', '.join(plan.temporary)}."
    if plan.untouched:
        yield f"Left unchanged: {', '.join(plan.untouched)}."
    for part in plan.partitions:
        if part.splits:
            splits = ", ".join(map(str, part.splits))
            yield f"{part.name}: segments to split (no index can hold their offsets): {splits}."
    for warning in plan.warnings:
        yield f"Warning: {warning}."
    if plan.holder is not None:
        yield f"Process {plan.holder} holds the directory: nothing can be applied while it runs."
    else:
        yield "Nothing was changed. Use --apply to do it."


def _apply_report(targets: Sequence[Target], options: RecoverOptions, exit_code: ExitCode) -> Report:
    results = apply_to_each(targets, lambda target: _apply(target, options), exit_code)
    if any(result.failures for result in results):
        exit_code.at_least(UNREADABLE)
    return applied_report(
        [row for result in results for row in _done_rows(result)],
        DONE_COLUMNS,
        several=len(results) > 1,
        notes=[note for result in results for note in _done_notes(result)],
        exit_code=exit_code,
    )


def _apply(target: Target, options: RecoverOptions) -> RecoverResult:
    plan = plan_directory(LOCAL, target.path, options)
    warn_of_space(target.path, plan.free_bytes_needed)

    def recover_now(on_progress: ProgressListener, cancelled: threading.Event) -> RecoverResult:
        return recover_directory(LOCAL, target.path, options, on_progress=on_progress, cancelled=cancelled)

    return with_progress(
        f"Recovering {target.path.name}",
        plan.read_bytes,
        recover_now,
        interrupted="recovered partitions stay recovered, and the others are unchanged. Run the command again.",
    )


def _done_rows(result: RecoverResult) -> Iterator[Row]:
    for part in result.partitions:
        yield {
            "directory": str(result.plan.path),
            "name": part.name,
            "topic": part.topic_partition.topic,
            "partition": part.topic_partition.partition,
            "log_start": part.log_start_offset,
            "log_end": part.end_offset,
            "segments": part.segments,
            "recovered_segments": part.recovered_segments,
            "batches": part.batches,
            "cut_bytes": part.cut_bytes,
            "deleted_segments": part.deleted_segments,
            "removed_files": part.removed_files,
            "warnings": list(part.warnings),
            "error": None,
        }
    for name, error in result.failures:
        unknown = dict.fromkeys(("topic", "partition", *DONE_COLUMNS[1:], "warnings"))
        yield {"directory": str(result.plan.path), "name": name, **unknown, "error": str(error)}


def _done_notes(result: RecoverResult) -> Iterator[str]:
    for part in result.partitions:
        for warning in part.warnings:
            yield f"{part.name}: {warning}."
    segments = sum(part.recovered_segments for part in result.partitions)
    done = f"{segments:,} segments of {len(result.partitions):,} partitions recovered"
    done += f", {result.cut_bytes:,} bytes truncated"
    if result.failures:
        yield f"{result.plan.path}: {done}; {len(result.failures)} partitions failed: no checkpoint was written."
    else:
        yield f"{result.plan.path}: {done}; its shutdown counts as clean now."
