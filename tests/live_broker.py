"""A substitute for a running broker, for tests of readers: run as ``live_broker.py LOG_DIRECTORY SEED``.

It holds the log directory's lock and changes the files of partition ``t-0`` as a broker does: torn writes of batches,
rolls, retention (rename to ``.deleted``, then unlink), compaction through ``.cleaned`` and ``.swap``. Every record's
value is its offset in 20 digits. It prints ``ready`` when it begins, and ``busy`` after it has made every kind of
change. It runs until its standard input ends. Then it writes counts of its changes to ``summary.json`` and drops the
lock as a kill would.
"""

from __future__ import annotations

import fcntl
import json
import random
import select
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from log_maker import plain, write_segment

KINDS = (".log", ".index", ".timeindex")
SEGMENT_BATCHES = 12
BATCH_RECORDS = 10


def is_droppable(batch: bytes) -> bool:
    """Return True for every third batch. Compaction drops these, so a reader knows which batches must exist."""
    (base_offset,) = struct.unpack_from(">q", batch)
    return bool(base_offset // BATCH_RECORDS % 3 == 0)


class LiveBroker:
    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.log_end = 0
        self.rolls = self.deletions = self.compactions = 0
        self.segments: list[tuple[int, list[bytes]]] = []
        self.roll()

    def file(self, base: int, kind: str, suffix: str = "") -> Path:
        return self.directory / f"{base:020d}{kind}{suffix}"

    def roll(self) -> None:
        write_segment(self.directory, self.log_end, [])
        self.segments.append((self.log_end, []))
        self.rolls += 1

    def append(self) -> None:
        count = BATCH_RECORDS
        content = plain(self.log_end, count)
        base, batches = self.segments[-1]
        position = sum(map(len, batches))
        with self.file(base, ".log").open("ab", buffering=0) as file:
            at = 0
            while at < len(content):
                step = self.random.randint(1, len(content))
                file.write(content[at : at + step])
                at += step
        if batches:
            with self.file(base, ".index").open("ab", buffering=0) as file:
                file.write(struct.pack(">ii", self.log_end + count - 1 - base, position))
        batches.append(content)
        self.log_end += count

    def delete_oldest(self) -> None:
        if len(self.segments) > 4:
            base, _ = self.segments.pop(0)
            self.retire([base])
            self.deletions += 1

    def retire(self, bases: list[int]) -> None:
        for base in bases:
            for kind in KINDS:
                self.file(base, kind).rename(self.file(base, kind, ".deleted"))
        for base in bases:
            for kind in KINDS:
                self.file(base, kind, ".deleted").unlink()

    def compact(self) -> None:
        """Compact two or three neighbours (not the active segment) into one segment, without some of their batches."""
        if len(self.segments) < 4:
            return
        first = self.random.randrange(len(self.segments) - 3)
        group = self.segments[first : first + self.random.randint(2, 3)]
        base = group[0][0]
        kept = [batch for _, batches in group for batch in batches if not is_droppable(batch)]
        write_segment(self.directory, base, kept, suffix=".cleaned")
        for kind in KINDS:
            self.file(base, kind, ".cleaned").rename(self.file(base, kind, ".swap"))
        self.retire([old for old, _ in group])
        for kind in KINDS:
            self.file(base, kind, ".swap").rename(self.file(base, kind))
        self.segments[first : first + len(group)] = [(base, kept)]
        self.compactions += 1

    def step(self) -> None:
        self.append()
        if len(self.segments[-1][1]) >= SEGMENT_BATCHES:
            self.roll()
        chance = self.random.random()
        if chance < 0.02:
            self.delete_oldest()
        elif chance < 0.06:
            self.compact()


def main() -> None:
    root, seed = Path(sys.argv[1]), int(sys.argv[2])
    with (root / ".lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        broker = LiveBroker(root / "t-0", seed)
        print("ready", flush=True)
        is_busy = False
        while not select.select([sys.stdin], [], [], 0)[0]:
            broker.step()
            if not is_busy and broker.rolls > 3 and broker.deletions and broker.compactions:
                is_busy = True
                print("busy", flush=True)
            time.sleep(0.0005)
        names = ("log_end", "rolls", "deletions", "compactions")
        (root / "summary.json").write_text(json.dumps({name: getattr(broker, name) for name in names}))


main()
