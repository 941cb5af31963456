"""Break the code in many small random ways, and count how many of them the tests of the room find.

``python scripts/mutation.py`` (``make mutation``) chooses ``--count`` mutations of each room by a seed
(``mutation_operators.py`` has the operators). It runs the room's quick tests once to record which test executes which
line (``mutation_tests.py``). Then it applies one mutation at a time to a copy of the tree, and runs the tests that
execute the edited line, the fastest first, until one fails.

============  =========================================================================================================
fate          meaning
============  =========================================================================================================
killed        a test fails, or the tests can no longer be imported
timeout       the tests exceed ten times their duration; counts as killed
survived      all tests pass
uncovered     no test executes the line; counts as survived
equivalent    survived, and ``tests/mutation/equivalent.toml`` says why no test can notice it; does not count
============  =========================================================================================================

Each fate is one line of JSON in ``.cache/mutation/SEED.jsonl``. A second run continues the first: it skips the
mutations that have a line. With ``--again`` it tries the survivors again. ``--report`` only prints the score.

A mutation is known by its file, function and text, and its rank is a hash of these with the seed. So an edit elsewhere
in the file changes neither the choice nor the results.
"""

from __future__ import annotations

import argparse
import enum
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mutation_operators import Mutation, find_mutations
from mutation_tests import TIMES, ExecutedLines

from mutants import ROOT, MutantError, TreeCopy, in_free_copies

SCRIPTS = Path(__file__).resolve().parent
HOME = ROOT / ".cache" / "mutation"
EQUIVALENT = ROOT / "tests" / "mutation" / "equivalent.toml"
ROOMS = {
    "record": ("tests/record", "tests/kernel"),
    "replication": ("tests/replication",),
    "storage": ("tests/storage", "tests/crash"),
    "server/groups": ("tests/server/groups",),
    "server/metadata": ("tests/server/metadata", "tests/server/topics"),
    "server/transactions": ("tests/server/transactions",),
}
"""The folders of a room's tests, by the room's folder in src/tidelog."""
QUICK = "not slow and not kafka and not spark and not heavy"
FIRST_TESTS = 40
FIRST_SECONDS = 4.0
"""The size of the first run of tests: collecting the tests of many files takes longer than running a few."""
PATIENCE_SECONDS = 60.0
PATIENCE_FACTOR = 10
OPTIONS = ("-q", "-n0", "-m", QUICK, "-p", "no:cacheprovider", "--tb=no", "--no-header", "-rfE", "--hypothesis-seed=0")
FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+)$", re.MULTILINE)


class Fate(enum.StrEnum):
    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"
    UNCOVERED = "uncovered"


NOTICED = (Fate.KILLED, Fate.TIMEOUT)


class Trial(NamedTuple):
    """A mutation and the tests that can notice it, the fastest first."""

    room: str
    mutation: Mutation
    tests: list[str]
    seconds: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A line of the results."""

    room: str
    key: str
    fate: Fate
    line: int
    test: str = ""
    """The test that failed, if it is known."""
    tests: int = 0
    seconds: float = 0.0

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


class Results:
    """The file with the outcomes. A later line about a mutation replaces an earlier one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        outcomes = [Outcome(**fields | {"fate": Fate(fields["fate"])}) for fields in map(json.loads, lines)]
        self.by_key = {outcome.key: outcome for outcome in outcomes}

    def add(self, outcome: Outcome) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(outcome.to_json() + "\n")
        self.by_key[outcome.key] = outcome

    def drop(self, keys: Iterable[str]) -> None:
        """Forget outcomes that prove nothing."""
        for key in keys:
            del self.by_key[key]
        self._path.write_text("".join(outcome.to_json() + "\n" for outcome in self.by_key.values()))


def read_sources(root: Path) -> dict[str, str]:
    """Return the text of each Python file of the package, by its path from the root."""
    return {str(path.relative_to(root)): path.read_text() for path in sorted((root / "src").rglob("*.py"))}


def choose(sources: dict[str, str], room: str, *, seed: int, count: int) -> list[Mutation]:
    """Return the first ``count`` mutations of a room, in the order of their hashes with the seed."""
    inside = f"src/tidelog/{room}/"
    found = [one for file, text in sources.items() if file.startswith(inside) for one in find_mutations(file, text)]
    ranked = sorted(found, key=lambda one: hashlib.sha256(f"{seed}|{one.key}".encode()).digest())
    chosen: list[Mutation] = []
    for mutation in ranked:
        if len(chosen) == count:
            break
        if mutation.is_program(sources[mutation.file]):
            chosen.append(mutation)
    return chosen


