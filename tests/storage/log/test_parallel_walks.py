"""Segments walked in parallel: results in sequence, a bounded number, errors in their place, the same recovery."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, SCENARIOS
from log_maker import plain, write_segment
from new_threads import new_threads
from random_partition import random_batches
from real_kafka.directories import differences
from tidelog.kernel import scan_batches
from tidelog.model import OffsetOverflowError, StorageError
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.load.loader import LoadRequest, load_log
from tidelog.storage.log.load.parallel_walks import ParallelWalks, WalkThreads
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.recovery.directory_recovery import recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions
from tidelog.storage.producer import ProducerState
from tidelog.storage.segment.segment_recovery import RecoveredSegment


def test_walks_come_in_order_whichever_is_done_first() -> None:
    done: list[int] = []
    late = threading.Event()

    def walk(base_offset: int) -> int:
        if base_offset == 0:
            late.wait(60)
        done.append(base_offset)
        late.set()
        return base_offset + 1

    with WalkThreads(2) as threads, ParallelWalks(walk, [0, 10, 20, 30], threads) as walks:
        assert [walks.take(base) for base in (0, 10, 20, 30)] == [1, 11, 21, 31]
    assert done[0] == 10


def test_only_so_many_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two walks per thread run over all partitions. A partition without a walk waits, and all of them finish."""
    begun: list[int] = []

    def begin(base: int) -> int:
        begun.append(base)
        return base

    with WalkThreads(2) as threads:
        with ParallelWalks(begin, range(10), threads) as walks:
            assert walks.take(0) == 0
            assert len(begun) <= 5
        found: dict[int, list[int]] = {}

        def partition(number: int) -> None:
            with ParallelWalks(lambda base: base, range(20), threads) as walks:
                found[number] = [walks.take(base) for base in range(20)]

        partitions = [threading.Thread(target=partition, args=(number,)) for number in range(5)]
        for thread in partitions:
            thread.start()
        for thread in partitions:
            thread.join(60)
    assert found == {number: list(range(20)) for number in range(5)}


def test_an_error_comes_with_its_own_segment() -> None:
    def walk(base_offset: int) -> int:
        if base_offset == 10:
            raise OffsetOverflowError("far away")
        return base_offset

    with WalkThreads(3) as threads:
        with ParallelWalks(walk, [0, 10, 20], threads) as walks:
            assert walks.take(0) == 0
            with pytest.raises(OffsetOverflowError, match="far away"):
                walks.take(10)
            assert walks.take(15) == 15  # an unplanned base offset: a piece of the previous segment
            assert walks.take(20) == 20
        for _ in range(5):  # a loader that ends early frees its places
            with ParallelWalks(walk, [0, 10, 20], threads) as walks:
                assert walks.take(0) == 0


@pytest.mark.parametrize("set_name", [SCENARIOS, FLIGHTS])
def test_as_many_threads_as_one_likes_leave_the_same_directory(golden_copy: GoldenFactory, set_name: str) -> None:
    one = golden_copy(set_name, "unclean")
    (one / "recovery-point-offset-checkpoint").unlink()
    many = Path(shutil.copytree(one, one.parent / "many"))
    for directory, threads in ((one, 1), (many, 7)):
        result = recover_directory(LOCAL, directory, RecoverOptions(now_ms=1_795_218_000_000, threads=threads))
        assert not result.failures
    assert differences(one, many) == []


@pytest.mark.parametrize("seed", range(10))
def test_producers_epochs_and_damage_in_random_logs(tmp_path: Path, seed: int) -> None:
    """Random logs, some with a wrong byte, recover to the same files and messages with any number of threads.

    The result also agrees with a replay of all batches, not only of the batches that a walk selects.
    """
    chance = random.Random(seed)
    together = random_batches(chance, 300)
    offset, batches = together[-1][0], [content for _, content in together]
    made = tmp_path / "made"
    at = 0
    while at < len(batches):
        count = chance.randrange(1, 60)
        part = batches[at : at + count]
        write_segment(made, int.from_bytes(part[0][:8], "big"), part)
        at += count
    if seed % 2:
        log = chance.choice(sorted(made.glob("*.log")))
        content = bytearray(log.read_bytes())
        content[chance.randrange(len(content))] ^= 0x40
        log.write_bytes(content)
    found = []
    for threads in (1, 4):
        directory = Path(shutil.copytree(made, tmp_path / f"t{threads}-0"))
        told: list[RecoveredSegment] = []
        with WalkThreads(threads) as walk_threads:
            request = LoadRequest(
                fs=LOCAL,
                directory=directory,
                config=LogConfig(index_interval_bytes=100, producer_id_expiration_ms=2**62),
                clean_shutdown=False,
                on_segment=told.append,
                threads=walk_threads,
            )
            try:
                loaded: object = load_log(request, now_ms=0).end_offset
            except StorageError as error:
                loaded = error.message
        found.append((loaded, told, {path.name: path.read_bytes() for path in directory.iterdir()}))
    assert found[0] == found[1]
    assert [part.base_offset for part in found[0][1]] == sorted(part.base_offset for part in found[0][1])
    state, whole = ProducerState(expiration_ms=2**62), b"".join(batches)
    if isinstance(found[0][0], int) and seed % 2 == 0:
        state.replay(whole, scan_batches(whole))
        assert found[0][2][f"{offset:020d}.snapshot"] == state.snapshot()


def test_one_segment_needs_no_thread(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    before = threading.enumerate()
    new: list[set[threading.Thread]] = []
    load_log(
        LoadRequest(
            fs=LOCAL,
            directory=tmp_path / "t-0",
            config=LogConfig(),
            clean_shutdown=False,
            on_segment=lambda _: new.append(new_threads(before)),
        ),
        now_ms=0,
    )
    assert new == [set()]
