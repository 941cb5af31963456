"""Runs of ``kafka-dump-log`` in one JVM, because a JVM of its own costs a run most of its time."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from real_kafka.java import DUMP_LOG_SEGMENTS, OLDER, OLDER_DUMP_LOG_SEGMENTS, TOOLS, java_command
from tidelog.inspect.dump import ToolRelease

MAIN_CLASSES = {ToolRelease.KAFKA_4_2: OLDER_DUMP_LOG_SEGMENTS, ToolRelease.KAFKA_4_3: DUMP_LOG_SEGMENTS}
RELEASES = {ToolRelease.KAFKA_4_2: OLDER[0], ToolRelease.KAFKA_4_3: TOOLS}


class DumpRun(NamedTuple):
    code: int
    stdout: bytes
    stderr: bytes


class DumpRuns:
    """A JVM with the tool of ``release``. It starts with the first run.

    The tool prints paths as they are given, and those of the cases are relative. So each run gets its files in
    ``directory``, the working directory of the JVM.
    """

    def __init__(self, release: ToolRelease, work: Path) -> None:
        self.directory = work / "run"
        self._release = release
        self._log = work / "dumps.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> DumpRuns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def dump(self, source: Path, switches: Sequence[str], files: Sequence[str]) -> DumpRun:
        """Run the tool on ``files`` of the directory ``source``, named relative to it."""
        process = self._running()
        for path in self.directory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(source, self.directory, dirs_exist_ok=True)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join([*switches, "--files", ",".join(files)]).encode() + b"\n")
        process.stdin.flush()
        header = process.stdout.readline()
        assert header, f"the JVM has ended:\n{self._log.read_text(errors='replace')[-2000:]}"
        code, out, err = map(int, header.split())
        return DumpRun(code, process.stdout.read(out), process.stdout.read(err))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self.directory.mkdir()
            command = java_command("DumpRuns", MAIN_CLASSES[self._release], release=RELEASES[self._release])
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    command, cwd=self.directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
                )
        return self._process