def read_equivalent(path: Path = EQUIVALENT) -> dict[tuple[str, str, str, str], str]:
    """Return the reasons of the mutations that no test can notice, by file, function and text before and after."""
    entries = tomllib.loads(path.read_text()).get("equivalent", []) if path.exists() else []
    return {(one["file"], one["function"], one["before"], one["after"]): one["reason"] for one in entries}


def identity(mutation: Mutation) -> tuple[str, str, str, str]:
    """Return the values that identify a mutation in ``equivalent.toml``."""
    return mutation.file, mutation.function, mutation.before, mutation.after


def record_of(room: str, copy: TreeCopy, sources: dict[str, str], jobs: int) -> ExecutedLines:
    """Return which test of a room executes which line. Run the tests unless a record of the same files exists."""
    digest = hashlib.sha256()
    files = [path for folder in (*ROOMS[room], "src/tidelog") for path in sorted((copy.root / folder).rglob("*.py"))]
    for path in files:
        digest.update(f"{path.relative_to(copy.root)}\0{path.read_text()}\0".encode())
    directory = HOME / f"{room.replace('/', '-')}-{digest.hexdigest()[:12]}"
    if not (directory / TIMES).exists():
        directory.mkdir(parents=True, exist_ok=True)
        for left in directory.iterdir():
            left.unlink()
        print(f"{room}: recording the lines of each test", flush=True)
        plugin = ("-p", "mutation_tests", f"--record-tests={directory}")
        parallel = ("-n", str(jobs), "--dist", "loadfile")
        done = copy.python("-m", "pytest", *OPTIONS, *parallel, *plugin, *ROOMS[room], check=False, path=[SCRIPTS])
        if not (directory / TIMES).exists():
            raise MutantError(f"the tests of {room} cannot be run: {done.stdout}{done.stderr}")
    return ExecutedLines(directory, sources)


def stages(trial: Trial) -> Iterator[tuple[list[str], float]]:
    """Yield the tests of each run, with their duration in seconds: a few fast ones, then the others."""
    count, total = 0, 0.0
    while count < min(len(trial.tests), FIRST_TESTS) and (not count or total + trial.seconds[count] <= FIRST_SECONDS):
        total += trial.seconds[count]
        count += 1
    for part, seconds in ((trial.tests[:count], total), (trial.tests[count:], sum(trial.seconds[count:]))):
        if part:
            yield part, seconds


def run_tests(copy: TreeCopy, tests: Sequence[str], *options: str, seconds: float | None = None) -> tuple[int, str]:
    """Run tests in a copy. Return pytest's exit code and its output."""
    listed = copy.root.parent / "tests.txt"
    listed.write_text("".join(f"{test}\n" for test in tests))
    base = f"--basetemp={copy.root.parent / 'tmp'}"
    done = copy.python("-m", "pytest", *OPTIONS, *options, base, f"@{listed}", check=False, seconds=seconds)
    return done.returncode, done.stdout


def require_tests(copy: TreeCopy, tests: Sequence[str]) -> None:
    """Raise MutantError if tests do not run in a copy without a mutation."""
    code, output = run_tests(copy, tests)
    if code > 1:
        raise MutantError(f"pytest cannot run {tests[0]}: {output}")


def failed_tests(output: str, tests: Iterable[str]) -> list[str]:
    """Return the tests that pytest's summary lists."""
    known = set(tests)
    lines = FAILURE.findall(output)
    return [found for line in lines if (found := line if line in known else line.partition(" - ")[0]) in known]


def try_mutation(copy: TreeCopy, trial: Trial) -> Outcome:
    """Apply a mutation to a copy, run its tests until one fails, and return the outcome."""
    begun = time.monotonic()
    fate, killer, tried = Fate.SURVIVED if trial.tests else Fate.UNCOVERED, "", 0
    for tests, seconds in stages(trial):
        tried += len(tests)
        try:
            with copy.with_mutant(trial.mutation):
                code, output = run_tests(copy, tests, "-x", seconds=PATIENCE_SECONDS + PATIENCE_FACTOR * seconds)
        except subprocess.TimeoutExpired:
            fate = Fate.TIMEOUT
            break
        if code:
            fate, killer = Fate.KILLED, next(iter(failed_tests(output, tests)), "")
            if not killer:
                require_tests(copy, tests[:1])
            break
    mutation, spent = trial.mutation, round(time.monotonic() - begun, 1)
    return Outcome(
        room=trial.room, key=mutation.key, fate=fate, line=mutation.line, test=killer, tests=tried, seconds=spent
    )


