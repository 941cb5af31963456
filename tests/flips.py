"""A seeded flip of a bit or byte in a golden directory, and how reading and ``verify`` react to it.

Reading may raise a TidelogError and no other error. It must never return a key, value, header or timestamp that was
not written. If a CRC covers the flipped byte, each record that reading returns has its own offset.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from memory_disk import MemoryDisk
from tidelog import Isolation, Record, TidelogError, TopicPartition
from tidelog.inspect.verify import Severity, verify_directory
from tidelog.kernel import scan_batches
from tidelog.record.rows import iter_records
from tidelog.storage.checkpoint import LOG_START_CHECKPOINT
from tidelog.storage.log.view.log_view import LogView

LOG_FIELDS = (
    (8, "base offset"),
    (12, "length"),
    (16, "leader epoch"),
    (17, "magic"),
    (21, "CRC"),
)
"""The fields of a v2 batch: end position and name. The CRC covers all bytes after them."""
LEGACY_FIELDS = ((8, "base offset"), (12, "length"), (16, "CRC"))
"""The fields of a v0 or v1 message."""
COVERED = "covered by the CRC"

SMALL_LOG_BYTES = 150_000
"""A partition up to this size is chosen nine times in ten: it offers as much to break, and it reads faster."""

Content = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@dataclass(frozen=True)
class Flip:
    path: Path
    position: int
    before: int
    after: int
    field: str

    @property
    def kind(self) -> str:
        return self.path.suffix if self.path.suffix else self.path.name


@dataclass(frozen=True)
class Outcome:
    flip: Flip
    fault: str | None
    """The rule that reading violated, or None."""
    reported: bool
    """True if ``verify`` found damage."""


class Partition:
    """A partition directory, and the records that were written into it."""

    def __init__(self, disk: MemoryDisk, directory: Path) -> None:
        self.disk = disk
        self.directory = directory
        self.files = sorted(path for path in disk.paths if path.parent == directory and disk.data(path))
        self.log_bytes = sum(len(disk.data(path)) for path in self.files if path.suffix == ".log")

    @property
    def _log_starts(self) -> Path:
        return self.directory.parent / LOG_START_CHECKPOINT

    @cached_property
    def written(self) -> dict[Content, set[int]]:
        found: dict[Content, set[int]] = {}
        # Records below the log start were written too. A flip in the log start checkpoint brings them back.
        whole = self.disk.with_file(path, b"0\n0\n") if self.disk.exists(path := self._log_starts) else self.disk
        for record in read_all(whole, self.directory, Isolation.READ_UNCOMMITTED):
            found.setdefault(content(record), set()).add(record.offset)
        return found


class Disk:
    """A complete golden directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = MemoryDisk.load(root)
        directories = sorted({path.parent for path in self.disk.paths if path.parent != root})
        self.partitions = [Partition(self.disk, directory) for directory in directories]
        self.small = [part for part in self.partitions if 0 < part.log_bytes <= SMALL_LOG_BYTES]
        self.by_kind = {False: self._by_kind(self.partitions), True: self._by_kind(self.small)}
        """Files by kind: of all partitions (False) and of the small ones (True)."""
        self.beside = {
            path.suffix or path.name: [(path, self.small[0])]
            for path in self.disk.paths
            if path.parent == root and self.disk.data(path)
        }

    def _by_kind(self, partitions: list[Partition]) -> dict[str, list[tuple[Path, Partition]]]:
        found: dict[str, list[tuple[Path, Partition]]] = {}
        for partition in partitions:
            for path in partition.files:
                found.setdefault(path.suffix or path.name, []).append((path, partition))
        return found


def content(record: Record) -> Content:
    headers = tuple((header[0], header[1]) for header in record.headers)
    return (record.timestamp, int(record.timestamp_type), record.key, record.value, headers)


def read_all(disk: MemoryDisk, directory: Path, isolation: Isolation, start: int | None = None) -> Iterator[Record]:
    view = LogView(disk, directory)  # type: ignore[arg-type]
    for chunk in view.columns(view.range(start, isolation=isolation)):
        yield from iter_records(chunk.columns)


def choose(disks: list[Disk], seed: int) -> tuple[Disk, Partition, Flip]:
    """Choose a seed's flip: half in logs, a tenth in files of the log directory, the rest in other partition files.

    Within each part every kind of file is equally likely, no matter how many files of the kind exist.
    """
    chance = random.Random(seed)
    disk = chance.choice(disks)
    part = chance.random()
    files = disk.beside if part < 0.1 else disk.by_kind[chance.random() < 0.9]
    kind = ".log" if part >= 0.5 else chance.choice(sorted(files))
    path, partition = chance.choice(files[kind])
    data = disk.disk.data(path)
    position, field = _in_log(data, chance) if kind == ".log" else (chance.randrange(len(data)), "byte")
    before = data[position]
    after = before ^ (1 << chance.randrange(8)) if chance.random() < 0.5 else (before + chance.randrange(1, 256)) % 256
    return disk, partition, Flip(path, position, before, after, field)


def _in_log(data: bytes, chance: random.Random) -> tuple[int, str]:
    table = scan_batches(data)
    if not len(table):
        return chance.randrange(len(data)), "byte"
    row = table.row(chance.randrange(len(table)))
    fields = LOG_FIELDS if row.magic == 2 else LEGACY_FIELDS
    if chance.random() < 0.5:
        number = chance.randrange(len(fields))
        begin = fields[number - 1][0] if number else 0
        return row.position + chance.randrange(begin, fields[number][0]), fields[number][1]
    return row.position + chance.randrange(fields[-1][0], row.size), COVERED


def try_flip(disks: list[Disk], seed: int) -> Outcome:
    disk, partition, flip = choose(disks, seed)
    data = bytearray(disk.disk.data(flip.path))
    data[flip.position] = flip.after
    broken = disk.disk.with_file(flip.path, bytes(data))
    fault = _read_fault(broken, partition, flip, seed)
    verified = verify_directory(
        broken,  # type: ignore[arg-type]
        disk.root,
        only=None if flip.path.parent == disk.root else [TopicPartition.from_directory_name(partition.directory.name)],
        threads=1,
    )
    reported = any(finding.severity is not Severity.NOTE for finding in verified.all_findings)
    return Outcome(flip, fault, reported)


def _read_fault(disk: MemoryDisk, partition: Partition, flip: Flip, seed: int) -> str | None:
    isolation = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)[seed % 2]
    offsets = [offset for places in partition.written.values() for offset in places]
    start = None if seed % 3 or not offsets else random.Random(seed).choice(offsets)
    try:
        for record in read_all(disk, partition.directory, isolation, start):
            places = partition.written.get(content(record))
            if places is None:
                return f"returned a record that was never written: {record}"
            if flip.field == COVERED and record.offset not in places:
                return f"returned a record at offset {record.offset}, it was written at {sorted(places)}"
        if seed % 5 == 0:
            view = LogView(disk, partition.directory)  # type: ignore[arg-type]
            view.offset_for_timestamp(random.Random(seed).choice([*partition.written])[0] if partition.written else 0)
    except TidelogError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
