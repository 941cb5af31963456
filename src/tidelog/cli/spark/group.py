"""``tidelog spark``: the jobs, each a command of its own, imported when it is called."""

from __future__ import annotations

import importlib

import click

JOBS = {
    "audit": "Check every file of many directories against the logs: tidelog verify as a Spark job.",
    "count": "Count the records of many directories: tidelog count as a Spark job.",
}
"""Name of a job (also the module's and the function's) -> what its help says first; a test holds the two together."""


class Jobs(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted(JOBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in JOBS:
            return None
        command: click.Command = getattr(importlib.import_module(f"tidelog.cli.spark.{name}"), name)
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Jobs"):
            formatter.write_dl(sorted(JOBS.items()))


@click.group(cls=Jobs)
def spark() -> None:
    """Run a job over many data directories on Spark.

    Partitions are read by Spark's tasks, so the cores of a cluster work side by side; directories have to be visible
    under the same path to the driver and to every executor. Needs tidelog[spark] there, and Java. The same jobs are in
    tidelog.spark.jobs, for Python, python -m and spark-submit.

    Exit codes: 0 done, 1 findings, 2 wrong usage, 3 a partition or directory cannot be read.

    \b
    Examples:
      tidelog spark audit /mnt/disk1/kafka /mnt/disk2/kafka
      tidelog spark count '/mnt/disk*/kafka'
    """
