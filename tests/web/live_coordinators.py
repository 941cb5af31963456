"""A substitute for two running brokers, for tests of readers: run as ``live_coordinators.py DIRECTORY DIRECTORY``.

It holds the locks of both log directories. The first one has ``__consumer_offsets-0`` and ``__transaction_state-0``,
and both have a replica of ``t-0``. Each step commits an offset of the group ``readers``, begins or ends a transaction
of ``app``, and appends to ``t-0``, all in torn writes. The logs of the coordinators roll, and old segments are deleted.
The step ends with new checkpoints of high watermarks.

It prints ``ready``. For each line of its standard input it stops after a step, prints the number of steps, and goes on
with the next line. The end of the input ends it.
"""

from __future__ import annotations

import fcntl
import random
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from coordinator_maker import COMPLETE_COMMIT, ONGOING, State, state_record
from group_maker import commit, record_batch
from log_maker import BASE_TIME, plain, write_segment

SEGMENT_BATCHES, SEGMENTS = 25, 3
KINDS = (".log", ".index", ".timeindex")


class LiveLog:
    """A log that grows by a batch at a time. With ``segments`` it keeps as many, and deletes older ones."""

    def __init__(self, directory: Path, *, segments: int | None = None) -> None:
        self._directory = directory
        self._segments = segments
        self._bases: list[int] = []
        self._batches = 0
        self.end = 0
        self._roll()

    def append(self, content: bytes, count: int, chance: random.Random) -> None:
        if self._batches == SEGMENT_BATCHES:
            self._roll()
        at = 0
        with self._file(self._bases[-1], ".log").open("ab", buffering=0) as file:
            while at < len(content):
                size = chance.randint(1, len(content))
                file.write(content[at : at + size])
                at += size
        self.end += count
        self._batches += 1

    def _roll(self) -> None:
        write_segment(self._directory, self.end, [])
        self._bases.append(self.end)
        self._batches = 0
        if self._segments is not None and len(self._bases) > self._segments:
            base = self._bases.pop(0)
            for kind in KINDS:
                self._file(base, kind).rename(self._file(base, kind + ".deleted"))
            for kind in KINDS:
                self._file(base, kind + ".deleted").unlink()

    def _file(self, base: int, kind: str) -> Path:
        return self._directory / f"{base:020d}{kind}"


def steps(first: Path, second: Path) -> Callable[[int], None]:
    """Return a function that makes a step. It gets the number of the step, from 1."""
    chance = random.Random(1)
    groups = LiveLog(first / "__consumer_offsets-0", segments=SEGMENTS)
    states = LiveLog(first / "__transaction_state-0", segments=SEGMENTS)
    replicas = [LiveLog(path / "t-0") for path in (first, second)]

    def step(number: int) -> None:
        for replica in replicas:
            replica.append(plain(replica.end, 1), 1, chance)
        groups.append(record_batch(groups.end, commit("readers", number)), 1, chance)
        status = ONGOING if number % 2 else COMPLETE_COMMIT
        state = State(number, status, (0,) if number % 2 else (), started=BASE_TIME + number)
        states.append(state_record(states.end, state), 1, chance)
        write_high_watermarks(first, {"__consumer_offsets": groups, "__transaction_state": states, "t": replicas[0]})
        write_high_watermarks(second, {"t": replicas[1]})

    return step


def write_high_watermarks(path: Path, logs: dict[str, LiveLog]) -> None:
    new = path / "replication-offset-checkpoint.tmp"
    new.write_text(f"0\n{len(logs)}\n" + "".join(f"{topic} 0 {log.end}\n" for topic, log in logs.items()))
    new.rename(path / "replication-offset-checkpoint")


def main() -> None:
    first, second = (Path(path) for path in sys.argv[1:])
    with (first / ".lock").open("w") as lock, (second / ".lock").open("w") as other:
        for file in (lock, other):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        step, number = steps(first, second), 0
        print("ready", flush=True)
        while True:
            number += 1
            step(number)
            if select.select([sys.stdin], [], [], 0.002)[0]:
                if not sys.stdin.readline():
                    return
                print(number, flush=True)
                if not sys.stdin.readline():
                    return
            time.sleep(0)


main()
