"""``tidelog spark``: the jobs, each a command of its own, imported when it is called."""

from __future__ import annotations

import click

from tidelog.cli.lazy_group import LazyGroup

JOBS = {
    "audit": "Check every file of many directories against the logs: tidelog verify as a Spark job.",
    "compact": "Compact the logs of many directories, or show which are due: tidelog compact as a Spark job.",
    "count": "Count the records of many directories: tidelog count as a Spark job.",
    "export": "Write the records of many directories as Parquet, or another format, with Spark.",
    "recover": "Do in many directories what brokers do after a kill: tidelog recover as a Spark job.",
    "restore": "Make logs of a table's records, an export's say: each at its offset, with its time and headers.",
}
"""For ``LazyGroup``; a test holds it and the help texts together."""


@click.group(cls=LazyGroup, table=JOBS, package="tidelog.cli.spark", heading="Jobs")
def spark() -> None:
    """Run a job over many data directories on Spark.

    Partitions are read by Spark's tasks, so the cores of a cluster work side by side; directories have to be visible
    under the same path to the driver and to every executor. Needs tidelog[spark] there, and Java. The same jobs are in
    tidelog.spark.jobs, for Python, python -m and spark-submit. Those that write into data directories show a plan
    first, and need --apply.

    Exit codes: 0 done, 1 findings, 2 wrong usage, 3 a partition or directory cannot be read.

    \b
    Examples:
      tidelog spark audit /mnt/disk1/kafka /mnt/disk2/kafka
      tidelog spark count '/mnt/disk*/kafka'
    """