def unproved(copy: TreeCopy, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the keys of the mutations whose killing test also fails without them."""
    killers = sorted({outcome.test for outcome in outcomes if outcome.test})
    if not killers:
        return []
    failing = set(failed_tests(run_tests(copy, killers)[1], killers))
    return [outcome.key for outcome in outcomes if outcome.test in failing]


def run_room(room: str, mutations: Sequence[Mutation], results: Results, copies: Sequence[TreeCopy]) -> None:
    """Try the mutations of a room, and add their outcomes to the results."""
    record = record_of(room, copies[0], read_sources(copies[0].root), len(copies))
    trials = []
    for mutation in mutations:
        tests = record.tests_for(mutation)
        trials.append(Trial(room, mutation, tests, [record.times[test] for test in tests]))
    new = []
    for outcome in in_free_copies(copies, trials, try_mutation):
        results.add(outcome)
        new.append(outcome)
        if outcome.fate not in NOTICED:
            print(f"{outcome.fate:<10}{outcome.key}  {outcome.tests} tests, {outcome.seconds} s", flush=True)
    dropped = unproved(copies[0], new)
    if dropped:
        print(f"{room}: {len(dropped)} outcomes are dropped, because their test also fails without the mutation")
        results.drop(dropped)


class Score(NamedTuple):
    """The counts of a room."""

    tried: int
    killed: int
    timeout: int
    survived: int
    uncovered: int
    equivalent: int

    @property
    def percent(self) -> float:
        """The share of noticed mutations, without the equivalent ones."""
        valid = self.tried - self.equivalent
        return 100 * (self.killed + self.timeout) / valid if valid else 100.0


def score(chosen: Sequence[Mutation], results: Results, equivalent: Iterable[tuple[str, str, str, str]]) -> Score:
    """Count the fates of the chosen mutations that have been tried."""
    known, fates = set(equivalent), Counter[str]()
    for mutation in chosen:
        outcome = results.by_key.get(mutation.key)
        if outcome is not None:
            same = outcome.fate not in NOTICED and identity(mutation) in known
            fates["equivalent" if same else outcome.fate] += 1
    return Score(fates.total(), *(fates[name] for name in Score._fields[1:]))


def print_report(chosen: dict[str, list[Mutation]], results: Results) -> None:
    """Print the survivors, and a table with a row for each room."""
    equivalent = read_equivalent()
    for mutation in (one for mutations in chosen.values() for one in mutations):
        outcome = results.by_key.get(mutation.key)
        if outcome and outcome.fate not in NOTICED and identity(mutation) not in equivalent:
            print(f"{outcome.fate}: {mutation.file}:{mutation.line} {mutation.function} ({mutation.operator})")
            print(f"    - {mutation.before}\n    + {mutation.after}")
    print("| room | " + " | ".join(Score._fields) + " | score |\n|---|" + "---:|" * (len(Score._fields) + 1))
    for room, mutations in chosen.items():
        counts = score(mutations, results, equivalent)
        print(f"| `{room}` | " + " | ".join(map(str, counts)) + f" | {counts.percent:.1f} % |")


def main() -> int:
    parser = argparse.ArgumentParser(description="Apply random mutations, and count how many the tests find.")
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--rooms", default=",".join(ROOMS), help="rooms, joined with commas; default: all")
    parser.add_argument("--count", type=int, default=120, help="mutations of each room (default 120)")
    parser.add_argument("--jobs", type=int, default=2, help="mutations at a time (default 2)")
    parser.add_argument("--again", action="store_true", help="try the mutations that survived again")
    parser.add_argument("--report", action="store_true", help="only print the score")
    options = parser.parse_args()
    rooms = options.rooms.split(",")
    unknown = sorted(set(rooms) - set(ROOMS))
    if unknown:
        parser.error(f"no such room: {', '.join(unknown)}")
    results = Results(HOME / f"{options.seed}.jsonl")
    sources = read_sources(ROOT)
    chosen = {room: choose(sources, room, seed=options.seed, count=options.count) for room in rooms}
    if not options.report:
        done = {key for key, outcome in results.by_key.items() if outcome.fate in NOTICED or not options.again}
        done |= {one.key for found in chosen.values() for one in found if identity(one) in read_equivalent()} & set(
            results.by_key
        )
        with tempfile.TemporaryDirectory(prefix="tidelog-mutation-") as home:
            copies = [TreeCopy(Path(home, str(number))) for number in range(max(1, options.jobs))]
            copies[0].require_own_code()
            for room, mutations in chosen.items():
                left = [one for one in mutations if one.key not in done]
                if left:
                    run_room(room, left, results, copies)
    print_report(chosen, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
