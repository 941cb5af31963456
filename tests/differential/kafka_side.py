"""Kafka's side: a JVM (DriveLog.java) that runs one list after the other, and another JVM that dumps files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from differential.operations import Scenario, line
from real_kafka.java import java_command
from real_kafka.kafka_tools import KafkaTools

_END = "."


class KafkaSide:
    """The JVM of Kafka's side, which ends when the context exits."""

    def __init__(self) -> None:
        # The log messages of refused appends are expected. A failing driver is noticed, because its stdout ends early.
        command = java_command("DriveLog", heap_mib=512, log_level="off")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        self._tools: KafkaTools | None = None

    def run(self, scenario: Scenario, directory: Path) -> list[str]:
        """Return the result of each operation. The files stay in ``directory``, named topic-partition."""
        settings = [f"{key}={value}" for key, value in scenario.settings]
        first = ("create", directory, scenario.now_ms, *settings)
        last = ("close" if scenario.ends_cleanly else "kill",)
        file = directory.with_suffix(".operations")
        words = [first, *(operation.words() for operation in scenario.operations), last]
        file.write_text("".join(line(one) + "\n" for one in words))
        return self._ask(file)

    def dump(self, files: Iterable[Path], *switches: str) -> list[str]:
        """Return the lines of ``kafka-dump-log``."""
        if self._tools is None:
            self._tools = KafkaTools("").__enter__()
        return self._tools.run("kafka-dump-log", "--files", ",".join(map(str, files)), *switches).out.splitlines()

    def _ask(self, operations: Path) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{operations}\n")
        self._process.stdin.flush()
        answer: list[str] = []
        for text in self._process.stdout:
            if text == _END + "\n":
                return answer
            answer.append(text.removesuffix("\n"))
        raise AssertionError(f"the JVM ended after {answer[-3:]}")

    def close(self) -> None:
        if self._tools is not None:
            self._tools.__exit__()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
