"""The parallel loading of every partition in several log directories at startup.

A directory with large logs to recover gets ``num.recovery.threads.per.data.dir`` threads, since kernels release the
GIL. They share the segments of one log (``parallel_walks``). Small logs are mostly Python code, which threads cannot
run in parallel: one thread loads them, while another one reads the next ones. The logs with the most bytes to recover
go first, so that a large partition does not run alone at the end. A partition that fails to load is a result like any
other, and the rest go on. This module makes no decisions about the loaded logs.

Thread rule: one thread calls ``run``. Any thread may read the remaining counts. Source: Kafka's
``LogManager.loadLogs``.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tidelog.model import DirectoryError, StorageError, TidelogError
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.runtime.ahead import run_ahead
from tidelog.runtime.collector import no_collections
from tidelog.runtime.parallel import ThreadGroup, run_groups
from tidelog.runtime.progress import Progress, ProgressCounter, ProgressListener
from tidelog.storage.fs import FileSystem, read_small
from tidelog.storage.log.load.listing import PartitionListing, list_with_sizes
from tidelog.storage.log.load.load_plan import first_unflushed_base
from tidelog.storage.log.load.loader import WORTH_A_THREAD_BYTES
from tidelog.storage.log.load.parallel_walks import WalkThreads
from tidelog.storage.log.load.survey import BATCH, survey
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.view.partitions import REMOTE_INDEX_CACHE
from tidelog.storage.manager.directory.directory_set import level_of
from tidelog.storage.manager.directory.log_directory import LogDirectory, LogOpening
from tidelog.storage.segment.file_names import DirectoryPurpose, FileKind, PartitionDirectoryName
from tidelog.storage.segment.segment_recovery import RecoveredSegment

REPORT_EVERY_MS = 10_000

_log = logging.getLogger(__name__)


class LoadedPartition(NamedTuple):
    directory: LogDirectory
    name: PartitionDirectoryName
    path: Path
    log: PartitionLog | None
    error: TidelogError | None
    """The reason if there is no log."""
    loaded_ms: int


@dataclass(slots=True, kw_only=True)
class LoadedDirectories:
    partitions: list[LoadedPartition]
    strays: list[Path]
    """Directories that an earlier run set aside. They are not loaded."""
    unknown: list[Path]
    """Directories whose names are no partition's."""


class _Job(NamedTuple):
    directory: LogDirectory
    name: PartitionDirectoryName
    path: Path
    segments: int = 0
    """The number of segments to recover, with ``unflushed_bytes`` in total."""
    unflushed_bytes: int = 0
    listing: PartitionListing | None = None


