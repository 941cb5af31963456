"""Entry point of the ``tidelog`` command: the list of commands, and what ends a run.

A command is imported when it is called, so ``tidelog --help`` reads no engine. Exit codes: 0 clean, 1 findings,
2 usage, 3 unreadable.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from tidelog.cli.output import Format, print_report
from tidelog.cli.report import UNREADABLE, Report
from tidelog.model.errors import ConfigError, TidelogError
from tidelog.version import __version__

COMMANDS = {
    "count": "Count records, batches and bytes exactly, committed and aborted apart.",
    "dump": "Print what is in log, index, snapshot and checkpoint files.",
    "export": "Write records as JSON lines, CSV, Arrow or Parquet.",
    "info": "Show what a data directory holds, partition by partition.",
    "offsets": "Show offsets by time, and the committed offsets of groups.",
    "records": "Print the records of one partition.",
    "recover": "Do what a broker does after a kill, without a broker.",
    "verify": "Check every file against the log, and say what a broker would do.",
}
"""Command name (also the module's and the function's) -> what its help says first; a test holds the two together."""


class Commands(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"tidelog.cli.{name}"), name)
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tidelog")
def cli() -> None:
    """Apache Kafka's log storage in Python: read, check, repair and extend Kafka data directories.

    Reading commands never write. Commands that write print a plan first, and need --apply.

    \b
    Examples:
      tidelog info /var/lib/kafka
      tidelog verify /var/lib/kafka
      tidelog records /var/lib/kafka orders-0 --jsonl | head
    """


@cli.result_callback()
@click.pass_context
def _print(context: click.Context, report: Report | None, **_options: Any) -> None:
    if report is None:
        return
    chosen = context.ensure_object(dict)
    if chosen.get("quiet"):
        report = Report(rows=report.rows, columns=report.columns, text=report.text, exit_code=report.exit_code)
    print_report(report, Format(chosen.get("format", Format.TABLE)))
    context.exit(report.exit_code.value)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line (``sys.argv`` by default) and exit with its code."""
    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="tidelog")
    except ConfigError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except TidelogError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(UNREADABLE)
    except BrokenPipeError:
        # The reader (head, less) has gone; Python must not complain again while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
