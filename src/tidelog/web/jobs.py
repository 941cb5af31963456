"""Work that may take longer than a page: it runs in background threads, and its result is kept for a while.

A page asks for a result by a key. If the work ends within ``wait_seconds``, the page gets the result. Otherwise
``StillRunningError`` tells how far it is; the page that people see then loads itself again, and the work goes on. So
every response is quick, whatever the size of a log. Work that no page asked about for a minute is cancelled.

A result belongs to a ``signature`` of its inputs, such as the names and sizes of files. Another signature starts the
work again. A running broker changes its files all the time, so a signature would never stay the same while long work
goes on. ``max_age_ms`` is for these: the result is kept that long, and at least ten times as long as its work took.
Thread rule: any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from tidelog.model import CancelledError, TidelogError
from tidelog.runtime.clock import SYSTEM_CLOCK, Clock

T = TypeVar("T")
_THREADS = 4
"""Quick jobs, such as the settings that many pages need, go on next to slow ones."""
_MOST_JOBS = 64
"""The jobs that are kept, running ones included."""
_ABANDONED_MS = 60_000
LIVE_AGE_MS = 250
"""The age of a report about files that a running broker changes, if the report is made quickly."""
_AGE_PER_WORK = 10
"""A report about files that change is kept for this many times the duration of its work."""


class BusyError(TidelogError):
    """Too much work is waiting."""


@dataclass(slots=True, eq=False)
class JobProgress:
    """The bytes that a job has read, and their expected total; 0 if that is not known. ``unit`` is the name of other
    counted things, such as logs."""

    begun_ms: int
    total: int = 0
    done: int = 0
    unit: str = "bytes"
    is_cancelled: bool = False
    asked_ms: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, total: int, unit: str = "bytes") -> None:
        self.total = total
        self.unit = unit

    def advance(self, count: int) -> None:
        """Count bytes or other things. Raise CancelledError if no page waits for the result any longer."""
        with self.lock:
            self.done += count
        if self.is_cancelled:
            raise CancelledError("no page waits for this report any longer")

    @property
    def share(self) -> float | None:
        """The share that is done, between 0 and 1."""
        return min(1.0, self.done / self.total) if self.total else None


class StillRunningError(Exception):
    """A job is not done yet."""

    def __init__(self, title: str, progress: JobProgress) -> None:
        super().__init__(title)
        self.title = title
        self.progress = progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Generic[T]):
    """A result, the time at which its work began, and how long it took."""

    value: T
    made_at_ms: int
    took_ms: int


@dataclass(slots=True, eq=False)
class _Job:
    signature: Hashable
    progress: JobProgress
    future: Future[Finished[object]]

    def cancel(self) -> None:
        """End the work at its next ``advance``, and at once if it waits for a thread."""
        self.progress.is_cancelled = True
        self.future.cancel()


class Jobs:
    """``wait_seconds`` None waits for every result, as a command does."""

    def __init__(
        self, *, wait_seconds: float | None = 0.2, clock: Clock = SYSTEM_CLOCK, threads: int = _THREADS
    ) -> None:
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: OrderedDict[Hashable, _Job] = OrderedDict()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="report")

    def kept(self, key: Hashable) -> Finished[object] | None:
        """Return the result of the key's work if it is ready, whatever its signature. Start nothing."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None or not job.future.done() or job.future.cancelled() or job.future.exception() is not None:
                return None
            self._jobs.move_to_end(key)
            return job.future.result()

    def result(
        self,
        key: Hashable,
        work: Callable[[JobProgress], T],
        *,
        title: str,
        signature: Hashable = None,
        newer_than_ms: int = -1,
        max_age_ms: int | None = None,
    ) -> Finished[T]:
        """Return the result of the key's work, and start the work if there is no result for the signature.

        A result that was made at ``newer_than_ms`` or before is made again, and so is a result that is older than
        ``max_age_ms``. ``title`` is a clause for people about the work. Raise StillRunningError, BusyError, or the
        error of ``work``.
        """
        now_ms = self._clock.now_ms()
        with self._lock:
            job = self._jobs.get(key)
            if job is not None:
                job.progress.asked_ms = now_ms
            self._cancel_abandoned(now_ms)
            if job is not None and self._is_stale(job, signature, newer_than_ms, max_age_ms):
                job.cancel()
                del self._jobs[key]
                job = None
            if job is None:
                job = self._start(key, work, signature, now_ms)
            job.progress.asked_ms = now_ms
            self._jobs.move_to_end(key)
            self._cancel_abandoned(now_ms)
        if not wait((job.future,), timeout=self._wait_seconds).done or job.progress.is_cancelled:
            raise StillRunningError(title, job.progress)  # a request with another signature has cancelled this one
        error = job.future.exception()
        if error is not None:
            with self._lock:
                if self._jobs.get(key) is job:
                    del self._jobs[key]  # an error is not kept: the next page tries again
            raise error
        return cast(Finished[T], job.future.result())

    def close(self) -> None:
        """Cancel all work, and wait until it has ended."""
        with self._lock:
            for job in self._jobs.values():
                job.cancel()
        self._pool.shutdown(cancel_futures=True)

    def _is_stale(self, job: _Job, signature: Hashable, newer_than_ms: int, max_age_ms: int | None) -> bool:
        """Return True if the job's result must be made again."""
        # The work may have taken its cancellation for an error of a file, and then its result lacks that file.
        if job.signature != signature or job.progress.is_cancelled:
            return True
        if not job.future.done():
            return False
        age_ms = self._clock.now_ms() - job.progress.begun_ms
        if job.future.exception() is not None:
            return max_age_ms is not None and age_ms > max_age_ms
        made = job.future.result()
        if made.made_at_ms <= newer_than_ms:
            return True
        return max_age_ms is not None and age_ms - made.took_ms > max(max_age_ms, _AGE_PER_WORK * made.took_ms)

    def _start(self, key: Hashable, work: Callable[[JobProgress], T], signature: Hashable, now_ms: int) -> _Job:
        while len(self._jobs) >= _MOST_JOBS:
            done = next((other for other, job in self._jobs.items() if job.future.done()), None)
            if done is None:
                raise BusyError(f"{_MOST_JOBS} reports are being made; try again when some of them are ready")
            del self._jobs[done]
        progress = JobProgress(begun_ms=now_ms)

        def run() -> Finished[object]:
            begun_ms = self._clock.monotonic_ms()
            made_at_ms = self._clock.now_ms()
            value = work(progress)
            return Finished(value=value, made_at_ms=made_at_ms, took_ms=self._clock.monotonic_ms() - begun_ms)

        job = _Job(signature, progress, self._pool.submit(run))
        self._jobs[key] = job
        return job

    def _cancel_abandoned(self, now_ms: int) -> None:
        for job in self._jobs.values():
            if not job.future.done() and now_ms - job.progress.asked_ms > _ABANDONED_MS:
                job.cancel()
