"""Flipped bits and random bytes in any file of a partition give an error or written records, nothing else.

The CRC does not cover a batch's base offset, length, leader epoch and magic, so a record may appear at another offset
or not at all. Its key, value, headers and timestamp are the written ones.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import FORMATS, SCENARIOS
from tidelog.model import Record, TidelogError
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import CorruptPolicy

PARTITIONS = [
    (SCENARIOS, "clean", "txn-0"),
    (SCENARIOS, "unclean", "txn-0"),
    (SCENARIOS, "unclean", "plain-0"),
    (SCENARIOS, "clean", "compacted-0"),
    (SCENARIOS, "unclean", "zstd-0"),
    (SCENARIOS, "clean", "append-time-0"),
    (FORMATS, "clean", "v1-gzip-0"),
    (FORMATS, "clean", "v0-none-0"),
]
FLIPS = 8
CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint")


def contents(records: list[Record]) -> set[tuple[object, ...]]:
    return {tuple(record[1:]) for record in records}


def read(view: LogView, isolation: str, on_corrupt: CorruptPolicy) -> Iterator[Record]:
    wanted = view.range(isolation=isolation)
    for chunk in view.columns(wanted, on_corrupt=on_corrupt):
        yield from iter_records(chunk.columns)


def read_all_ways(view: LogView) -> list[Record]:
    """Make every call that the view has. A TidelogError ends one call, any other error fails the test."""
    found: list[Record] = []

    def reading(isolation: str, on_corrupt: CorruptPolicy) -> None:
        # Record by record, because the records before an error were returned too.
        found.extend(read(view, isolation, on_corrupt))

    calls: list[Callable[[], object]] = [
        partial(reading, isolation, on_corrupt)
        for isolation in ("read_uncommitted", "read_committed")
        for on_corrupt in CorruptPolicy
    ]
    calls += [
        view.offsets,
        view.latest_timestamp,
        partial(view.offset_for_timestamp, 1_795_216_674_465),
        partial(view.resolve, 100),
        lambda: view.splits(view.log_start, view.log_end, 4096),
    ]
    for call in calls:
        with contextlib.suppress(TidelogError):
            call()
    return found


@pytest.fixture(scope="module", params=PARTITIONS, ids=lambda case: f"{case[2]}-{case[1]}")
def partition(
    request: pytest.FixtureRequest, golden: GoldenFactory, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, set[tuple[object, ...]]]:
    """Copy one partition with its checkpoints, and return its path and its records."""
    set_name, kind, name = request.param
    source, target = golden(set_name, kind), tmp_path_factory.mktemp("fuzz")
    shutil.copytree(source / name, target / name)
    for file in (*CHECKPOINTS, ".kafka_cleanshutdown"):
        if (source / file).exists():
            shutil.copy2(source / file, target / file)
    return target / name, contents(read_all_ways(LogView(LOCAL, target / name)))


@pytest.mark.parametrize("kind", ["log", "index", "timeindex", "txnindex", "snapshot", "checkpoint"])
def test_flipped_bits(partition: tuple[Path, set[tuple[object, ...]]], kind: str) -> None:
    directory, written = partition
    if kind == "checkpoint":
        files = [directory.parent / name for name in CHECKPOINTS if (directory.parent / name).exists()]
    else:
        files = sorted(directory.glob(f"*.{kind}"))
    files = [path for path in files if path.stat().st_size]
    chance = random.Random(f"{directory.name} {kind}")
    for _ in range(FLIPS if files else 0):
        path = chance.choice(files)
        before = path.read_bytes()
        # The entries are at the beginning of an index, and most of the rest is preallocated zeros.
        at = chance.randrange(min(len(before), 20_000))
        if chance.random() < 0.7:
            after = bytearray(before)
            after[at] ^= 1 << chance.randrange(8)
        else:
            after = bytearray(before)
            after[at : at + chance.randrange(1, 9)] = chance.randbytes(8)
            if chance.random() < 0.3:
                del after[at + chance.randrange(8) :]
        path.write_bytes(after)
        try:
            found = contents(read_all_ways(LogView(LOCAL, directory)))
            assert found <= written, f"byte {at} of {path.name}: {sorted(found - written)[:1]}"
        finally:
            path.write_bytes(before)
