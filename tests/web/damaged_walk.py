"""A walk over the pages of a damaged log directory. ``python -m web.damaged_walk SEED`` walks alone.

A seed is a case: it chooses a golden directory, its damage, and some of the links. Every page is requested as HTML and
as JSON. Each request gets a page, or a clear error with status 404, 409 or 422. The first page and those of log
directories are always pages. The directory stays as it is.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from golden_sets import unpack
from tidelog.web import urls
from web.asgi_client import AsgiClient, AsgiResponse, asgi_client
from web.damaged_directory import BASES, Damaged, Golden, damage_directories
from web.inspected import CLOCK
from web.page_reader import read_html
from web.walk import json_url, kind_of, problems_of

EXPECTED = {200, 404, 409, 422}
HANG_SECONDS = 30
"""The longest time of a response, and of a report with all its requests."""
_OF_A_CLUSTER = (
    *("/groups", "/transactions", "/producers", "/retention", "/cleaner", "/metadata", "/metadata/log"),
    *("/findings", "/count", "/compare"),
)
_OF_A_LOG = ("records", "producers", "transactions", "cleaner", "count", "findings")
_PER_KIND = {"/logs/{dir}/{log}/segments/{base}/batches/{position}": 2}
_MOST_LOGS = 2


@dataclass
class Case:
    """``problems`` have a sentence each."""

    seed: int
    base: str
    damaged: Damaged
    pages: int = 0
    statuses: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"seed {self.seed} ({self.base}): {'; '.join(self.damaged.done)}", *self.problems]
        return "\n  ".join([*lines, f"alone: PYTHONPATH=src:tests python -m web.damaged_walk {self.seed}"])


class Walker:
    """``golden`` unpacks a golden directory, whose files are read once."""

    def __init__(self, golden: Callable[[str, str], Path]) -> None:
        self._golden = golden
        self._read: dict[str, Golden] = {}

    def walk(self, seed: int, root: Path) -> Case:
        """Write the damaged directories of a seed below ``root``, and walk over their pages."""
        base = random.Random(seed).choice(list(BASES))
        if base not in self._read:
            set_name, kind, parts = BASES[base]
            self._read[base] = Golden.read(self._golden(set_name, kind), parts)
        case = Case(seed, base, damage_directories(seed, self._read[base], root))
        before = fingerprint(root)
        with errors_logged() as logged, asgi_client(case.damaged.paths, clock=CLOCK, wait_seconds=5) as client:
            _walk(case, client)
        case.problems += [f"it logged: {one}" for one in logged]
        if fingerprint(root) != before:
            case.problems.append("the directory has changed")
        return case


def _walk(case: Case, client: AsgiClient) -> None:
    chance = random.Random(case.seed)
    always = [urls.CLUSTER, *(urls.log_dir_url(str(number)) for number in range(len(case.damaged.paths)))]
    waiting = [*always, *_OF_A_CLUSTER]
    logs = case.damaged.logs()
    for number, name in chance.sample(logs, min(len(logs), _MOST_LOGS)):
        waiting += [urls.log_url(str(number), name), *(urls.log_part_url(str(number), name, one) for one in _OF_A_LOG)]
    visited: dict[str, int] = {}
    given, known = len(waiting), set(waiting)
    while waiting:
        is_link = given <= 0
        url = waiting.pop(0) if not is_link else waiting.pop(chance.randrange(len(waiting)))
        given -= 1
        kind = kind_of(url)[0]
        if is_link and visited.get(kind, 0) >= _PER_KIND.get(kind, 1):
            continue
        visited[kind] = visited.get(kind, 0) + 1
        links = [one for one in _visit(case, client, url, is_always_there=url in always) if one not in known]
        known.update(links)
        waiting += links


def _visit(case: Case, client: AsgiClient, url: str, *, is_always_there: bool) -> list[str]:
    """Get a page and its JSON, note their problems, and return the links to pages without parameters."""
    case.pages += 1
    response = _ready(case, client, url)
    found = _ready(case, client, json_url(url))
    if response.status != 200 or found.status != 200:
        if is_always_there or response.status != found.status:
            case.problems.append(f"{url}: status {response.status}, and {found.status} of the JSON")
        return []
    page = read_html(response.text)
    problems = [*problems_of(page), *page.differences(found.json)]
    case.problems += [f"{url}: {problem}" for problem in problems]
    return [one for one in page.links if one.startswith("/") and not {*"?#"} & {*one} and not one.endswith(".json")]


def _ready(case: Case, client: AsgiClient, url: str) -> AsgiResponse:
    """Return the response when no part of the page waits for a report."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        begun = time.monotonic()
        response = client.get(url)
        took = time.monotonic() - begun
        is_running = response.status == 202 or (response.status == 200 and b" data-reload=" in response.body)
        if not is_running or time.monotonic() > deadline:
            break
    if response.error is not None:
        case.problems.append(f"{url}: the application raised {response.error!r}")
    elif is_running or took > HANG_SECONDS:
        case.problems.append(f"{url}: the report is not ready after {HANG_SECONDS} s")
    elif response.status not in EXPECTED:
        case.problems.append(f"{url}: status {response.status}")
    if b"Traceback" in response.body:
        case.problems.append(f"{url}: a traceback is in the body")
    case.statuses.add(response.status)
    return response


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@contextmanager
def errors_logged() -> Iterator[list[str]]:
    """Yield a list that receives the text of every error that is logged, with its traceback."""
    handler = _Errors()
    logging.getLogger().addHandler(handler)
    try:
        yield handler.texts
    finally:
        logging.getLogger().removeHandler(handler)


def fingerprint(root: Path) -> dict[str, tuple[int, int, int, object]]:
    """Return mode, time and content of every file, directory and link below ``root``. Links are not followed."""
    found: dict[str, tuple[int, int, int, object]] = {}
    for directory, directories, files in os.walk(root):
        for name in (".", *directories, *files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content: object = None
            if stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(Path(path).read_bytes()).digest()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            found[path] = (status.st_mode, status.st_mtime_ns, status.st_size, content)
    return found


def problems_of_seeds(walker: Walker, seeds: Iterable[int], root: Path) -> tuple[list[str], set[int]]:
    """Walk over the directories of all seeds. Return a text for each failing case, and all statuses of responses.

    A directory has the number of its seed, and it is removed after the walk. So it tells the seed of a crash.
    """
    problems, statuses = [], set()
    for seed in seeds:
        path = root / str(seed)
        path.mkdir()
        case = walker.walk(seed, path)
        statuses |= case.statuses
        if case.problems:
            problems.append(str(case))
        shutil.rmtree(path)
    return problems, statuses


def main() -> int:
    """Walk over the directories of the seeds ``FIRST`` or ``FIRST..LAST``, and print the problems."""
    first, _, last = sys.argv[1].partition("..")
    with tempfile.TemporaryDirectory() as unpacked, tempfile.TemporaryDirectory() as root:
        walker = Walker(lambda set_name, kind: unpack(set_name, kind, Path(unpacked, set_name)))
        failing = 0
        for seed in range(int(first), int(last or first) + 1):
            problems, _ = problems_of_seeds(walker, [seed], Path(root))
            failing += len(problems)
            for problem in problems:
                print(problem, flush=True)
    print(f"{failing} failing")
    return int(failing > 0)


if __name__ == "__main__":
    sys.exit(main())
