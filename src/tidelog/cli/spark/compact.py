"""``tidelog spark compact``: a row for each log, planned or with ``--apply`` done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tidelog.cli.options import expand
from tidelog.cli.report import FINDINGS, UNREADABLE, ExitCode, Report, Table
from tidelog.cli.setting_options import due_options, properties, topic_settings
from tidelog.cli.spark.session import apply_option, job_options, run_job
from tidelog.cli.zookeeper_options import read_topic_settings, settings_from_zookeeper

PLANNED = (
    "directory",
    "topic",
    "partition",
    "firstDirtyOffset",
    "firstUncleanableOffset",
    "cleanBytes",
    "dirtyBytes",
    "dirtyRatio",
    "isDue",
    "reason",
)
DONE = (
    "directory",
    "topic",
    "partition",
    "nextDirtyOffset",
    "segmentsBefore",
    "segments",
    "bytesBefore",
    "bytes",
    "tasks",
)


@click.command()
@job_options
@apply_option
@settings_from_zookeeper
@due_options
@click.option(
    "--spread-bytes",
    type=click.IntRange(0),
    metavar="N",
    help="Several tasks clean a log larger than N bytes.  [default: 4 GiB]",
)
def compact(
    directories: Sequence[str],
    topics: Sequence[str],
    master: str | None,
    conf: Sequence[str],
    is_applied: bool,
    is_all: bool,
    min_dirty_ratio: float | None,
    no_check: bool,
    zookeeper: str | None,
    zookeeper_config: Path | None,
    settings: Sequence[str],
    config_file: Path | None,
    spread_bytes: int | None,
) -> Report:
    """Compact the logs of many directories, or show which are due: tidelog compact as a Spark job.

    Without --apply the job only plans. With --apply each task compacts a log, and a log of more than 4 GiB takes many
    tasks. The logs are byte for byte those of tidelog compact, and each is replaced in one step. The job then locks the
    directories, which must have had a clean shutdown. The row of a refused directory or a failed log has the reason.

    Exit codes: 0 planned or compacted, 1 a log that is due cannot be cleaned, 2 wrong usage, 3 a directory cannot be
    read, is held, or had an unclean shutdown.

    \b
    Examples:
      tidelog spark compact '/mnt/disk*/kafka' --all --no-check
      tidelog spark compact /mnt/disk1/kafka /mnt/disk2/kafka --topic customers --apply --json
    """
    if is_all and min_dirty_ratio is not None:
        raise click.UsageError("--all and --min-dirty-ratio exclude each other.")
    from tidelog.spark.jobs.compact import SPREAD_BYTES, JobOptions
    from tidelog.spark.jobs.compact import compact as run

    options = JobOptions(
        topics=frozenset(topics) or None,
        min_dirty_ratio=0.0 if is_all else min_dirty_ratio,
        topic_settings=topic_settings(settings),
        properties=properties(config_file),
        elsewhere=read_topic_settings(zookeeper, zookeeper_config, expand(directories)),
        check=not no_check,
        spread_bytes=SPREAD_BYTES if spread_bytes is None else spread_bytes,
    )
    rows = run_job(
        "compact",
        directories,
        master,
        conf,
        lambda session, paths, on_progress: run(session, paths, options, apply=is_applied, on_progress=on_progress),
    )
    exit_code = ExitCode()
    if any(row["stoppedBy"] is not None or row["error"] is not None for row in rows):
        exit_code.at_least(FINDINGS)
    if any(row["topic"] is None for row in rows):
        exit_code.at_least(UNREADABLE)
    # A log with neither a plan nor an error is not a compacted one.
    shown = [row for row in rows if row["firstDirtyOffset"] is not None or row["error"] is not None]
    if is_applied:
        shown = [row for row in shown if row["nextDirtyOffset"] is not None or row["error"] is not None]
    columns = list(DONE if is_applied else PLANNED)
    columns += [name for name in ("stoppedBy", "error") if any(row[name] is not None for row in rows)]
    table = Table(rows=shown, columns=columns, show={"dirtyRatio": "{:.1%}".format})
    return Report(rows=rows, tables=[table], notes=[_note(rows, is_applied=is_applied)], exit_code=exit_code)


def _note(rows: Sequence[dict[str, object]], *, is_applied: bool) -> str:
    due = sum(bool(row["isDue"]) for row in rows)
    if not is_applied:
        return f"{due:,} of {len(rows):,} logs are due. Nothing was changed; Use --apply to compact them."
    done = [row for row in rows if row["nextDirtyOffset"] is not None]
    return f"{len(done):,} of {due:,} due logs are compacted; the others are unchanged."
