"""The pages of docs/commands are the texts that ``--help`` prints, and each text has exit codes and examples."""

from __future__ import annotations

import re
import subprocess
import sys

import click
import pytest

from cli.runner import run
from project.tree import load
from tidelog.cli.main import COMMANDS, cli
from tidelog.cli.spark import submit
from tidelog.cli.spark.group import JOBS


def test_the_pages_are_the_help_texts() -> None:
    command_page = load("scripts/command_page.py")
    written = {path.name: path.read_text() for path in command_page.FOLDER.iterdir()}
    assert written == command_page.pages(), "run `make map`"
    listed = re.findall(r"^\| \[`tidelog ([\w-]+)`\]", written["README.md"], flags=re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


EVERY = [*COMMANDS, *(f"spark {job}" for job in JOBS)]


def command_of(name: str) -> click.Command:
    command: click.Command = cli
    for word in name.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found
        command = found
    return command


@pytest.mark.parametrize("name", sorted(EVERY))
def test_a_help_text_says_its_exit_codes_and_examples_that_parse(name: str) -> None:
    command = command_of(name)
    text = command.help or ""
    assert "Exit codes: 0" in text
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    examples = [line.split() for line in text.partition("Examples:")[2].splitlines() if line.strip()]
    assert examples
    for words in examples:
        assert words[: 1 + len(name.split())] == ["tidelog", *name.split()]
        own = words[: next((at for at, word in enumerate(words) if word in ("|", ">")), len(words))]
        assert {word for word in own if word.startswith("--")} <= options


@pytest.mark.parametrize("job", sorted(JOBS))
def test_the_list_of_jobs_says_what_their_help_texts_do(job: str) -> None:
    assert (command_of(f"spark {job}").help or "").startswith(JOBS[job])


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"serve", "spark", "web"}))
def test_every_command_that_reports_has_the_common_options(name: str) -> None:
    options = {option for parameter in command_of(name).params for option in parameter.opts}
    assert {"--json", "--jsonl", "--csv", "--quiet"} <= options


def test_the_file_for_spark_submit_is_the_command() -> None:
    """A copy of the file must not need its folder, and its folder must hide no module of others."""
    words = [sys.executable, submit.__file__, "count", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == run("spark", "count", "--help").stdout
