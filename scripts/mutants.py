"""Break the code on purpose, one rule at a time, and show that a test of that rule fails.

``python scripts/mutants.py`` (``make mutants``) takes every mutant of ``tests/mutants/*.toml``, or only the named
mutants. A mutant is a table with the name of the mistake:

=============  ====================================================================================================
key            value
=============  ====================================================================================================
``rule``       the rule that the mutant breaks, as a sentence
``rows``       the rows of docs/parity.md that state the rule (optional)
``file``       the source file, from the root of the project
``find``       the text to replace; it occurs exactly once in the file
``replace``    the wrong text
``tests``      the tests that must fail, as pytest names them, without parameters
=============  ====================================================================================================

The tree is copied once for each process, and the named tests must pass in the copy. Then each mutant is applied to a
copy, its tests run, and the file is restored. A mutant is *killed* if each of its tests fails by an assertion of the
test (at least for one parameter set). It *lived* if one of its tests passes. It is *unclear* if a test cannot be
imported, hangs, or ends with an error instead of an assertion, which proves nothing about the rule. The last line
reports how many were killed. The exit code is 1 unless all were.

The project's tree is only read. ``read_mutants``, ``TreeCopy`` and ``judge`` do not depend on the command line;
``scripts/mutation.py`` uses ``TreeCopy`` too.
"""

from __future__ import annotations

import argparse
import enum
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, Protocol, TypeVar
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "tests" / "mutants"
LINKED = (".venv", ".cache")
LEFT_OUT = (".git", ".venv*", ".cache", ".*_cache", ".hypothesis", "__pycache__", "build", "dist")
KERNEL_SUFFIXES = {".pyx", ".pxd", ".c", ".h"}
JAVA_SUFFIX = ".java"
HANG_SECONDS = 600
"""The time limit of a test. A test that exceeds it hangs."""
ASSERTION = re.compile(r"assert |AssertionError|Failed: (?!Timeout)")
"""The beginning of a failure's message if an assertion, ``pytest.raises`` or ``pytest.fail`` of the test made it."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Edit(Protocol):
    """A wrong edit of a file."""

    @property
    def file(self) -> str:
        """The path of the file, from the root of the project."""

    def apply_to(self, text: str) -> str:
        """Return the text of the file with the edit."""


class MutantError(Exception):
    """A mutant does not fit the tree."""


class Mutant(NamedTuple):
    name: str
    rule: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    rows: tuple[str, ...] = ()

    def apply_to(self, text: str) -> str:
        """Return ``text`` with the mistake. Raise MutantError unless the text to replace occurs exactly once."""
        count = text.count(self.find)
        if count != 1:
            raise MutantError(f"{self.name}: the text to replace occurs {count} times in {self.file}, not once")
        return text.replace(self.find, self.replace)


class Fate(enum.StrEnum):
    KILLED = "killed"
    LIVED = "LIVED"
    UNCLEAR = "UNCLEAR"


class Verdict(NamedTuple):
    fate: Fate
    reason: str
    """The tests that failed, or the reason why the mutant does not count as killed, for people."""


class Outcome(enum.Enum):
    """The outcome of one case of a test."""

    PASSED = enum.auto()
    ASSERTION = enum.auto()
    ERROR = enum.auto()


Outcomes = Mapping[str, Collection[Outcome]]
"""The outcomes of each test's cases, by the test's pytest name without parameters."""


def read_mutants(directory: Path = TABLES) -> list[Mutant]:
    """Read the mutants of all tables. Raise MutantError if a name occurs twice."""
    mutants: dict[str, Mutant] = {}
    for path in sorted(directory.glob("*.toml")):
        for name, fields in tomllib.loads(path.read_text()).items():
            if name in mutants:
                raise MutantError(f"{path.name}: there is another mutant named {name}")
            tests, rows = tuple(fields.pop("tests")), tuple(fields.pop("rows", ()))
            mutants[name] = Mutant(name=name, tests=tests, rows=rows, **fields)
    return list(mutants.values())


class TreeCopy:
    """A private copy of the project, in which one mutant at a time is applied. The owner of ``home`` removes it."""

    def __init__(self, home: Path, root: Path = ROOT) -> None:
        """Copy ``root`` into the empty directory ``home``. Environment and caches are linked."""
        self._home = home
        self.root = home / "tree"
        shutil.copytree(root, self.root, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        for name in LINKED:
            if (root / name).exists():
                (self.root / name).symlink_to((root / name).resolve())

    @contextmanager
    def with_mutant(self, mutant: Edit) -> Iterator[None]:
        """Apply a mutant, and restore the file at the end. Raise MutantError if it does not fit."""
        path = self.root / mutant.file
        original = path.read_text()
        try:
            self._write(path, mutant.apply_to(original))
            yield
        finally:
            self._write(path, original)

    def run(self, tests: Iterable[str]) -> Outcomes:
        """Run tests in the copy, and return their outcomes."""
        named = list(dict.fromkeys(tests))
        report = self._home / "report.xml"
        report.unlink(missing_ok=True)
        options = ["-q", "-m", "", "-p", "no:cacheprovider", "-o", f"timeout={HANG_SECONDS}"]
        places = [f"--junitxml={report}", f"--basetemp={self._home / 'tmp'}"]
        self.python("-m", "pytest", *options, *places, *named, check=False)
        return read_report(report, named)

    def require_own_code(self) -> None:
        """Raise MutantError if the tests would import the code of another tree."""
        found = self.python("-c", "import tidelog; print(tidelog.__file__)").stdout.strip()
        if not Path(found).is_relative_to(self.root):
            raise MutantError(f"the tests would run {found} instead of the copy in {self.root}")

    def _write(self, path: Path, text: str) -> None:
        """Write a source file, and remove or rebuild the compiled forms of the text before."""
        if path.read_text() == text:
            return
        path.write_text(text)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
        if path.suffix in KERNEL_SUFFIXES:
            self.python("setup.py", "--quiet", "build_ext", "--inplace")
        if path.suffix == JAVA_SUFFIX:
            self.python("scripts/spark_jar.py")

    def python(
        self, *arguments: str, check: bool = True, seconds: float | None = None, path: Sequence[Path] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run the copy's Python; ``path`` is searched for modules too.

        If the run exceeds the limit in seconds, kill it with its children and raise TimeoutExpired. Raise
        CalledProcessError if ``check`` is true and the exit code is not 0.
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        places = os.pathsep.join(str(one) for one in (self.root / "src", *path))
        environment = kept | {"PYTHONPATH": places}  # before an editable install of another tree
        command = [sys.executable, *arguments]
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        if check and process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, output, errors)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)


def read_report(report: Path, tests: Sequence[str]) -> Outcomes:
    """Read the outcomes of ``tests`` from pytest's report in JUnit's format. Tests that did not run have none."""
    outcomes: dict[str, list[Outcome]] = {test: [] for test in tests}
    by_case = {_case_name(test): test for test in tests}
    cases = ElementTree.parse(report).iter("testcase") if report.exists() else ()
    for case in cases:
        test = by_case.get((case.get("classname", ""), case.get("name", "").partition("[")[0]))
        if test is not None:
            outcomes[test].append(_outcome(case))
    return outcomes


def _case_name(test: str) -> tuple[str, str]:
    """Return the class and name of a test in a report in JUnit's format."""
    path, *parts = test.split("::")
    return ".".join([*Path(path).with_suffix("").parts, *parts[:-1]]), parts[-1]


