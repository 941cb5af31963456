"""Reading ahead gives the same items in the same sequence, raises errors in their place, and leaves nothing open."""

import os
import threading
import time
from collections.abc import Generator, Iterator
from typing import NamedTuple

import pytest

from tidelog.storage.segment.read_ahead import read_ahead


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1}, raising=False)


class Chunk(NamedTuple):
    number: int
    buffer: memoryview


def chunks(
    count: int,
    threads: list[threading.Thread],
    *,
    fail_at: int | None = None,
    closed: threading.Event | None = None,
) -> Iterator[Chunk]:
    try:
        for number in range(count):
            threads.append(threading.current_thread())
            if number == fail_at:
                raise OSError(f"chunk {number}")
            yield Chunk(number, memoryview(bytes(100)))
    finally:
        if closed is not None:
            closed.set()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
@pytest.mark.parametrize("after_bytes", [0, 100, 250, 10**6])
def test_the_items_in_order(count: int, after_bytes: int) -> None:
    items = read_ahead(chunks(count, []), after_bytes=after_bytes)
    assert [chunk.number for chunk in items] == list(range(count))


def test_short_reads_start_no_thread() -> None:
    threads: list[threading.Thread] = []
    assert len(list(read_ahead(chunks(10, threads), after_bytes=1001))) == 10
    assert set(threads) == {threading.current_thread()}


def test_one_processor_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    threads: list[threading.Thread] = []
    assert len(list(read_ahead(chunks(10, threads), after_bytes=100))) == 10
    assert set(threads) == {threading.current_thread()}


def test_one_thread_reads_while_the_caller_works() -> None:
    threads: list[threading.Thread] = []
    items = read_ahead(chunks(10, threads), after_bytes=300)
    assert [next(items).number for _ in range(4)] == [0, 1, 2, 3]
    while len(threads) < 5:  # the fifth item is made without a request
        time.sleep(0.001)
    assert len(list(items)) == 6
    assert len(set(threads[:3])) == 1
    assert len(set(threads[3:])) == 1
    assert threads[0] is threading.current_thread() is not threads[3]


@pytest.mark.parametrize("fail_at", [0, 2, 3, 7])
def test_an_error_comes_in_its_place(fail_at: int) -> None:
    items = read_ahead(chunks(9, [], fail_at=fail_at), after_bytes=250)
    assert [next(items).number for _ in range(fail_at)] == list(range(fail_at))
    with pytest.raises(OSError, match=f"chunk {fail_at}"):
        next(items)


def test_stopping_early_closes_what_is_read() -> None:
    closed = threading.Event()
    threads: list[threading.Thread] = []
    items = read_ahead(chunks(100, threads, closed=closed), after_bytes=100)
    for _ in range(3):
        next(items)
    assert isinstance(items, Generator)
    items.close()
    assert closed.wait(60)
    assert len(threads) <= 5
    threads[-1].join(60)
    assert not threads[-1].is_alive()