class Loading:
    """The loading at one startup."""

    def __init__(
        self,
        fs: FileSystem,
        directories: Sequence[LogDirectory],
        opening: LogOpening,
        *,
        threads: int,
        on_progress: ProgressListener | None = None,
    ) -> None:
        """``threads`` is the number per directory."""
        self._fs = fs
        self._directories = directories
        self._opening = opening
        self._threads = threads
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._loading_small: set[Path] = set()
        """The log directories of which a thread loads the small logs."""
        self._begun_ms = self._reported_ms = opening.clock.monotonic_ms()
        self.remaining_logs: dict[Path, int] = {}
        """Kafka's ``remainingLogsToRecover``, by log directory."""
        self.remaining_segments: dict[tuple[Path, int], int] = {}
        """Kafka's ``remainingSegmentsToRecover``, by log directory and thread."""

    def run(self) -> LoadedDirectories:
        """Load everything. A log directory that cannot be listed has failed, and the rest are loaded."""
        found = LoadedDirectories(partitions=[], strays=[], unknown=[])
        work = {directory.path: deque(self._find(directory, found)) for directory in self._directories}
        self.remaining_logs = {path: len(jobs) for path, jobs in work.items()}
        total = sum(self.remaining_logs.values())
        bytes_total = sum(job.unflushed_bytes for jobs in work.values() for job in jobs)
        progress = ProgressCounter(total, bytes_total, self._report, clock=self._opening.clock)

        def stop() -> None:
            for jobs in work.values():
                jobs.clear()

        with no_collections(), WalkThreads() if bytes_total else nullcontext() as walks:
            load = partial(self._load_all, progress=progress, walks=walks)
            for loaded in run_groups(load, self._groups(work), stop=stop):
                found.partitions += loaded
        _log.info("Loaded %d logs in %d ms", total, self._opening.clock.monotonic_ms() - self._begun_ms)
        return found

    # --- inside ---

    def _find(self, directory: LogDirectory, found: LoadedDirectories) -> list[_Job]:
        """Return the partitions to load in one log directory, those with the most bytes to recover first."""
        jobs: deque[_Job] = deque()
        try:
            for text in self._fs.list_directories(directory.path):
                if text != REMOTE_INDEX_CACHE:
                    jobs += self._jobs_for(directory, text, found)
            if not directory.was_clean:
                jobs = deque(map(self._with_sizes, self._surveyed(jobs)))
        except StorageError as error:
            self._opening.on_failure(error)
            return []
        if directory.was_clean:
            _log.info("Skipping recovery of %d logs in %s: a clean shutdown file was found", len(jobs), directory.path)
        else:
            _log.info("Recovering %d logs in %s: no clean shutdown file was found", len(jobs), directory.path)
        return sorted(jobs, key=lambda job: -job.unflushed_bytes)

    def _surveyed(self, jobs: deque[_Job]) -> Iterator[_Job]:
        """Take one of the jobs after the other until none is left. The next ones are surveyed meanwhile."""
        batches = iter(lambda: self._take(jobs, BATCH), [])
        surveys = (
            (batch, survey(self._fs, [job.path for job in batch], index_ends=not batch[0].directory.was_clean))
            for batch in batches
        )
        for batch, listings in run_ahead(surveys):
            for job, listing in zip(batch, listings, strict=True):
                yield job._replace(listing=listing)

    def _jobs_for(self, directory: LogDirectory, text: str, found: LoadedDirectories) -> list[_Job]:
        """Return the work for a directory of that name."""
        path = directory.path / text
        try:
            name = PartitionDirectoryName.parse(text)
        except DirectoryError as error:
            _log.warning("%s in %s; the directory is ignored", error.message, directory.path)
            found.unknown.append(path)
            return []
        if name.purpose is DirectoryPurpose.STRAY:
            _log.warning("Found stray log: %s", path)
            found.strays.append(path)
            return []
        return [] if name.topic_partition.topic == CLUSTER_METADATA_TOPIC else [_Job(directory, name, path)]

    def _with_sizes(self, job: _Job) -> _Job:
        """Add the segments to recover after an unclean shutdown."""
        if job.name.purpose is DirectoryPurpose.DELETE:
            return job
        listing = job.listing or list_with_sizes(self._fs, job.path)
        recovery_point = job.directory.recovery_point(job.name.topic_partition)
        first = first_unflushed_base(listing.base_offsets, recovery_point)
        sizes = [
            max(0, segment.sizes[FileKind.LOG])
            for segment in listing.segments
            if first is not None and segment.base_offset >= first
        ]
        return job._replace(segments=len(sizes), unflushed_bytes=sum(sizes), listing=listing)

    def _groups(self, work: Mapping[Path, deque[_Job]]) -> Iterator[ThreadGroup[tuple[deque[_Job], int]]]:
        """Yield the threads of each log directory. A thread's item is the directory's jobs with the thread's number."""
        for path, jobs in work.items():
            threads = self._threads if any(job.unflushed_bytes for job in jobs) else 1
            yield ThreadGroup(f"log-recovery-{path}", threads, [(jobs, number) for number in range(threads)])

    def _load_all(
        self, thread: tuple[deque[_Job], int], *, progress: ProgressCounter, walks: WalkThreads | None
    ) -> list[LoadedPartition]:
        """Load one of the jobs after the other until none is left. Each thread of a directory runs it."""
        jobs, number = thread
        if jobs and jobs[0].directory.was_clean:
            taken = self._surveyed(jobs)
        else:
            large = chain.from_iterable(iter(lambda: self._take_large(jobs), []))
            taken = chain(large, self._small_ones(jobs))
        return [self._load(job, (job.directory.path, number), progress, walks) for job in taken]

    def _small_ones(self, jobs: deque[_Job]) -> Iterator[_Job]:
        """Take the small logs, unless another thread does. The last segments of the next ones are read meanwhile."""
        with self._lock:
            path = jobs[0].directory.path if jobs else None
            if path is None or path in self._loading_small:
                return
            self._loading_small.add(path)
        batches = iter(lambda: self._take(jobs, BATCH), [])
        for batch in run_ahead(list(map(self._with_last_segment, batch)) for batch in batches):
            yield from batch

    def _take_large(self, jobs: deque[_Job]) -> list[_Job]:
        with self._lock:
            return [jobs.popleft()] if jobs and jobs[0].unflushed_bytes >= WORTH_A_THREAD_BYTES else []

    def _take(self, jobs: deque[_Job], count: int) -> list[_Job]:
        with self._lock:
            return [jobs.popleft() for _ in range(min(count, len(jobs)))]

    def _load(
        self, job: _Job, thread: tuple[Path, int], progress: ProgressCounter, walks: WalkThreads | None
    ) -> LoadedPartition:
        """Load one partition. ``thread`` is the log directory and the thread's number there."""
        self.remaining_segments[thread] = job.segments
        left = job.unflushed_bytes

        def on_segment(segment: RecoveredSegment) -> None:
            nonlocal left
            read = min(left, segment.size + segment.truncated_bytes)
            left -= read
            self.remaining_segments[thread] = max(0, self.remaining_segments[thread] - 1)
            progress.add(read)

        log, problem = None, None
        try:
            log = job.directory.open_log(
                job.path, job.name, self._opening, threads=walks, on_segment=on_segment, listing=job.listing
            )
        except TidelogError as error:
            _log.log(level_of(error), "%s cannot be loaded: %s", job.path, error)
            problem = error
        self.remaining_segments[thread] = 0
        with self._lock:
            self.remaining_logs[job.directory.path] -= 1
        progress.add(left, logs=1)
        return LoadedPartition(job.directory, job.name, job.path, log, problem, self._opening.clock.now_ms())

    def _with_last_segment(self, job: _Job) -> _Job:
        """Read the last segment of a log, if it must be recovered and is small. The loader opens all others."""
        if job.listing is None or not job.segments:
            return job
        last = job.listing.segments[-1]
        file = read_small(self._fs, last.path(job.path, FileKind.LOG), last.sizes[FileKind.LOG])
        return job if file is None else job._replace(listing=replace(job.listing, logs={last.base_offset: file}))

    def _report(self, progress: Progress) -> None:
        if self._on_progress is not None:
            self._on_progress(progress)
        now_ms = self._opening.clock.monotonic_ms()
        if now_ms - self._reported_ms >= REPORT_EVERY_MS:
            self._reported_ms = now_ms
            _log.info("Loading: %s", describe_progress(progress))


def describe_progress(progress: Progress) -> str:
    """Describe the progress: ``120 of 2000 logs, 3.5 of 10.0 MB recovered, about 12 s left``."""
    parts = [f"{progress.logs_done} of {progress.logs_total} logs"]
    if progress.bytes_total:
        parts.append(f"{progress.bytes_done / 1e6:.1f} of {progress.bytes_total / 1e6:.1f} MB recovered")
    if progress.left_ms is not None:
        parts.append(f"about {progress.left_ms // 1000} s left")
    return ", ".join(parts)
