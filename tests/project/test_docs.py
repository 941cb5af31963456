"""The documents cannot lie: commands, links, the file map, the table of dependencies and the help texts are checked."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from golden_sets import FLIGHTS
from project.tree import ROOT, load, project_files
from tidelog.cli.main import COMMANDS, cli

PAGES = [path for path in project_files("*.md") if path.parts[0] != "tests" or path.name == "README.md"]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()


def make_targets() -> set[str]:
    text = "".join((ROOT / name).read_text() for name in ("Makefile", "tests/real_kafka/jars.mk"))
    return {name for line in re.findall(r"^([a-z0-9 -]+):", text, flags=re.MULTILINE) for name in line.split()}


def command_parameters(name: str) -> list[click.Parameter]:
    command = cli.get_command(click.Context(cli), name)
    assert command, f"no command {name}"
    return command.params


def code_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall((ROOT / page).read_text())
    local = [target.partition("#")[0] for target in targets if "://" not in target]
    missing = [target for target in local if target and not (ROOT / page.parent / target).exists()]
    assert not missing


def test_every_make_command_in_the_documents_exists() -> None:
    named = {
        (str(page), name)
        for page in PAGES
        for name in re.findall(r"`make ([a-z0-9-]+)`|^make ([a-z0-9-]+)", (ROOT / page).read_text(), flags=re.MULTILINE)
        for name in name
        if name
    }
    assert {name for _, name in named} >= {"demo", "test"}
    assert not {entry for entry in named if entry[1] not in make_targets()}


def test_every_command_and_option_of_the_readme_exists() -> None:
    for line in "".join(code_blocks(README, "bash")).splitlines():
        if line.startswith("tidelog "):
            command, *rest = line.partition("#")[0].split()[1:]
            known = {option for parameter in command_parameters(command) for option in parameter.opts}
            assert {word for word in rest if word.startswith("--")} <= known, line


def test_the_commands_of_the_readme_run(golden_copy: Callable[..., Path]) -> None:
    """The commands run one after another on a killed broker's directory in place of /var/lib/kafka."""
    directory = golden_copy(FLIGHTS, "unclean")
    directory.rename(directory.with_name("kafka"))
    lines = "".join(code_blocks(README, "bash")).replace("/var/lib/", f"{directory.parent}/").splitlines()
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("tidelog ")]
    assert commands[-1][0] == "recover"
    assert commands[-1][-1] == "--apply"
    for command in commands:
        result = CliRunner().invoke(cli, command)
        assert result.exit_code in (0, 1), f"{command}: {result.output}"
        assert result.stdout, command
    assert (directory.with_name("kafka") / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_says_how_it_is_used(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert COMMANDS[name] in " ".join(result.output.split())
    assert "Example" in result.output


def readme_python(number: int, directory: Path, own: Path) -> str:
    """A Python example of the README with its two paths replaced."""
    source = code_blocks(README, "python")[number]
    assert "/var/lib/kafka" in source
    return source.replace("/var/lib/kafka", str(directory)).replace("/tmp/events", str(own))


def test_the_library_example_of_the_readme_runs(
    golden: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(readme_python(0, golden(FLIGHTS), tmp_path), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "flights" in printed
    assert "ORD" in printed
    assert list((tmp_path / "clicks-0").glob("*.log"))


@pytest.mark.spark
def test_the_spark_example_of_the_readme_runs(golden: Callable[..., Path], tmp_path: Path) -> None:
    script = readme_python(1, golden(FLIGHTS), tmp_path)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "partition" in done.stdout


def test_the_file_map_is_the_tree() -> None:
    file_map = load("scripts/file_map.py")
    assert file_map.PAGE.read_text() == file_map.page(), "run `make map`"


def test_every_source_file_says_what_it_is() -> None:
    file_map = load("scripts/file_map.py")
    silent = [
        path
        for path in project_files("src")
        if path.suffix in file_map.SUFFIXES and not file_map.first_sentence(file_map.opening_words(ROOT / path))
    ]
    assert not silent


def test_everything_at_the_top_is_in_the_table() -> None:
    table = ARCHITECTURE.partition("## Around the package")[2].partition("\n## ")[0]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE) for name in re.findall("`(.*?)`", row)
    }
    assert named == {path.parts[0] for path in project_files()}


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [
        project["build-system"]["requires"],
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
    ]
    declared = {re.split(r"[\[<>=!~ ]", line)[0] for group in groups for line in group} - {"tidelog"}
    table = ARCHITECTURE.partition("## Dependencies")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| .*? \| .+ \|$", table, flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall("`(.*?)`", row)} == declared


def test_make_help_lists_every_command() -> None:
    listed = subprocess.run(["make", "--silent", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in ("venv", "test", "lint", "bench", "demo", "soak", "lock", "clean", "kafka-jars"):
        assert f"make {name} " in listed


def test_lock_files_name_no_registry_and_hash_everything() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "://" not in text
        packages = re.findall(r"^\S+==\S+(.*)$", text, flags=re.MULTILINE)
        assert packages
        assert all(rest.endswith("\\") for rest in packages), path


def test_every_file_that_the_architecture_names_exists() -> None:
    """A path may begin at the root, in the package, or leave out the folder that its paragraph already named."""
    known = [path.as_posix() for path in project_files()]
    named = set(re.findall(r"`([\w/]+\.(?:py|pyx|md))`", ARCHITECTURE))
    assert len(named) > 40
    assert not [name for name in named if not any(path.endswith(f"/{name}") or path == name for path in known)]


def test_the_first_pages_are_short() -> None:
    assert len(README.splitlines()) <= 120
    assert len(ARCHITECTURE.splitlines()) <= 420
    assert len((ROOT / "SECURITY.md").read_text().splitlines()) <= 40
