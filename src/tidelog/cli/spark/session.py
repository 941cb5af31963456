"""Shared parts of the Spark commands: options, the session, and progress while a job runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidelog.cli.options import expand, output_options
from tidelog.cli.progress import CancellableAdvance, progress
from tidelog.cli.setting_options import key_values
from tidelog.model import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.spark.jobs.progress import OnProgress

F = TypeVar("F", bound=Callable[..., Any])


def session_options(command: F) -> F:
    """Add the parameters ``topics``, ``master`` and ``conf``, and the output options."""
    command = output_options(command)
    command = click.option(
        "--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of the Spark session. Repeatable."
    )(command)
    command = click.option(
        "--master",
        "--remote",
        "master",
        metavar="URL",
        help="Spark's master: local[4], spark://…, yarn, sc://….  [default: as Spark is set up]",
    )(command)
    return click.option("--topic", "-t", "topics", multiple=True, metavar="NAME", help="Only this topic. Repeatable.")(
        command
    )


def job_options(command: F) -> F:
    """Add the parameter ``directories``, and those of ``session_options``."""
    return click.argument("directories", nargs=-1, required=True, metavar="DIR...")(session_options(command))


def apply_option(command: F) -> F:
    return click.option(
        "--apply", "is_applied", is_flag=True, help="Apply the plan. Without this option, nothing is changed."
    )(command)


def run_job(
    name: str,
    directories: Sequence[str],
    master: str | None,
    conf: Sequence[str],
    job: Callable[[SparkSession, list[Path], OnProgress], DataFrame],
) -> list[dict[str, Any]]:
    """Return the job's rows. Raise DirectoryError for a path that is no log directory, before Spark is started."""
    with _spark_needed():
        from tidelog.spark.jobs.work import require_directories

        paths = require_directories(expand(directories))
    return run_in_session(name, master, conf, lambda spark, on_progress: job(spark, paths, on_progress))


def run_in_session(
    name: str, master: str | None, conf: Sequence[str], job: Callable[[SparkSession, OnProgress], DataFrame]
) -> list[dict[str, Any]]:
    config = {"spark.ui.showConsoleProgress": "false", **key_values("--conf", conf)}
    with _spark_needed():
        from tidelog.spark.session_builder import session

        spark = session(f"tidelog {name}", master=master, config=config)
    with ExitStack() as stack:
        return [row.asDict() for row in job(spark, _bar(stack, f"{name.capitalize()} on Spark")).collect()]


@contextmanager
def _spark_needed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"no module {error.name}: install tidelog[spark]") from None


def _bar(stack: ExitStack, description: str) -> OnProgress:
    """Return a callback for progress. The bar appears at its first call, which gives the total."""
    advance: CancellableAdvance | None = None
    shown = 0

    def on_progress(done: int, total: int) -> None:
        nonlocal advance, shown
        if advance is None:
            advance = stack.enter_context(progress(description, total))
        advance(done - shown)
        shown = done

    return on_progress
