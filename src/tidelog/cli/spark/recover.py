"""``tidelog spark recover``: rows of directories and partitions, planned or with ``--apply`` done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tidelog.cli.options import expand
from tidelog.cli.report import UNREADABLE, ExitCode, Report, Table
from tidelog.cli.setting_options import topic_config_option, topic_settings
from tidelog.cli.spark.session import apply_option, job_options, run_job
from tidelog.cli.zookeeper_options import read_topic_settings, settings_from_zookeeper

DIRECTORIES = ("directory", "condition", "commit", "stagedFiles", "temporaryFiles", "warnings", "error")
PLANNED = ("segmentsToRecover", "fromOffset", "reasons", "readBytes", "writeBytes", "leftovers")
DONE = ("logStartOffset", "logEndOffset", "segments", "recoveredSegments", "batches", "cutBytes", "error")


@click.command()
@job_options
@apply_option
@settings_from_zookeeper
@topic_config_option
def recover(
    directories: Sequence[str],
    topics: Sequence[str],
    master: str | None,
    conf: Sequence[str],
    is_applied: bool,
    zookeeper: str | None,
    zookeeper_config: Path | None,
    settings: Sequence[str],
) -> Report:
    """Recover many directories after an unclean shutdown: tidelog recover as a Spark job.

    Without --apply the job only plans. With --apply it recovers the partitions of all directories in parallel. The
    directories are byte for byte those of tidelog recover. The job then locks the directories, on which no broker may
    run, and recovers them completely. The row of a refused directory or a failed partition has the reason. The job can
    be started again.

    Exit codes: 0 planned or recovered, 2 wrong usage, 3 a directory cannot be read, is held, or a partition cannot be
    recovered.

    \b
    Examples:
      tidelog spark recover '/mnt/disk*/kafka'
      tidelog spark recover /mnt/disk1/kafka /mnt/disk2/kafka --apply
      tidelog spark recover /nfs/broker-*/kafka --apply --master spark://host:7077 --json
    """
    from tidelog.runtime import SYSTEM_CLOCK
    from tidelog.spark.jobs.recover import failed
    from tidelog.spark.jobs.recover import recover as run
    from tidelog.spark.jobs.recovery_rows import DIRECTORY, PARTITION
    from tidelog.storage.manager.recovery.recover_plan import RecoverOptions

    options = RecoverOptions(
        now_ms=SYSTEM_CLOCK.now_ms(),
        topic_settings=topic_settings(settings),
        elsewhere=read_topic_settings(zookeeper, zookeeper_config, expand(directories)),
    )
    rows = run_job(
        "recover",
        directories,
        master,
        conf,
        lambda session, paths, on_progress: run(
            session, paths, options, topics=topics or None, apply=is_applied, on_progress=on_progress
        ),
    )
    exit_code = ExitCode()
    if failed(rows):
        exit_code.at_least(UNREADABLE)
    partitions = [row for row in rows if row["kind"] == PARTITION]
    columns = ("directory", "name", *(DONE if is_applied else PLANNED))
    show = {"reasons": ", ".join, "warnings": "; ".join}
    return Report(
        rows=rows,
        tables=[
            Table(rows=[row for row in rows if row["kind"] == DIRECTORY], columns=DIRECTORIES, show=show),
            Table(rows=partitions, columns=columns, show=show),
        ],
        notes=[_note(partitions, is_applied=is_applied)],
        exit_code=exit_code,
    )


def _note(partitions: Sequence[dict[str, int | None]], *, is_applied: bool) -> str:
    def total(name: str) -> int:
        return sum(row[name] or 0 for row in partitions)

    if is_applied:
        return f"{total('recoveredSegments'):,} segments recovered, {total('cutBytes'):,} bytes truncated."
    return (
        f"{total('segmentsToRecover'):,} segments of {len(partitions):,} partitions to recover,"
        f" {total('readBytes'):,} bytes to read. Nothing was changed; Use --apply to do it."
    )
