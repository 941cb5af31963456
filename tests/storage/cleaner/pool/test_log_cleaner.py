"""The cleaner's threads: a round's work, failures in it, and the other threads' progress. A stand-in compacts."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from storage.cleaner.cleaner_home import BOTH, CleanerHome, fill, put
from tidelog.kernel import OffsetMap
from tidelog.model import ClosedError, CorruptRecordError, LogCleaningAbortedError, StorageError, TopicPartition
from tidelog.storage.cleaner.clean.clean_request import CleanerStats, CleanResult
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.cleaner.pool.cleaner_metrics import METRICS, cleaner_samples
from tidelog.storage.cleaner.pool.cleaner_state import CleanerState
from tidelog.storage.cleaner.pool.cleaner_thread import CleanerThread, CleanerWork
from tidelog.storage.cleaner.pool.log_cleaner import LogCleaner
from tidelog.storage.log.partition_log import PartitionLog

T0, T1, T2 = (TopicPartition("log", number) for number in range(3))
QUICK = CleanerSettings(backoff_ms=5, dedupe_buffer_bytes=1 << 20)
SOON_S = 60
"""The longest wait for an event that takes milliseconds on an idle machine."""
OF_THREADS = (
    "max-buffer-utilization-percent",
    "cleaner-recopy-percent",
    "max-clean-time-secs",
    "max-compaction-delay-secs",
    "DeadThreadCount",
)


class Bench:
    """A cleaner whose threads call ``clean`` for the compaction itself."""

    def __init__(self, home: CleanerHome) -> None:
        self.home = home
        self.cleaned: list[tuple[str, int, int]] = []
        """Partition directory, first dirty and first uncleanable offset of each clean that was started."""
        self.clean: Callable[..., None] = lambda **_options: None
        self.state = CleanerState(
            home.fs, [home.path, home.other], lambda: home.logs, clock=home.clock, on_failure=home.failures.append
        )
        self.cleaner = LogCleaner(
            self.state, QUICK, clock=home.clock, clean=self._clean, on_failure=home.failures.append
        )

    def _clean(self, log: PartitionLog, *, first_dirty: int, first_uncleanable: int, **options: Any) -> CleanResult:
        self.cleaned.append((log.directory.name, first_dirty, first_uncleanable))
        self.clean(log=log, **options)
        stats = CleanerStats(start_ms=0, end_ms=7900, bytes_read=200, bytes_written=99, buffer_utilization=0.509)
        return CleanResult(next_dirty_offset=first_uncleanable, stats=stats)

    def work(self) -> CleanerWork:
        """Make the work of one more thread."""
        return CleanerWork(
            state=self.state,
            settings=QUICK,
            throttle=self.cleaner.throttle,
            clock=self.home.clock,
            clean=self._clean,
            on_failure=self.home.failures.append,
        )

    def start(self, **settings: Any) -> None:
        if settings:
            self.cleaner.reconfigure(CleanerSettings(**{"backoff_ms": 5, "dedupe_buffer_bytes": 1 << 20} | settings))
        self.cleaner.startup()

    def metrics(self) -> dict[str, float]:
        """Return the metrics by name. A log directory's metrics are keyed by name and path."""
        samples = cleaner_samples(self.cleaner, [self.home.path, self.home.other])
        return {
            " ".join([sample.name.name, *(value for _, value in sample.name.tags)]): sample.values["Value"]
            for sample in samples
        }


@pytest.fixture
def bench(home: CleanerHome) -> Iterator[Bench]:
    made = Bench(home)
    yield made
    made.cleaner.shutdown()


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


