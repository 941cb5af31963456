"""``tidelog spark audit``: findings, and for each partition an outlook on a broker's next start."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tidelog.cli.report import FINDINGS, UNREADABLE, ExitCode, Report, Table
from tidelog.cli.spark.session import job_options, run_job
from tidelog.inspect.verify.directory_check import SETTLED

FOUND = ("kind", "severity", "file", "position", "offset", "message", "nextGoodPosition", "nextGoodOffset")
ENDS = ("directory", "topic", "partition", "logStartOffset", "logEndOffset", "message")


@click.command()
@job_options
def audit(directories: Sequence[str], topics: Sequence[str], master: str | None, conf: Sequence[str]) -> Report:
    """Check every file of many directories against the logs: tidelog verify as a Spark job.

    Every header, CRC and record is read. Indexes, snapshots, leader epochs and checkpoints are compared with the logs.
    JSON and CSV have three kinds of rows: a "finding" has a severity, an "outlook" describes a broker's next start on a
    partition, and an "error" names a file that cannot be read. Nothing is written.

    Exit codes: 0 nothing but notes, 1 errors or warnings, 2 wrong usage, 3 a partition or directory cannot be read.

    \b
    Examples:
      tidelog spark audit /mnt/disk1/kafka /mnt/disk2/kafka
      tidelog spark audit /nfs/broker-*/kafka --master spark://host:7077 --jsonl
      tidelog spark audit '/mnt/disk*/kafka' --topic orders --csv > findings.csv
    """
    from tidelog.spark.jobs.audit import ERROR, OUTLOOK, finds_anything
    from tidelog.spark.jobs.audit import audit as run

    rows = run_job(
        "audit",
        directories,
        master,
        conf,
        lambda session, paths, on_progress: run(session, paths, topics=topics or None, on_progress=on_progress),
    )
    exit_code = ExitCode()
    if finds_anything(rows):
        exit_code.at_least(FINDINGS)
    if any(row["kind"] == ERROR for row in rows):
        exit_code.at_least(UNREADABLE)
    outlooks = [row for row in rows if row["kind"] == OUTLOOK]
    unsettled = [row for row in outlooks if row["message"] != SETTLED]
    settled = len(outlooks) - len(unsettled)
    return Report(
        rows=rows,
        tables=[
            Table(rows=[row for row in rows if row["kind"] != OUTLOOK], columns=FOUND, title="Findings"),
            Table(rows=unsettled, columns=ENDS, title="At its next start a broker"),
        ],
        notes=[f"{len(outlooks):,} partitions checked; a broker loads {settled:,} of them as they are."],
        exit_code=exit_code,
    )
