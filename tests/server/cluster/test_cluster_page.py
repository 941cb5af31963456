"""docs/cluster.md: a shell runs the walk-through's commands, and they print the outputs of the page."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from project.tree import ROOT

PAGE = (ROOT / "docs" / "cluster.md").read_text()
WALK = PAGE.partition("## From nothing to a killed leader\n")[2].partition("\n## ")[0]
PATIENCE_S = 60
PORTS = "909"
"""The first digits of the page's ports. The last one is 0 for the controller, and else a broker's number."""
REPEATABLE = ("replicas\n", "grep")
"""Commands that only read: they are repeated until the cluster has come as far as the page says."""
_END = "end of the output"


class Shell:
    """A shell in the directory of the walk-through. Leaving the context ends it, and the processes that it started."""

    def __init__(self, directory: Path) -> None:
        programs = directory / "programs"
        programs.mkdir()
        for name, words in (("tidelog", [sys.executable, "-m", "tidelog"]), ("python", [sys.executable])):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            program.chmod(0o755)
        self._directory = directory
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.run(f"PATH={shlex.quote(str(programs))}:$PATH COLUMNS=160")

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self.run("kill -9 $(jobs -p)")
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(PATIENCE_S)

    def run(self, command: str) -> str:
        """Return the output. The shell's own lines about killed processes are left out."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{command}\necho; echo {_END}\n")
        self._shell.stdin.flush()
        lines = []
        for line in self._shell.stdout:
            if line.rstrip("\n") == _END:
                break
            lines.append(line)
        output = "".join(lines)[:-1]
        return re.sub(r"^bash: line \d+: +\d+ Killed .*\n", "", output, flags=re.MULTILINE)


def free_ports() -> str:
    """Return the first digits of ten free ports, of which the first four are used."""
    for prefix in range(2001, 3200):
        with ExitStack() as stack:
            try:
                for last in range(4):
                    stack.enter_context(socket.create_server(("127.0.0.1", prefix * 10 + last)))
            except OSError:
                continue
            return str(prefix)
    raise AssertionError("no ports are free")


def steps(page: str) -> Iterator[tuple[str, str]]:
    """Yield the commands with the outputs that the page shows. A file is a command that writes it."""
    blocks = re.compile(r"^(?:`(?P<file>[\w.]+)`:\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
    for block in blocks.finditer(page):
        if block["file"]:
            yield f"cat > {block['file']} <<'END'\n{block['text']}END", ""
        elif block["kind"] == "text":
            first, *parts = re.split(r"^\$ ", block["text"], flags=re.MULTILINE)
            assert not first, "a block begins with a command"
            for part in parts:
                command, _, output = part.partition("\n")
                yield command, output


def pattern_of(output: str) -> re.Pattern[str]:
    """Return the pattern of an output in which ``…`` stands for any text of a line."""
    return re.compile(".*?".join(map(re.escape, output.split("…"))))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_walk_through(tmp_path: Path) -> None:
    ports = free_ports()
    with Shell(tmp_path) as shell:
        for command, output in steps(WALK.replace(PORTS, ports)):
            wanted, deadline = pattern_of(output), time.monotonic() + PATIENCE_S
            found = shell.run(command)
            while not wanted.fullmatch(found) and f"{command}\n".startswith(REPEATABLE) and time.monotonic() < deadline:
                time.sleep(0.2)
                found = shell.run(command)
            logs = "\n".join(f"--- {path.name}\n{path.read_text()[-1500:]}" for path in tmp_path.glob("*.log"))
            assert wanted.fullmatch(found), f"$ {command}\n{found}\n--- instead of\n{output}\n{logs}"
