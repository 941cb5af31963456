"""Record which test executes which line, and choose the tests that can notice a mutation.

This file is a pytest plugin, ``-p mutation_tests --record-tests=DIRECTORY``. It measures each test with coverage.py in
a context of its own, also in xdist's workers. It notes how long each test takes, and leaves out tests that fail.
``ExecutedLines`` reads the plugin's files. Lines that only another process executes do not count.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage, CoverageData
from mutation_operators import Mutation, bound_names

DATA = "lines"
TIMES = "times.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-tests", metavar="DIRECTORY", help="record the lines that each test executes")


def pytest_configure(config: pytest.Config) -> None:
    directory = config.getoption("record_tests", default=None)
    if directory is None:
        return
    worker = hasattr(config, "workerinput")
    if not worker:
        config.pluginmanager.register(TimesRecorder(Path(directory)))
    if worker or not config.getoption("numprocesses", default=None):
        config.pluginmanager.register(LineRecorder(Path(directory)))


class LineRecorder:
    """Measures the lines of each test, in the process that runs it."""

    def __init__(self, directory: Path) -> None:
        self._coverage = Coverage(str(directory / DATA), data_suffix=True, config_file=False, include=["src/*"])
        self._coverage.set_option("run:relative_files", True)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()


class TimesRecorder:
    """Notes the duration of each test that passes, in seconds."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._times: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._times[report.nodeid] = self._times.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        passed = {test: round(seconds, 3) for test, seconds in self._times.items() if test not in self._failed}
        (self._directory / TIMES).write_text(json.dumps(passed, indent=0))


def bound_by_line(source: str) -> dict[int, set[str]]:
    """Return the names that a module's own assignments bind, by the lines of these statements."""
    return {
        number: {name for name in bound_names(node) if name != "__all__"}
        for node in ast.parse(source).body
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


class ExecutedLines:
    """The record of one run of a room's tests."""

    def __init__(self, directory: Path, sources: Mapping[str, str]) -> None:
        """Read a record. ``sources`` has the texts of the source files at the time of the record."""
        self.times: dict[str, float] = json.loads((directory / TIMES).read_text())
        self._sources = sources
        self._data: list[CoverageData] = []
        for path in sorted(directory.glob(f"{DATA}.*")):
            data = CoverageData(str(path))
            data.read()
            self._data.append(data)
        self._lines: dict[str, dict[int, set[str]]] = {}
        self._bound: dict[str, dict[int, set[str]]] = {}

    def tests_for(self, mutation: Mutation) -> list[str]:
        """Return the tests that can notice a mutation, the fastest first."""
        if mutation.run_lines:
            lines = self._tests_by_line(mutation.file)
            found = set[str]().union(*(lines.get(line, ()) for line in mutation.run_lines))
        else:
            found = self._users_of(mutation)
        return sorted(found & self.times.keys(), key=lambda test: (self.times[test], test))

    def _users_of(self, mutation: Mutation) -> set[str]:
        """Return the tests that execute a line with a name that the mutation's statement binds.

        If a constant is defined with one of these names, its users count too. A single test may only have imported
        the module first. Then all tests of the file can notice the mutation.
        """
        found: set[str] = set()
        done: set[str] = set()
        words = set(mutation.words)
        while new := words - done:
            done |= new
            names = re.compile(rf"\b(?:{'|'.join(sorted(new))})\b")
            for file, source in self._sources.items():
                numbers = [number for number, line in enumerate(source.splitlines(), 1) if names.search(line)]
                for number in numbers:
                    found |= self._tests_by_line(file).get(number, set())
                    words |= self._bound_by_line(file).get(number, set())
        return found if len(found) > 1 else set[str]().union(*self._tests_by_line(mutation.file).values())

    def _bound_by_line(self, file: str) -> dict[int, set[str]]:
        if file not in self._bound:
            self._bound[file] = bound_by_line(self._sources[file])
        return self._bound[file]

    def _tests_by_line(self, file: str) -> dict[int, set[str]]:
        if file not in self._lines:
            lines: dict[int, set[str]] = {}
            for data in self._data:
                contexts: dict[int, list[Any]] = data.contexts_by_lineno(file)
                for line, tests in contexts.items():
                    lines.setdefault(line, set()).update(test for test in tests if test)
            self._lines[file] = lines
        return self._lines[file]
