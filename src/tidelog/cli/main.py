"""Entry point of the ``tidelog`` command: the list of commands, the exit codes and the error output.

A command is imported when it is called, so ``tidelog --help`` does not import the storage engine. Exit codes: 0 clean,
1 findings, 2 usage, 3 unreadable, 130 interrupted. An error is one sentence on stderr. If the reader of stdout closes
the pipe (``head``), the run ends silently.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click

from tidelog.cli.lazy_group import LazyGroup
from tidelog.cli.output import Format, print_report
from tidelog.cli.report import CLEAN, INTERRUPTED, UNREADABLE, USAGE, Report
from tidelog.inspect.printable import escaped
from tidelog.model.errors import ConfigError, OffsetOutOfRangeError, TidelogError
from tidelog.version import __version__

COMMANDS = {
    "compact": "Compact logs without a broker, or show which of them are due.",
    "compare": "Compare the replicas of a cluster, from the log directories of several brokers.",
    "config": "Explain configuration keys: their values, the origins of the values, and their effects.",
    "count": "Count records, batches and bytes exactly, committed and aborted apart.",
    "dump": "Print the contents of log, index, snapshot and checkpoint files.",
    "export": "Write records as JSON lines, CSV, Arrow or Parquet.",
    "format": "Format new log directories, with the options of kafka-storage format.",
    "import": "Create a metadata log for the directories of a broker that has none.",
    "info": "Show the contents of a data directory, partition by partition.",
    "inspect": "Print a page of the inspector as tables or JSON, without a server.",
    "mirror": "Copy topics of a Kafka cluster into a log directory, byte for byte and offset for offset.",
    "metadata": "Show the cluster metadata that is in a data directory.",
    "offsets": "Show offsets by time, and the committed offsets of groups.",
    "random-uuid": "Print a new random id, for a cluster or a directory.",
    "records": "Print the records of one partition.",
    "recover": "Recover log directories after an unclean shutdown, without a broker.",
    "retention": "Show when each segment will be deleted, by which rule, and why not yet.",
    "serve": "Run a broker that Kafka's clients can use.",
    "snapshot": "Copy log directories as of a time, mostly by hard links.",
    "spark": "Run a job over many data directories on Spark.",
    "transactions": "Show open transactions, the records behind them, and which of them hang.",
    "verify": "Check every file against the log, and predict a broker's next start.",
    "web": "Serve pages about log directories: the contents of the disk, with reasons.",
}
"""The table for ``LazyGroup``. A test checks that each entry occurs in the command's help text."""


class Commands(LazyGroup):
    """A ``LazyGroup`` that ends a run with the module's exit codes."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:
            _silence_stdout()
            context.exit(CLEAN)

    def main(self, *args: Any, **named: Any) -> NoReturn:
        """Run click's ``main`` and turn every error into a message on stderr and an exit code."""
        # ``sys.stdout`` may be None in a host program, and a test's stream may have no ``reconfigure``.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            code = super().main(*args, **named | {"standalone_mode": False, "prog_name": "tidelog"})
        except click.Abort:
            code = INTERRUPTED
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except (ConfigError, OffsetOutOfRangeError) as error:
            code = _fail(error, USAGE)
        except TidelogError as error:
            code = _fail(error, UNREADABLE)
        except OSError as error:
            code = _fail(error, UNREADABLE)
        sys.exit(code)


def _set_up_logging(_context: click.Context, _parameter: click.Parameter, file: str | None) -> None:
    """Set up logging only if the option is given. Without it, Python prints warnings to stderr."""
    if file is not None:
        from tidelog.runtime.logging_setup import set_up_logging

        set_up_logging(None if file == "stderr" else Path(file))


@click.group(
    cls=Commands,
    table=COMMANDS,
    package="tidelog.cli",
    heading="Commands",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="tidelog")
@click.option(
    "--logging-config",
    metavar="FILE",
    expose_value=False,
    callback=_set_up_logging,
    help="A TOML or JSON configuration for Python's logging, or stderr for log lines there.",
)
def cli() -> None:
    """Read, check, repair and extend Kafka data directories: Apache Kafka's log storage in Python.

    Reading commands never write. The commands compact, format, import, mirror, recover and snapshot print a plan; they
    write only with --apply. The serve command runs a broker, which locks the directory while it runs.

    \b
    Examples:
      tidelog info /var/lib/kafka
      tidelog verify /var/lib/kafka
      tidelog records /var/lib/kafka orders-0 --jsonl | head
    """


@cli.result_callback()
@click.pass_context
def _print(context: click.Context, /, report: Report | None, **_options: Any) -> None:
    if report is None:
        return
    chosen = context.ensure_object(dict)
    if chosen.get("quiet"):
        report = replace(report, notes=())
    default = Format.JSONL if report.jsonl_by_default else Format.TABLE
    print_report(report, Format(chosen.get("format", default)))
    context.exit(report.exit_code.value)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (``sys.argv`` by default) and exit with its code."""
    # numpy starts a thread for each core as it is imported, and no command computes with matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    cli.main(args=None if arguments is None else list(arguments))


def _fail(error: Exception, code: int) -> int:
    try:
        sys.stdout.flush()  # rows printed before the error must come first
        click.echo(f"Error: {escaped(str(error))}", err=True)
    except BrokenPipeError:
        _silence_stdout()
    return code


def _silence_stdout() -> None:
    """Redirect stdout to the null device after a closed pipe, so that Python's flush at exit does not fail too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
