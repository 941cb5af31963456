"""A view that receives the results of ``verify`` finds the same as a view that reads the segments itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, KRAFT_SETS
from tidelog.inspect.verify.partition_check import KnownElsewhere, check_partition
from tidelog.storage.fs import LOCAL, ReadOnlyFileSystem
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import live_partitions


def found(view: LogView) -> tuple[Any, ...]:
    state = view.state
    recovered = state.recovered
    rows = None if recovered is None else [column.tolist() for column in recovered.transactions]
    return (
        state.log_end,
        state.invalid_tail,
        [(segment.base_offset, segment.size, segment.cut_at) for segment in state.segments],
        rows,
        view.last_stable_offset(),
    )


def told_and_not(directory: Path) -> tuple[tuple[Any, ...], tuple[Any, ...], int]:
    """Return the findings of a view with the results of ``verify``, of a view without, and the results' number."""
    told, alone = (LogView(LOCAL, directory) for _ in range(2))
    check_partition(ReadOnlyFileSystem(LOCAL), told, KnownElsewhere(), lambda _bytes: None)
    return found(told), found(alone), len(told._validated)


@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_killed_brokers_partitions(golden: GoldenFactory, set_name: str) -> None:
    root = golden(set_name, "unclean")
    taken = 0
    for partition in live_partitions(LOCAL, root):
        told, alone, segments = told_and_not(root / partition.directory_name)
        assert told == alone
        taken += segments
    assert taken


@pytest.mark.parametrize("damage", ["cut", "bit", "zeros", "length"])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_damaged_segment_is_read_again(golden_copy: GoldenFactory, damage: str, which: int) -> None:
    directory = golden_copy(FLIGHTS, "unclean") / "flights-0"
    (directory.parent / "recovery-point-offset-checkpoint").unlink()
    log = sorted(directory.glob("*.log"))[which]
    data = bytearray(log.read_bytes())
    half = len(data) // 2
    if damage == "cut":
        del data[-3:]
    elif damage == "bit":
        data[half] ^= 1
    elif damage == "zeros":
        data += bytes(4096)
    else:
        data[8:12] = (5).to_bytes(4, "big")
    log.write_bytes(data)
    told, alone, segments = told_and_not(directory)
    assert told == alone
    assert segments == len(list(directory.glob("*.log"))) - 1