class TestRounds:
    def test_log_by_log(self, bench: Bench) -> None:
        for partition, batches in ((T0, 10), (T1, 20)):
            fill(bench.home.open(partition), batches)
        bench.start()
        for partition in (T0, T1):
            assert bench.state.await_cleaned(partition, bench.home.logs[partition].base_offsets[-1], SOON_S * 1000)
        assert sorted(bench.cleaned) == [("log-0", 0, 10), ("log-1", 0, 20)]
        assert bench.state.checkpoint_of(bench.home.path) == {T0: 10, T1: 20}

    def test_it_waits_when_nothing_is_due(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        looked = threading.Event()
        compacted_logs = bench.state.compacted_logs

        def look() -> Any:
            found = compacted_logs()
            looked.set()
            return found

        monkeypatch.setattr(bench.state, "compacted_logs", look)
        bench.start(backoff_ms=3_600_000)
        assert looked.wait(SOON_S)  # the round has looked at the logs for the last time
        fill(bench.home.open(T0), 10)
        assert not bench.state.await_cleaned(T0, 1, 50)
        bench.cleaner.reconfigure(QUICK)
        assert bench.state.await_cleaned(T0, 10, SOON_S * 1000)

    def test_what_a_clean_gets(self, bench: Bench) -> None:
        seen: list[dict[str, Any]] = []
        bench.clean = lambda **options: seen.append(options)
        fill(bench.home.open(T0), 10)
        bench.start(threads=2, dedupe_buffer_bytes=4_800_000, io_buffer_bytes=1 << 26, dedupe_load_factor=0.5)
        assert bench.state.await_cleaned(T0, 10, SOON_S * 1000)
        (options,) = seen
        found = options["offset_map"]
        assert isinstance(found, OffsetMap)
        assert (found.slot_count, found.max_size) == (100_000, 50_000)
        assert options["chunk_bytes"] == 1 << 24
        assert options["clock"] is bench.home.clock
        options["throttle"](500)
        assert bench.cleaner.throttle.total == 500

    def test_no_progress_no_haste(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        fill(bench.home.open(T0), 10)
        stats = CleanerStats(start_ms=0)
        calls = threading.Semaphore(0)

        def clean(*_args: Any, **_options: Any) -> CleanResult:
            calls.release()
            return CleanResult(next_dirty_offset=0, stats=stats)

        monkeypatch.setattr(bench.cleaner, "_clean", clean)
        bench.start(backoff_ms=3_600_000)
        assert calls.acquire(timeout=SOON_S)
        assert not calls.acquire(timeout=0.05)

    def test_retention_of_compacted_logs(self, bench: Bench) -> None:
        log = bench.home.open(T0, cleanup_policy=BOTH)
        fill(log, 10)
        bench.home.clock.now += 1000
        bench.start()
        until(lambda: len(log.base_offsets) == 1)
        assert log.log_start_offset == log.end_offset  # the log start moves before the segments are deleted
        until(lambda: bench.state.state_of(T0) is None)

    def test_segments_below_the_log_start(self, bench: Bench) -> None:
        log = bench.home.open(T0)
        fill(log, 20)
        log.maybe_increment_log_start_offset(12)
        bench.start()
        until(lambda: log.base_offsets[0] == 11)
        assert log.log_start_offset == 12

    def test_starting_twice(self, bench: Bench) -> None:
        bench.start()
        with pytest.raises(RuntimeError):
            bench.cleaner.startup()


class TestAborting:
    def test_a_paused_log_is_let_go_of(self, bench: Bench) -> None:
        begun = threading.Event()

        def clean(*, check_done: Callable[[], None], **_options: Any) -> None:
            begun.set()
            while True:
                check_done()
                time.sleep(0.001)

        bench.clean = clean
        fill(bench.home.open(T0), 10)
        bench.start()
        assert begun.wait(SOON_S)
        with bench.state.paused(T0):
            assert T0 not in bench.state.checkpoint_of(bench.home.path)
            bench.clean = lambda **_options: None
        assert bench.state.await_cleaned(T0, 10, SOON_S * 1000)
        assert bench.state.uncleanable() == {}

    def test_also_in_the_middle_of_a_nap(self, bench: Bench) -> None:
        begun = threading.Event()

        def clean(*, throttle: Callable[[int], None], **_options: Any) -> None:
            bench.home.clock.now += 1000
            begun.set()
            throttle(10**9)

        bench.clean = clean
        fill(bench.home.open(T0), 10)
        bench.start(io_max_bytes_per_second=1e-3)
        assert begun.wait(SOON_S)
        with bench.state.paused(T0):
            pass

    @pytest.mark.parametrize("end", ["shutdown", "reconfigure"])
    def test_the_end_breaks_off(self, bench: Bench, end: str) -> None:
        begun = threading.Event()

        def clean(*, check_done: Callable[[], None], **_options: Any) -> None:
            begun.set()
            while True:
                check_done()

        bench.clean = clean
        fill(bench.home.open(T0), 10)
        bench.start()
        assert begun.wait(SOON_S)
        threads = bench.cleaner.threads
        if end == "shutdown":
            bench.cleaner.shutdown()
            assert bench.cleaner.threads == ()
        else:
            bench.clean = lambda **_options: None
            bench.cleaner.reconfigure(QUICK)
            assert bench.state.await_cleaned(T0, 10, SOON_S * 1000)
        assert not any(thread.is_alive() or thread.is_dead for thread in threads)

    def test_a_log_that_was_cut_unseen_is_begun_again(self, bench: Bench) -> None:
        def clean(**_options: Any) -> None:
            bench.clean = lambda **_options: None
            raise LogCleaningAbortedError("cut")

        bench.clean = clean
        fill(bench.home.open(T0), 10)
        bench.start(backoff_ms=3_600_000)
        assert bench.state.await_cleaned(T0, 10, SOON_S * 1000)


class TestFailures:
    def test_a_log_that_cannot_be_compacted_is_set_aside(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        def clean(*, log: PartitionLog, **_options: Any) -> None:
            if log is bench.home.logs[T0]:
                raise CorruptRecordError("a record is damaged", path=log.directory, position=7, offset=3)

        bench.clean = clean
        for partition in (T0, T1):
            fill(bench.home.open(partition), 10)
        bench.start(backoff_ms=3_600_000)
        assert bench.state.await_cleaned(T1, 10, SOON_S * 1000)
        until(lambda: bench.state.uncleanable())
        assert "a record is damaged" in bench.state.uncleanable()[T0].reason
        assert "Marking its partition (log-0) as uncleanable" in caplog.text
        assert [name for name, *_ in bench.cleaned].count("log-0") == 1

    def test_retention_that_fails_sets_aside_too(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        log = bench.home.open(T0, cleanup_policy=BOTH)

        def fail() -> None:
            raise CorruptRecordError("damaged")

        monkeypatch.setattr(log, "delete_old_segments", fail)
        bench.start()
        until(lambda: list(bench.state.uncleanable()) == [T0])
        until(lambda: bench.state.state_of(T0) is None)

    def test_a_failed_disk_is_reported(self, bench: Bench) -> None:
        def clean(**_options: Any) -> None:
            raise StorageError("write failed", path=bench.home.path) from OSError(errno.EIO, "I/O error")

        bench.clean = clean
        fill(bench.home.open(T0), 10)
        bench.start()
        until(lambda: bench.home.failures)
        assert bench.home.failures[0].is_disk_failure
        until(lambda: bench.state.state_of(T0) is None)
        assert bench.state.uncleanable() == {}
        assert bench.metrics()["DeadThreadCount"] == 0

    def test_a_log_that_was_closed_meanwhile(self, bench: Bench) -> None:
        def clean(*, log: PartitionLog, **_options: Any) -> None:
            raise ClosedError("closed", path=log.directory)

        bench.clean = clean
        fill(bench.home.open(T0), 10)
        bench.start()
        until(lambda: len(bench.cleaned) > 1)
        assert (bench.state.uncleanable(), bench.home.failures) == ({}, [])

    def test_a_dead_thread_is_counted_and_the_others_go_on(self, bench: Bench) -> None:
        def clean(*, log: PartitionLog, **_options: Any) -> None:
            if log is bench.home.logs[T0]:
                bench.clean = lambda **_options: None
                raise MemoryError

        bench.clean = clean
        fill(bench.home.open(T0), 10)
        bench.start(threads=2)
        until(lambda: bench.metrics()["DeadThreadCount"] == 1)
        assert bench.state.await_cleaned(T0, 10, SOON_S * 1000)  # the dead thread's partition is free again
        bench.cleaner.reconfigure(QUICK)
        assert bench.metrics()["DeadThreadCount"] == 0

    def test_all_are_dead(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> None:
            raise SystemExit

        monkeypatch.setattr(bench.state, "take_filthiest", fail)
        bench.start(threads=3)
        until(lambda: bench.metrics()["DeadThreadCount"] == 3)


class TestSettings:
    def test_as_many_threads_as_are_wanted(self, bench: Bench) -> None:
        bench.start(threads=3)
        assert [thread.name for thread in bench.cleaner.threads] == [
            f"kafka-log-cleaner-thread-{number}" for number in range(3)
        ]
        bench.cleaner.reconfigure(QUICK)
        assert len(bench.cleaner.threads) == 1

    @pytest.mark.parametrize("most", [0, 2])
    def test_as_many_threads_as_are_to_be_had(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, most: int
    ) -> None:
        start = CleanerThread.start

        def start_some(thread: CleanerThread) -> None:
            if len(bench.cleaner.threads) == most:
                raise RuntimeError("can't start new thread")
            start(thread)

        with monkeypatch.context() as patch:
            patch.setattr(CleanerThread, "start", start_some)
            bench.start(threads=4)
        assert len(bench.cleaner.threads) == most
        assert f"The log cleaner goes on with {most} threads of 4: can't start new thread" in caplog.text
        bench.cleaner.reconfigure(QUICK)
        assert len(bench.cleaner.threads) == 1

    def test_a_thread_waits_no_longer_than_it_can(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        class Told(threading.Event):
            asked: ClassVar[list[float | None]] = []

            def wait(self, timeout: float | None = None) -> bool:
                self.asked.append(timeout)
                return super().wait(timeout)

        thread = CleanerThread(0, replace(bench.work(), settings=CleanerSettings(backoff_ms=2**63 - 1)))
        monkeypatch.setattr(thread, "_stopping", Told())
        thread.start()
        until(lambda: Told.asked)
        thread.stop()
        thread.join()
        assert Told.asked == [3600.0]
        assert not thread.is_dead

    def test_the_throttle_follows(self, bench: Bench) -> None:
        throttle = bench.cleaner.throttle
        bench.cleaner.reconfigure(CleanerSettings(io_max_bytes_per_second=10.0))
        assert (bench.cleaner.throttle, throttle.per_second) == (throttle, 10.0)
        assert bench.cleaner.threads == ()  # it was not running


class TestMetrics:
    def test_of_the_last_clean(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        log = bench.home.open(T0, max_compaction_lag_ms=10_000)
        fill(log, 10)
        bench.home.clock.now += 15_900
        take, looks = bench.state.take_filthiest, []

        def look() -> Any:
            looks.append(take())
            return looks[-1]

        monkeypatch.setattr(bench.state, "take_filthiest", look)
        bench.start(backoff_ms=3_600_000)
        until(lambda: len(looks) == 2)  # the second look found nothing, so the thread waits
        bench.home.clock.now += 30
        found = bench.metrics()
        assert found["max-buffer-utilization-percent"] == 50
        assert found["cleaner-recopy-percent"] == 49
        assert found["max-clean-time-secs"] == 7
        assert found["max-compaction-delay-secs"] == 5
        assert found["time-since-last-run-ms"] == 30

    def test_the_largest_of_all_threads(self, bench: Bench) -> None:
        bench.start(threads=3, backoff_ms=3_600_000)
        bench.cleaner.shutdown()
        assert not any(bench.metrics()[name] for name in OF_THREADS)
        first, second, third = threads = [CleanerThread(number, bench.work()) for number in range(3)]
        first.last_stats = CleanerStats(
            start_ms=0, end_ms=2_000, bytes_read=10, bytes_written=5, buffer_utilization=0.3
        )
        second.last_stats = CleanerStats(start_ms=0, end_ms=9_900, bytes_read=90, buffer_utilization=0.2)
        third.last_max_delay_ms = 12_999
        bench.cleaner._threads = tuple(threads)
        found = bench.metrics()
        bench.cleaner._threads = ()
        assert [found[name] for name in OF_THREADS] == [30, 5, 9, 12, 0]

    def test_of_each_log_directory(self, bench: Bench) -> None:
        for partition, path in ((T0, bench.home.path), (T1, bench.home.path), (T2, bench.home.other)):
            fill(bench.home.open(partition, path), 10)
        for partition in (T0, T1):
            bench.state.mark_uncleanable(partition, bench.home.logs[partition], "broken")
        found = bench.metrics()

        def of(name: str, path: Path) -> float:
            return found[f"{name} {path}"]

        assert of("uncleanable-partitions-count", bench.home.path) == 2
        assert of("uncleanable-bytes", bench.home.path) == sum(bench.home.logs[one].size for one in (T0, T1))
        assert of("uncleanable-partitions-count", bench.home.other) == 0
        del bench.home.logs[T0]
        found = bench.metrics()
        assert of("uncleanable-partitions-count", bench.home.path) == 1

    def test_the_filthiest(self, bench: Bench) -> None:
        log = bench.home.open(T0)
        fill(log, 10)
        put(log, "k")
        taken = bench.state.take_filthiest()
        assert taken is not None
        assert bench.metrics()["max-dirty-percent"] == 100
        bench.state.done_cleaning(taken, 8)
        assert bench.state.take_filthiest() is not None
        assert bench.metrics()["max-dirty-percent"] == int(100 * bench.state.max_dirty_ratio) < 100

    def test_all_that_are_described_are_there(self, bench: Bench) -> None:
        for change in (bench.cleaner.startup, lambda: bench.cleaner.reconfigure(QUICK), bench.cleaner.shutdown):
            samples = {sample.name.name for sample in cleaner_samples(bench.cleaner, [bench.home.path])}
            assert samples == {one.name for one in METRICS} - {"cleaner-io"}
            change()
