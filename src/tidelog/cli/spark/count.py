"""``tidelog spark count``: a row for each partition, with its counts or its error, and a total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from tidelog.cli.report import UNREADABLE, ExitCode, Report, Row, Table
from tidelog.cli.spark.session import job_options, run_job

SUMMED = (
    "records",
    "committed",
    "aborted",
    "heldBack",
    "control",
    "tombstones",
    "recordsAboveHighWatermark",
    "offsetsAboveHighWatermark",
    "batches",
    "sizeBytes",
)


@click.command()
@job_options
@click.option(
    "--headers-only",
    is_flag=True,
    help="Count by batch headers; decode only batches at the ends. Faster, without tombstones.",
)
def count(
    directories: Sequence[str], topics: Sequence[str], master: str | None, conf: Sequence[str], headers_only: bool
) -> Report:
    """Count the records of many directories: tidelog count as a Spark job.

    The job counts records, batches and bytes exactly, from the log start to the end of the valid batches, committed and
    aborted apart. The columns have the meaning of those of tidelog count. Nothing is written.

    Exit codes: 0 counted, 2 wrong usage, 3 a partition or directory cannot be read.

    \b
    Examples:
      tidelog spark count /mnt/disk1/kafka /mnt/disk2/kafka
      tidelog spark count '/mnt/disk*/kafka' --headers-only --csv > counts.csv
      tidelog spark count /nfs/broker-*/kafka --master local[8] --conf spark.driver.memory=4g --json
    """
    from tidelog.spark.jobs.count import count as run

    rows = run_job(
        "count",
        directories,
        master,
        conf,
        lambda session, paths, on_progress: run(
            session, paths, topics=topics or None, headers_only=headers_only, on_progress=on_progress
        ),
    )
    exit_code = ExitCode()
    failed = any(row["error"] is not None for row in rows)
    if failed:
        exit_code.at_least(UNREADABLE)
    columns = ["directory", "topic", "partition", *SUMMED] + ["error"] * failed
    return Report(rows=rows, tables=[Table(rows=rows, columns=columns, total=_total(rows))], exit_code=exit_code)


def _total(rows: Sequence[Mapping[str, object]]) -> Row | None:
    if len(rows) < 2:
        return None
    sums: dict[str, object] = {"directory": "total"}
    for name in SUMMED:
        values = [value for row in rows if isinstance(value := row[name], int)]
        if values:
            sums[name] = sum(values)
    return sums
