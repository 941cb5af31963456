"""``tidelog spark``: the group of jobs. A job's command is imported when it is called."""

from __future__ import annotations

import click

from tidelog.cli.lazy_group import LazyGroup

JOBS = {
    "audit": "Check every file of many directories against the logs: tidelog verify as a Spark job.",
    "compact": "Compact the logs of many directories, or show which are due: tidelog compact as a Spark job.",
    "count": "Count the records of many directories: tidelog count as a Spark job.",
    "export": "Write the records of many directories as Parquet, or another format, with Spark.",
    "recover": "Recover many directories after an unclean shutdown: tidelog recover as a Spark job.",
    "restore": "Restore logs from a table's records: each record at its offset, with its timestamp and headers.",
}
"""The table for ``LazyGroup``. A test checks that each help text begins with its entry."""


@click.group(cls=LazyGroup, table=JOBS, package="tidelog.cli.spark", heading="Jobs")
def spark() -> None:
    """Run a job over many data directories on Spark.

    Spark's tasks read the partitions, so the cores of a cluster work in parallel. The driver and every executor must
    see the directories under the same path. They also need tidelog[spark] and Java. The file
    tidelog/cli/spark/submit.py is the same command for spark-submit, and tidelog.spark.jobs has the jobs for Python.
    Jobs that write into data directories show a plan first, and need --apply.

    Exit codes: 0 done, 1 findings, 2 wrong usage, 3 a partition or directory cannot be read.

    \b
    Examples:
      tidelog spark audit /mnt/disk1/kafka /mnt/disk2/kafka
      tidelog spark count '/mnt/disk*/kafka'
    """
