"""What the jobs' commands share: directories, topics, the session, and progress while the job runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidelog.cli.options import expand, output_options
from tidelog.cli.progress import progress
from tidelog.model import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.spark.jobs.tasks import Advance

F = TypeVar("F", bound=Callable[..., Any])

Job = Callable[["SparkSession", list[Path], "Advance"], "DataFrame"]


def job_options(command: F) -> F:
    """Adds the parameters ``directories``, ``topics``, ``master`` and ``conf``, and the output options."""
    command = output_options(command)
    command = click.option(
        "--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of the Spark session. Repeatable."
    )(command)
    command = click.option(
        "--master", metavar="URL", help="Where Spark runs: local[4], spark://…, yarn.  [default: as Spark is set up]"
    )(command)
    command = click.option(
        "--topic", "-t", "topics", multiple=True, metavar="NAME", help="Only this topic. Repeatable."
    )(command)
    return click.argument("directories", nargs=-1, required=True, metavar="DIR...")(command)


def run_job(
    name: str, directories: Sequence[str], topics: Sequence[str], master: str | None, conf: Sequence[str], job: Job
) -> list[dict[str, Any]]:
    """The job's rows. DirectoryError for what is no log directory, before Spark is started."""
    config = dict(_setting(text) for text in conf)
    try:
        from tidelog.spark.jobs.partitions import require_directories, works_of
        from tidelog.spark.session_builder import session
    except ModuleNotFoundError as error:
        raise ConfigError(f"no module {error.name}: install tidelog[spark]") from None
    paths = require_directories(expand(directories))
    total = sum(work.log_bytes for work in works_of(paths, topics or None))
    try:
        spark = session(f"tidelog {name}", master=master, config={"spark.ui.showConsoleProgress": "false", **config})
    except ModuleNotFoundError as error:
        raise ConfigError(f"no module {error.name}: install tidelog[spark]") from None
    with progress(f"{name.capitalize()} on Spark", total) as advance:
        return [row.asDict() for row in job(spark, paths, advance).collect()]


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise click.UsageError(f"--conf {text}: KEY=VALUE is wanted.")
    return key, value
