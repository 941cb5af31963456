"""Threads take turns with quick calls of codec libraries, and only with these."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from threading import Event, Thread

import numpy as np
import pytest

from record.cleaning.dirty_batches import batch_of, clean, record
from tidelog.kernel import scan_batches
from tidelog.record.attributes import GZIP, SNAPPY, ZSTD
from tidelog.record.cleaning import opened_batches
from tidelog.record.cleaning.codec_turns import turn
from tidelog.record.cleaning.opened_batches import opened_parts

PATIENCE_S = 60


def check(work: Callable[[], object], *, waits: bool) -> None:
    """Check whether ``work`` waits for a turn that this thread has. It is done on return."""
    done = Event()

    def run() -> None:
        work()
        done.set()

    with turn(SNAPPY, 1, 100):
        thread = Thread(target=run)
        thread.start()
        assert done.wait(0.2 if waits else PATIENCE_S) is not waits
    thread.join(PATIENCE_S)
    assert done.is_set()


@pytest.mark.parametrize(
    ("codec", "size_bytes", "waited"), [(ZSTD, 5000, True), (ZSTD, 1 << 20, False), (GZIP, 5000, False)]
)
def test_quick_calls_wait_for_each_other(codec: int, size_bytes: int, *, waited: bool) -> None:
    def take() -> None:
        with turn(codec, 1, size_bytes):
            pass

    check(take, waits=waited)


@pytest.mark.parametrize(("codec", "waited"), [("snappy", True), ("zstd", True), ("gzip", False), ("none", False)])
def test_small_batches_are_opened_in_turns(codec: str, *, waited: bool) -> None:
    data = b"".join(batch_of(record(number, b"k"), codec=codec) for number in range(3))
    table = scan_batches(data)
    check(lambda: list(opened_parts(data, table, np.ones(len(table), np.bool_))), waits=waited)


def test_rebuilt_batches_are_packed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_batches, "turn", lambda *_: nullcontext())
    data = batch_of(record(0, b"a"), record(1, b"a"), record(2, b"b"), codec="zstd")
    check(lambda: clean(data), waits=True)
    unchanged = batch_of(record(0, b"a"), codec="zstd")
    check(lambda: clean(unchanged), waits=False)
