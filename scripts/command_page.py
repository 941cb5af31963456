"""docs/commands.md: the commands with their help texts, as the command line prints them.

`make map` writes it again; a test fails while the page and the texts differ.
"""

from __future__ import annotations

from pathlib import Path

import click

from tidelog.cli.main import COMMANDS, cli

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
WIDTH = 100

INTRODUCTION = """\
# Commands

Written by `make map` from what `tidelog COMMAND --help` prints.

## What all commands have in common
- **Two spellings.** `python -m tidelog` is the same command, with the same texts and exit codes. It is for an
  interpreter whose scripts are not on the path.
- **Paths.** A `DIR` is a log directory (what `log.dirs` names) or a single partition's directory. Several at once, and
  globs, also quoted ones. Names behind the directories, or `--topic`, choose topics and partitions; patterns with `*`
  and `?` too. Reading never writes, creates, locks or touches anything; a live broker may be running on the directory.
- **Output.** A table by default, `--json`, `--jsonl` or `--csv` for programs (`dump`: JSON lines by default). Numbers
  stay plain there, times are milliseconds since 1970, and columns keep their names and order. CSV has one text for null
  and for empty. Notes and progress (rate, time left) go to a terminal's stderr; `--quiet` turns them off. Beside a
  table, notes follow it.
- **Where a read ends.** At the end of the last valid batch, in a directory that nobody holds; at the checkpointed high
  watermark, where a running process holds it; `--until` says otherwise. The notes say which it was, and why.
- **Exit codes.** 0 clean, 1 findings, 2 wrong usage, 3 something cannot be read, 130 interrupted by Ctrl-C.
- **Errors** are one sentence on stderr. A directory or partition that cannot be read does not keep the others from
  being read.
"""


def help_text(name: str | None = None) -> str:
    """What ``--help`` prints on a terminal of ``WIDTH`` columns."""
    parent = click.Context(cli, info_name="tidelog", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    if name is None:
        return cli.get_help(parent)
    command: click.Command = cli
    for word in name.split():
        assert isinstance(command, click.Group), f"{name}: no group before {word}"
        found = command.get_command(parent, word)
        assert found is not None, f"no command {name}"
        command, parent = found, click.Context(found, info_name=word, parent=parent)
    return command.get_help(parent)


def names() -> list[str]:
    """Of all commands, those of a group behind it."""
    every = []
    for name in sorted(COMMANDS):
        every.append(name)
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            every += [f"{name} {own}" for own in command.list_commands(click.Context(command))]
    return every


def page() -> str:
    sections = [f"## tidelog {name}\n```text\n{help_text(name)}\n```\n" for name in names()]
    return "\n".join([INTRODUCTION, f"## tidelog\n```text\n{help_text()}\n```\n", *sections])


if __name__ == "__main__":
    PAGE.write_text(page())
