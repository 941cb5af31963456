"""The run of a mirror, from the first look at the source to the clean end of the copy.

The states are *new* -> ``run`` -> *over*. ``stop`` may come at any time and from any thread; the run then ends cleanly.

================  ====================================================================================================
a run that        does
================  ====================================================================================================
does not follow   one round of ``bounded_round``: up to the source's high watermarks at its beginning
follows           one round after the other, while other topics are copied all the time, and rounds of
                  ``topic_rounds`` every few seconds
is stopped        ends fetches, closes the logs and writes the marker of a clean shutdown
fails             the same for a limit or an error of the source; after a failed disk, nothing more is written
================  ====================================================================================================

Thread rule: the event loop only, but for ``stop``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from tidelog.client.cluster.cluster_client import ClusterClient
from tidelog.client.model.errors import ClientError
from tidelog.mirroring.planning.options import MirrorOptions
from tidelog.mirroring.planning.plan import free_bytes, require_same_cluster
from tidelog.mirroring.run.bounded_round import BoundedRound
from tidelog.mirroring.run.copying import Copying, CopyingSetup
from tidelog.mirroring.run.limits import DiskLimit, RateLimit
from tidelog.mirroring.run.partition_copy import WAITING
from tidelog.mirroring.run.progress import (
    EventCallback,
    MirrorResult,
    ProgressCallback,
    ProgressMeter,
    copied_partition,
)
from tidelog.mirroring.run.topic_rounds import RoundsSetup, TopicRounds
from tidelog.mirroring.source.source_cluster import SourceCluster
from tidelog.mirroring.source.source_topics import TopicSelection
from tidelog.mirroring.target.directory_survey import survey_directory
from tidelog.mirroring.target.group_writer import GroupWriter
from tidelog.mirroring.target.mirror_directory import DirectorySetup, MirrorDirectory
from tidelog.mirroring.target.target_settings import TargetSettings
from tidelog.model import LockedError, TidelogError
from tidelog.runtime import SYSTEM_CLOCK, Clock, ThreadScheduler
from tidelog.storage.fs import LOCAL, FileSystem

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_PROGRESS_S: Final = 0.5
_ROUND_S: Final = 1.0
"""The time between two rounds over the coordinators' topics."""
_ENDS_TIMEOUT_S: Final = 30.0
_SHORT_WAIT_MS: Final = 10
"""The wait of a fetch if all wanted records are at the source already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    """The outside of a run, which tests replace."""

    fs: FileSystem = LOCAL
    clock: Clock = SYSTEM_CLOCK
    free_bytes: Callable[[Path], int] = free_bytes


class MirrorRun:
    def __init__(
        self,
        options: MirrorOptions,
        *,
        on_progress: ProgressCallback = lambda _progress: None,
        on_event: EventCallback = lambda _event: None,
        environment: RunEnvironment | None = None,
    ) -> None:
        self._options = options
        self._on_progress = on_progress
        self._on_event = on_event
        self._environment = environment or RunEnvironment()
        self._events: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._is_stopped = False
        self._copying: Copying | None = None

    def stop(self) -> None:
        """End the run cleanly, as soon as the work in progress is done. Thread rule: any thread."""
        self._is_stopped = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def run(self) -> MirrorResult:
        """Copy, and return the result.

        Raise ClientError if the source cannot be reached or refuses this client. Raise DirectoryError or LockedError
        for the directory, DiskLimitError at the limit of the disk, and StorageError if the disk fails.
        """
        self._loop = asyncio.get_running_loop()
        if self._is_stopped:
            self._stopping.set()
        clock = self._environment.clock
        meter = ProgressMeter(clock.monotonic_ms())
        begun_ms = clock.monotonic_ms()
        async with self._opened() as (copying, rounds):
            watching = [
                self._loop.create_task(self._watch_topics(copying, rounds)),
                self._loop.create_task(self._show_progress(copying, meter)),
            ]
            try:
                await self._copy(copying)
                copying.require_healthy()
            finally:
                for task in watching:
                    task.cancel()
                await asyncio.gather(*watching, return_exceptions=True)
                await copying.stop()
            self._on_progress(meter.measure(copying.copies.values(), copying.copied_bytes, clock.monotonic_ms()))
            return MirrorResult(
                partitions=[copied_partition(copy) for _, copy in sorted(copying.copies.items())],
                copied_bytes=copying.copied_bytes,
                elapsed_ms=clock.monotonic_ms() - begun_ms,
                events=tuple(self._events),
                notes=rounds.notes,
            )

    # --- the parts ---

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[Copying, TopicRounds]]:
        """Open the source and the copy, and take over the topics. At the end, close all of them."""
        options, environment = self._options, self._environment
        async with AsyncExitStack() as stack:
            pool = ThreadPoolExecutor(max(2, options.fetchers * 2), thread_name_prefix="mirror-append")
            stack.callback(pool.shutdown)
            in_thread = _in_pool(pool)
            client = await stack.enter_async_context(ClusterClient(options.source))
            source = SourceCluster(client)
            selection = TopicSelection.of(options.topics, with_coordinators=options.with_coordinators)
            topics = await source.topics(selection)
            survey = await in_thread(survey_directory, environment.fs, options.directory)
            require_same_cluster(options, survey, topics.cluster_id)
            if survey.holder is not None:
                raise LockedError(
                    f"process {survey.holder} uses the copy, and one process writes a copy: stop it first, or name"
                    " another directory",
                    path=options.directory,
                )
            scheduler = ThreadScheduler(4, clock=environment.clock)
            scheduler.startup()
            stack.callback(scheduler.shutdown)
            directory = MirrorDirectory(
                DirectorySetup(
                    fs=environment.fs,
                    settings=TargetSettings.of(options.directory, node_id=options.node_id, release=options.release),
                    source_cluster_id=topics.cluster_id,
                    compacts=options.follows,
                    clock=environment.clock,
                    scheduler=scheduler,
                    in_thread=in_thread,
                    on_failure=self._disk_failed,
                )
            )
            stack.push_async_callback(directory.close)
            await directory.open()
            copying = self._copying = Copying(self._copying_setup(source, directory, in_thread))
            stack.push_async_callback(copying.stop)
            rounds = TopicRounds(
                RoundsSetup(options=options, selection=selection, source=source, directory=directory, copying=copying)
            )
            await rounds.begin(topics)
            yield copying, rounds

    def _copying_setup(self, source: SourceCluster, directory: MirrorDirectory, in_thread: Any) -> CopyingSetup:
        options, environment = self._options, self._environment
        rate = RateLimit(options.max_rate)
        return CopyingSetup(
            source=source,
            directory=directory,
            clock=environment.clock,
            in_thread=in_thread,
            rate=rate,
            disk=DiskLimit(options.directory, options.min_free, lambda: environment.free_bytes(options.directory)),
            fetchers=options.fetchers,
            max_wait_ms=options.fetch_max_wait_ms if options.follows else _SHORT_WAIT_MS,
            max_bytes=min(options.fetch_max_bytes, rate.largest_fetch or options.fetch_max_bytes),
            accepts_loss=options.accepts_loss,
            report=self._report,
        )

    async def _copy(self, copying: Copying) -> None:
        setup = copying.setup
        groups = GroupWriter(setup.directory, setup.clock, setup.in_thread) if self._options.with_coordinators else None
        bounded = BoundedRound(copying, lambda is_over: self._until(copying, is_over), groups)
        if not self._options.follows:
            await bounded.run(timeout_s=_ENDS_TIMEOUT_S)
            return
        was_whole = True
        while not self._stopping.is_set():
            is_whole = await bounded.run(timeout_s=_ROUND_S)
            if was_whole and not is_whole and not self._stopping.is_set():
                self._report("Groups and transactions wait in the copy, because a partition has an error")
            was_whole = is_whole
            copying.require_healthy()
            await self._pause(_ROUND_S)

    async def _until(self, copying: Copying, is_over: Callable[[], bool]) -> bool:
        """Wait until ``is_over``, the run is stopped, or nothing was copied for ``leader_timeout_ms``."""
        clock = self._environment.clock
        moved_ms, moved_bytes = clock.monotonic_ms(), copying.copied_bytes
        while not is_over():
            copying.require_healthy()
            if self._stopping.is_set():
                return False
            if copying.copied_bytes != moved_bytes:
                moved_ms, moved_bytes = clock.monotonic_ms(), copying.copied_bytes
            elif clock.monotonic_ms() - moved_ms > self._options.leader_timeout_ms and not self._options.follows:
                self._give_up(copying)
                return False
            copying.has_changed.clear()
            stopping = asyncio.ensure_future(self._stopping.wait())
            changed = asyncio.ensure_future(copying.has_changed.wait())
            await asyncio.wait({stopping, changed}, timeout=_PROGRESS_S, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            changed.cancel()
        return True

    def _give_up(self, copying: Copying) -> None:
        for copy in copying.copies.values():
            if not copy.is_at_end and copy.bound != WAITING and copy.error is None:
                waited_s = self._options.leader_timeout_ms // 1000
                copy.error = TidelogError(f"{copy.partition}: no record came for {waited_s} s; is its leader alive?")

    async def _watch_topics(self, copying: Copying, rounds: TopicRounds) -> None:
        """Run the rounds over the source's metadata."""
        follows = self._options.follows
        interval_s = self._options.metadata_interval_ms / 1000
        while True:
            try:
                async with asyncio.timeout(interval_s):
                    await copying.needs_metadata.wait()
            except TimeoutError:
                pass
            copying.needs_metadata.clear()
            try:
                await (rounds.refresh() if follows else rounds.refresh_leaders())
            except ClientError as error:
                if not error.is_retriable:
                    copying.fail(error)
                    return
            except Exception as error:
                copying.fail(error)
                return
            await asyncio.sleep(self._options.retry_backoff_ms / 1000)

    async def _show_progress(self, copying: Copying, meter: ProgressMeter) -> None:
        while True:
            now_ms = self._environment.clock.monotonic_ms()
            self._on_progress(meter.measure(copying.copies.values(), copying.copied_bytes, now_ms))
            await asyncio.sleep(_PROGRESS_S)

    def _disk_failed(self, error: TidelogError) -> None:
        """End the run. Thread rule: any thread. Before the copying begins, opening the directory raises the error."""
        if self._loop is not None and self._copying is not None:
            self._loop.call_soon_threadsafe(self._copying.fail, error)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _report(self, event: str) -> None:
        self._events.append(event)
        self._on_event(event)


def _in_pool(pool: ThreadPoolExecutor) -> Any:
    def in_thread(
        function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Awaitable[Result]:
        return asyncio.get_running_loop().run_in_executor(pool, lambda: function(*args, **kwargs))

    return in_thread
