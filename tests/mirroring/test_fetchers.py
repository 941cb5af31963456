"""Fetchers: receiving and appending overlap, and records are flushed while the run goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from log_maker import batch
from mirroring.source_and_copy import KEEPING, PATIENCE_S, assert_equal, options, produce
from tidelog.following.fetch_exchange import FetchAnswer, FetchExchange
from tidelog.mirroring.blocking import run_mirror
from tidelog.mirroring.run import copying
from tidelog.mirroring.run.early_flush import FLUSH_BYTES, EarlyFlush
from tidelog.mirroring.target.log_pass import PassResult, run_pass
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing import Broker

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "source", configs=KEEPING) as broker:
        yield broker


def in_thread(
    function: Callable[Arguments, Result], *args: Arguments.args, **named: Arguments.kwargs
) -> Awaitable[Result]:
    return asyncio.to_thread(function, *args, **named)


def opened(path: Path) -> PartitionLog:
    request = OpenRequest(fs=LOCAL, directory=path, clock=SYSTEM_CLOCK, config=LogConfig(), clean_shutdown=True)
    return PartitionLog.open(request)


def test_a_fetcher_receives_records_of_one_partition_while_those_of_another_are_appended(
    source: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.create_topic("orders", 2)
    as_one_batch = {"linger.ms": "10000"}  # smaller batches could be appended at once
    for number in range(2):
        values = (b"%0100d" % value for value in range(1_000))
        produce(source, "orders", values, partition=number, config=as_one_batch)
    has_received_more = threading.Event()
    received: list[int] = []
    fetch = FetchExchange.fetch

    async def noted(exchange: FetchExchange, *args: Any, **named: Any) -> FetchAnswer:
        answer = await fetch(exchange, *args, **named)
        received.append(answer.size)
        if len([size for size in received if size]) > 1:
            has_received_more.set()
        return answer

    def waiting(*args: Any) -> PassResult:
        assert has_received_more.wait(PATIENCE_S), "no further records came during the first append"
        return run_pass(*args)

    monkeypatch.setattr(FetchExchange, "fetch", noted)
    monkeypatch.setattr(copying, "run_pass", waiting)
    copy = tmp_path / "copy"
    assert run_mirror(options(source, copy, fetchers=1, fetch_max_bytes=20_000)).is_complete
    assert_equal(source.directory, copy, "orders-0", "orders-1")


def test_partitions_of_a_topic_are_spread_over_the_fetchers(
    source: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.create_topic("orders", 4)
    asked: dict[FetchExchange, set[int]] = {}
    fetch = FetchExchange.fetch

    async def noted(exchange: FetchExchange, positions: Any, *args: Any, **named: Any) -> FetchAnswer:
        asked.setdefault(exchange, set()).update(partition.partition for partition in positions)
        return await fetch(exchange, positions, *args, **named)

    monkeypatch.setattr(FetchExchange, "fetch", noted)
    for number in range(4):
        produce(source, "orders", [b"a"], partition=number)
    run_mirror(options(source, tmp_path / "copy", fetchers=2, with_coordinators=False))
    assert sorted(map(sorted, asked.values())) == [[0, 2], [1, 3]]


class TestEarlyFlush:
    def test_a_log_with_enough_new_records_is_flushed(self, tmp_path: Path) -> None:
        log, other = opened(tmp_path / "t-0"), opened(tmp_path / "t-1")
        for one in (log, other):
            one.append_as_follower(batch(0, [b"a"]), 0)
        assert self.flushed({log: FLUSH_BYTES, other: FLUSH_BYTES - 1}) == []
        assert (log.recovery_point, other.recovery_point) == (1, 0)

    def test_a_closed_log_is_left_out(self, tmp_path: Path) -> None:
        closed, log = opened(tmp_path / "t-0"), opened(tmp_path / "t-1")
        log.append_as_follower(batch(0, [b"a"]), 0)
        closed.close()
        assert self.flushed({closed: FLUSH_BYTES + 1, log: FLUSH_BYTES}) == []
        assert log.recovery_point == 1

    def test_a_failed_disk_is_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = opened(tmp_path / "t-0")
        broken = OSError("broken")

        def fail() -> int:
            raise broken

        monkeypatch.setattr(log, "flush", fail)
        assert self.flushed({log: FLUSH_BYTES}) == [broken]

    @staticmethod
    def flushed(counts: dict[PartitionLog, int]) -> list[BaseException]:
        """Return the reported errors after the flush of all logs that are due."""
        errors: list[BaseException] = []

        async def run() -> None:
            flush = EarlyFlush(in_thread, errors.append)
            for log, count in counts.items():
                flush.note(log, count)
            await flush.end()

        asyncio.run(run())
        return errors
