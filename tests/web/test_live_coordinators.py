"""Pages of groups, of transactions and of a comparison while processes write: new enough, and never a failure."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from web.harness import Response, Served, serving

SCRIPT = Path(__file__).with_name("live_coordinators.py")
PATIENCE_S = 60
"""Reports that are made within a second are at most ten seconds old, but machines can be slow."""
Seen = Callable[[Any], object]
ROUNDS = 5


@dataclass(frozen=True)
class Live:
    """The pages of the directories, and the process that writes."""

    served: Served
    process: subprocess.Popen[str]

    def pause(self) -> int:
        """Stop the process after a step. Return the number of steps."""
        self._say()
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def go_on(self) -> None:
        self._say()

    def _say(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@contextmanager
def two_brokers(root: Path) -> Iterator[Live]:
    """Start the process, and serve the pages of its two log directories."""
    paths = [root / "first", root / "second"]
    for number, path in enumerate(paths, 1):
        path.mkdir()
        (path / "meta.properties").write_text(f"version=1\nnode.id={number}\ncluster.id=cluster-of-tests\n")
    command: list[str | Path] = [sys.executable, SCRIPT, *paths]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        serving(paths) as served,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield Live(served, process)
        finally:
            process.stdin.close()


def group_offset(page: Any) -> object:
    return [row["offset"] for row in page["sections"]["offsets"]["rows"]]


def newest_commit(page: Any) -> object:
    return [row["record_offset"] + 1 for row in page["sections"]["groups"]["rows"]]


def newest_producer(page: Any) -> object:
    return [row["producer_id"] for row in page["sections"]["ids"]["rows"]]


def high_watermarks(page: Any) -> object:
    return [mark for row in page["sections"]["partitions"]["rows"] for mark in row["high_watermarks"]]


def log_ends(page: Any) -> object:
    return [row["log_end"] for row in page["sections"]["replicas"]["rows"]]


PAGES: dict[str, tuple[Seen, int]] = {
    "/groups/readers.json": (group_offset, 1),
    "/groups.json": (newest_commit, 1),
    "/transactions.json": (newest_producer, 1),
    "/compare.json": (high_watermarks, 2),
    "/compare/t-0.json": (log_ends, 2),
}
"""A function for each page, which returns numbers of steps that the page shows, and how many they are."""


def shown(response: Response, seen: Seen) -> object:
    """Return the numbers of a page, and nothing if the page is of a state before the first commit."""
    return seen(response.json) if response.status == 200 else None


@pytest.mark.heavy
def test_pages_show_the_newest_state_of_running_processes(tmp_path: Path) -> None:
    with two_brokers(tmp_path) as live:
        for _ in range(ROUNDS):
            for url in PAGES:  # a report of an earlier state is kept
                assert live.served.ready(url).status in (200, 404)
            number = live.pause()
            until = time.monotonic() + PATIENCE_S
            for url, (seen, times) in PAGES.items():
                while (found := shown(live.served.ready(url), seen)) != [number] * times:
                    assert time.monotonic() < until, (url, found, number)
            live.go_on()


@pytest.mark.heavy
def test_pages_do_not_fail_while_files_change(tmp_path: Path) -> None:
    statuses: dict[str, Counter[int]] = {url: Counter() for url in PAGES}
    with two_brokers(tmp_path) as live:
        until = time.monotonic() + 8
        while time.monotonic() < until:
            for url, (seen, times) in PAGES.items():
                response = live.served.ready(url)
                statuses[url][response.status] += 1
                if response.status == 200:
                    found = seen(response.json)
                    assert isinstance(found, list)
                    assert len(found) in (0, times), (url, found)
                    assert not damage_of(response.json), url
        assert live.pause() > 100, "segments were deleted meanwhile"
        live.go_on()
    for url, counts in statuses.items():
        assert set(counts) <= {200, 404, 409}, (url, counts)
        assert counts[200] > 5 * (counts[404] + counts[409]), (url, counts)


def damage_of(page: Any) -> list[object]:
    """Return the records that could not be decoded, the errors of logs, and the differences of equal replicas."""
    sections = page["sections"]
    logs = sections.get("logs", sections.get("coordinators", {})).get("rows", [])
    replicas = sections.get("replicas", {}).get("rows", [])
    found = [row[name] for row in logs for name in ("error", "first_undecoded")]
    found += [one for row in replicas for one in (row["difference"], *row["problems"])]
    return [one for one in found if one is not None]
