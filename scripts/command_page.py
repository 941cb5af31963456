"""Write docs/commands/: an index, and a page for each command with its help text.

`make map` runs this. A test fails while a page and a help text differ.
"""

from __future__ import annotations

from pathlib import Path

import click

from tidelog.cli.main import COMMANDS, cli

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "commands"
WIDTH = 100

INTRODUCTION = """\
# Commands

`make map` writes these pages from the texts that `tidelog COMMAND --help` prints.

## Common to all commands
- **Two spellings.** `python -m tidelog` is the same command, with the same texts and exit codes. Use it if the
  interpreter's scripts are not on the path.
- **Paths.** A `DIR` is a log directory (an entry of `log.dirs`) or a single partition's directory. You can give
  several, and globs, also in quotes. Names after the directories, or `--topic`, select topics and partitions; they may
  be patterns with `*` and `?`. Reading never writes, creates, locks or touches a file, so a broker may run on the
  directory.
- **Output.** The default is a table. `--json`, `--jsonl` and `--csv` are for programs (`dump` prints JSON lines by
  default). There numbers are plain, times are milliseconds since 1970, and columns keep their names and order. CSV has
  the same text for null and for empty. Notes and progress (rate, remaining time) go to stderr if it is a terminal;
  `--quiet` turns them off. Notes follow a table.
- **The end of a read** is the end of the last valid batch, or the checkpointed high watermark if a running process
  holds the directory. `--until` selects another end. The notes name the end, and the reason.
- **Exit codes.** 0 clean, 1 findings, 2 wrong usage, 3 something cannot be read, 130 interrupted by Ctrl-C.
- **Errors** are one sentence on stderr. A directory or partition that cannot be read does not stop the reading of
  others.

## The commands
"""


def help_text(name: str | None = None) -> str:
    """Return the text that ``--help`` prints on a terminal of ``WIDTH`` columns."""
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


def names(command: str) -> list[str]:
    """Return the command's name, then the names of its subcommands."""
    found = cli.get_command(click.Context(cli), command)
    if isinstance(found, click.Group):
        return [command, *(f"{command} {name}" for name in found.list_commands(click.Context(found)))]
    return [command]


def page(command: str) -> str:
    sections = [f"## tidelog {name}\n```text\n{help_text(name)}\n```\n" for name in names(command)]
    return "\n".join([f"# tidelog {command}\n", "[All commands](README.md)\n", *sections])


def index() -> str:
    rows = [f"| [`tidelog {name}`]({name}.md) | {COMMANDS[name]} |" for name in sorted(COMMANDS)]
    table = ["| command | purpose |", "|---|---|", *rows, ""]
    return INTRODUCTION + "\n".join([*table, "## tidelog", "```text", help_text(), "```", ""])


def pages() -> dict[str, str]:
    """Return every page of the folder by its file name."""
    return {"README.md": index(), **{f"{name}.md": page(name) for name in sorted(COMMANDS)}}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