def _outcome(case: ElementTree.Element) -> Outcome:
    failure = case.find("failure")
    if failure is not None and ASSERTION.match(failure.get("message", "")):
        return Outcome.ASSERTION
    return Outcome.PASSED if not len(case) else Outcome.ERROR


def judge(mutant: Mutant, outcomes: Outcomes) -> Verdict:
    """Judge a mutant by the outcomes of its tests while it was applied."""
    if not mutant.tests:
        return Verdict(Fate.LIVED, "no test is named")
    for test in mutant.tests:
        found = outcomes[test]
        if Outcome.ASSERTION in found:
            continue
        if not found:
            return Verdict(Fate.UNCLEAR, f"{test} did not run")
        if Outcome.ERROR in found:
            return Verdict(Fate.UNCLEAR, f"{test} ends with an error or hangs; no assertion of it fails")
        return Verdict(Fate.LIVED, f"{test} passes")
    return Verdict(Fate.KILLED, ", ".join(mutant.tests))


def failing_before(copies: Sequence[TreeCopy], mutants: Iterable[Mutant]) -> list[str]:
    """Run the tests of all mutants in copies without a mutant. Return the tests that do not pass, sorted."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    shares = [tests[number :: len(copies)] for number in range(len(copies))]
    failing = []
    with ThreadPoolExecutor(len(copies)) as pool:
        for outcomes in pool.map(lambda copy, share: copy.run(share) if share else {}, copies, shares):
            failing += [test for test, found in outcomes.items() if not found or set(found) != {Outcome.PASSED}]
    return sorted(failing)


def in_free_copies(
    copies: Sequence[TreeCopy], items: Iterable[Item], work: Callable[[TreeCopy, Item], Result]
) -> Iterator[Result]:
    """Do the work for each item with a copy that no other item uses. Yield the results in the items' order."""
    free: SimpleQueue[TreeCopy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(item: Item) -> Result:
        copy = free.get()
        try:
            return work(copy, item)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        try:
            yield from pool.map(one, items)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def try_mutant(copy: TreeCopy, mutant: Mutant) -> tuple[Mutant, Verdict, float]:
    """Apply a mutant to a copy, and run its tests. Return its verdict and the duration in seconds."""
    begun = time.monotonic()
    try:
        with copy.with_mutant(mutant):
            verdict = judge(mutant, copy.run(mutant.tests) if mutant.tests else {})
    except MutantError as error:
        verdict = Verdict(Fate.UNCLEAR, str(error))
    return mutant, verdict, time.monotonic() - begun


def try_mutants(copies: Sequence[TreeCopy], mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, Verdict, float]]:
    """Apply each mutant to a free copy. Yield its verdict and duration in seconds, in the mutants' order."""
    return in_free_copies(copies, mutants, try_mutant)


def run_all(mutants: Sequence[Mutant], jobs: int) -> int:
    """Try the mutants in copies of the tree, and print a line for each. Return how many were killed."""
    begun, killed = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="tidelog-mutants-") as home:
        copies = [TreeCopy(Path(home, str(number))) for number in range(max(1, min(jobs, len(mutants))))]
        copies[0].require_own_code()
        failing = failing_before(copies, mutants)
        for test in failing:
            print(f"{test} fails without any mutant")
        sound = [mutant for mutant in mutants if not set(mutant.tests) & set(failing)]
        for mutant, verdict, seconds in try_mutants(copies, sound):
            print(f"{verdict.fate:<8}{mutant.name}  {verdict.reason}  {seconds:.1f} s", flush=True)
            killed += verdict.fate is Fate.KILLED
    print(f"{killed} of {len(mutants)} killed in {time.monotonic() - begun:.0f} s")
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(description="Apply mutants to copies of the tree, and show the tests that fail.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="some mutants; default: all")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options = parser.parse_args()
    known = {mutant.name: mutant for mutant in read_mutants()}
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"no such mutant: {', '.join(unknown)}")
    chosen = [known[name] for name in options.names] or list(known.values())
    return 0 if run_all(chosen, options.jobs) == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
