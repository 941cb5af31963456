"""A log that adopts staged files while its power may fail, and a check of the state that a crash leaves.

The log must load like any other, whatever happened to the files. Then the owner of the files adopts the remaining ones
in sequence: each file's batches are then in the log, complete and once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crash.examination import batches_of, examine, load
from crash.scenarios import empty, half_flushed
from crash.story import HOME, ROOT, Promise, Stored, Story
from log_maker import batch
from tidelog.testing import Kept, SimulatedDisk

FIRST, SECOND = ROOT / ".staged-1", ROOT / ".staged-2"
_PLACE = struct.Struct(">qii")
"""Base offset, length, leader epoch. An adoption writes no other part of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionPromise:
    """A promise about the log and the staged files. ``files`` are on the disk; their batches have no place yet."""

    log: Promise
    files: tuple[tuple[Path, tuple[bytes, ...]], ...]


class AdoptionStory:
    def __init__(self, story: Story) -> None:
        self.story = story
        self.disk = story.disk
        self.files: dict[Path, tuple[bytes, ...]] = {}

    def promise(self) -> AdoptionPromise:
        return AdoptionPromise(log=self.story.promise(), files=tuple(self.files.items()))

    def stage(self, path: Path, *counts: int) -> None:
        """Stage a file as a task does: batches with these numbers of records, synced."""
        story = self.story
        story.clock.now += 10
        made = [batch(0, [b"%d" % number] * count, timestamp=story.clock.now) for number, count in enumerate(counts)]
        with self.disk.open(path, create=True) as file:
            file.pwrite(b"".join(made), 0)
        self.disk.sync_all()
        self.files[path] = tuple(map(unplaced, made))
        may_begin = range(story.log.end_offset + sum(len(file) * max(counts) for file in self.files.values()) + 10)
        for first in may_begin:
            for one, count in zip(made, counts, strict=True):
                story.written.setdefault(first, set()).update(
                    placed(one, first, epoch) for epoch in range(story.epoch + 1)
                )
                first += count

    def adopt(self, path: Path) -> None:
        """Adopt a file. Its batches are promised on return."""
        log = self.story.log
        offsets = log.adopt(path).offsets
        assert log.synced_offset == log.end_offset == offsets.stop
        found = [one for one in batches_of(log) if one.first in offsets]
        assert tuple(unplaced(one.data) for one in found) == self.files[path]
        self.story.batches += [Stored(one.first, one.end, one.data) for one in found]


def placed(made: bytes, first: int, epoch: int) -> bytes:
    return _PLACE.pack(first, len(made) - 12, epoch) + unplaced(made)


def unplaced(made: bytes) -> bytes:
    return made[_PLACE.size :]


def with_files(prepare: Callable[[], Story]) -> AdoptionStory:
    story = AdoptionStory(prepare())
    story.stage(FIRST, 3, 1, 5)
    story.stage(SECOND, 2, 2, 2, 2, 2)
    return story


def adopt(story: AdoptionStory) -> None:
    """Adopt after segments that are not flushed, and in the place of an empty one."""
    story.adopt(FIRST)
    story.story.append(2, producer=7)
    story.story.log.roll()
    story.adopt(SECOND)
    story.story.append()
    story.story.log.flush()


def adopt_first(story: AdoptionStory) -> None:
    """Adopt into an empty log."""
    story.adopt(FIRST)
    story.adopt(SECOND)


ADOPTION_SCENARIOS: tuple[tuple[str, Callable[[], AdoptionStory], Callable[[AdoptionStory], None]], ...] = (
    ("adopt", lambda: with_files(half_flushed), adopt),
    ("adopt into an empty log", lambda: with_files(empty), adopt_first),
)


def examine_adoption(disk: SimulatedDisk, promise: AdoptionPromise) -> None:
    """Check a disk against the promise. Raise AssertionError, or an error of loading or adopting."""
    examine(disk.after_crash(Kept()), promise.log)
    log = load(disk, HOME, promise.log)
    for path, _ in promise.files:
        if disk.exists(path):
            log.adopt(path)
    there = [unplaced(batch.data) for batch in batches_of(log)]
    log.close_handlers()
    begins = []
    for path, batches in promise.files:
        assert [there.count(one) for one in batches] == [1] * len(batches), f"{path.name} is not in the log once"
        begins.append(there.index(batches[0]))
        assert tuple(there[begins[-1] :][: len(batches)]) == batches
    assert begins == sorted(begins)
    examine(disk, promise.log)
