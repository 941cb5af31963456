"""The images of an observed metadata log: the committed records are applied one batch after the other, and published.

=========  =========================================================================================================
committed  the records up to the batch that is being published. Logs that are created use it
published  what the broker and its clients see. A part follows it by ``published.subscribe``
=========  =========================================================================================================

``advance`` tells the high watermark, and ``run`` reads the log up to it. Until ``split`` there is only one image, and
nothing follows it: the broker is catching up. Then the published image stands still until ``release``: the broker loads
its logs with it. From then on, each batch is published as ``PublishedMetadata`` does it, one after the other. A log
that starts above the image was replaced by a snapshot: the difference of the images is published as one change.

Snapshots are written as a controller does it. Thread rule: the event loop only, but for ``load``. Source: Kafka's
``MetadataLoader``, ``MetadataBatchLoader``, ``SnapshotGenerator``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.runtime import Clock
from tidelog.runtime.executor import InThread
from tidelog.server.metadata.image import MetadataChange, MetadataImage
from tidelog.server.metadata.kraft.batches import MetadataBatch
from tidelog.server.metadata.kraft.directory_check import require_observable_image
from tidelog.server.metadata.kraft.image_difference import image_difference
from tidelog.server.metadata.kraft.quorum import Voters
from tidelog.server.metadata.kraft.replay import MetadataReplay
from tidelog.server.metadata.kraft.snapshot_schedule import SnapshotSchedule
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.observer.observed_log import CommittedBatches, ObservedLog
from tidelog.server.metadata.published_metadata import PublishedMetadata, apply_all
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId

_AT_ONCE: Final = 100
"""Batches to apply, while the broker catches up, before other tasks of the event loop get a turn."""
_log: Final = logging.getLogger(__name__)


class ObservedImage:
    def __init__(
        self, cluster_id: str, voters: Voters, config: BrokerConfig, clock: Clock, in_thread: InThread
    ) -> None:
        """Create an empty image. ``voters`` are those of the node's properties, which count if the log has none."""
        self.committed = MetadataImage(cluster_id=cluster_id)
        self.published = PublishedMetadata(self.committed)
        self.disk = asyncio.Lock()
        """Held while the log is read or changed."""
        self.on_voters: Callable[[Voters], None] = lambda _voters: None
        """Called when the log has other voters than before."""
        self._properties_voters = self._told_voters = voters
        self._replay = MetadataReplay(self.committed, voters, path=Path())
        self._in_thread = in_thread
        self._schedule = SnapshotSchedule(config, clock)
        self._end_offset = self._epoch = self._high_watermark = 0
        """The offset after the last committed record that was applied, its epoch, and the offset to reach."""
        self._is_split = False
        self._log: ObservedLog | None = None
        self._news = asyncio.Event()
        self._may_publish = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def voters(self) -> Voters:
        return self._replay.voters

    def load(self, log: ObservedLog) -> None:
        """Read the newest snapshot into the image, in a background thread. The log after it may not be committed.

        Raise CheckpointError if the snapshot is damaged.
        """
        self._log = log
        self._replay = self._new_replay(self.committed)
        newest = log.newest_snapshot
        if newest is not None:
            for batch in log.snapshot_batches(newest):
                self._replay.apply(batch)
            self._end_offset, self._epoch = newest
            self.published.end_offset = newest.offset

    # --- following ---

    def advance(self, high_watermark: int) -> None:
        """Apply the records up to here as soon as possible."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        self._news.set()

    def split(self) -> None:
        """Begin to publish, once the broker has caught up. Raise DirectoryError if it cannot serve this metadata."""
        assert self._log is not None, "not loaded"
        require_observable_image(self.committed, self._log.directory)
        self.published.image = self.committed.copy()
        self._is_split = True

    def release(self) -> None:
        """Publish from now on: the broker's parts follow the image."""
        self._may_publish.set()

    async def run(self) -> None:
        """Apply and publish until the task is cancelled. Raise StorageError or CorruptRecordError."""
        while True:
            await self._news.wait()
            self._news.clear()
            while await self._go_on():
                pass
            if self._is_split and self._schedule.is_due and not self._replay.is_in_transaction:
                self._schedule.begin()
                self._spawn(self._write_snapshot())

    async def close(self) -> None:
        """Wait for the snapshot that is being written, and for the listeners' work. Idempotent."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _go_on(self) -> bool:
        """Apply the next batches or a snapshot. Return False if there are none."""
        log = self._log
        assert log is not None, "not loaded"
        async with self.disk:
            newest = log.newest_snapshot if self._end_offset < log.log_start_offset else None
            if newest is not None:
                contents = await self._in_thread(log.snapshot_batches, newest)
            elif self._end_offset < self._high_watermark:
                found = await self._in_thread(log.committed_batches, self._end_offset, self._high_watermark)
            else:
                return False
        if newest is not None:
            await self._replace(newest, contents)
        else:
            await self._apply(found)
        if self._replay.voters != self._told_voters:
            self._told_voters = self._replay.voters
            self.on_voters(self._told_voters)
        return True

    async def _apply(self, found: CommittedBatches) -> None:
        self._schedule.note(found.size)
        for number, batch in enumerate(found.batches, 1):
            change = MetadataChange(end_offset=batch.last_offset + 1)
            records = self._replay.apply(batch, change)
            self._require_known()
            self._end_offset, self._epoch = change.end_offset, batch.epoch
            await self._publish(records, change)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _replace(self, snapshot: SnapshotId, batches: Iterable[MetadataBatch]) -> None:
        """Replace the image by a snapshot, and publish the difference."""
        after = MetadataImage(cluster_id=self.committed.cluster_id, controller_id=self.committed.controller_id)
        replay = self._new_replay(after)
        for batch in batches:
            replay.apply(batch)
        before, self.committed, self._replay = self.committed, after, replay
        self._require_known()
        self._end_offset, self._epoch = snapshot
        if not self._is_split:
            self.published.image, self.published.end_offset = after, snapshot.offset
            return
        records = list(image_difference(before, after))
        await self._publish(records, apply_all(before, records, snapshot.offset))

    async def _publish(self, records: Iterable[MetadataRecord], change: MetadataChange) -> None:
        if not self._is_split:
            self.published.end_offset = change.end_offset
            return
        await self._may_publish.wait()
        for waiting in await self.published.publish(records, change):
            self._spawn(waiting)

    # --- parts ---

    def _new_replay(self, image: MetadataImage) -> MetadataReplay:
        assert self._log is not None, "not loaded"
        return MetadataReplay(image, self._properties_voters, path=self._log.directory)

    def _require_known(self) -> None:
        """Raise DirectoryError if a later release has written a record."""
        if self.committed.skipped_records and self._log is not None:
            require_observable_image(self.committed, self._log.directory)

    async def _write_snapshot(self) -> None:
        log, image = self._log, self.committed.copy()
        assert log is not None, "not loaded"
        id_, quorum = SnapshotId(self._end_offset, self._epoch), self._replay.voters.control_records()
        await self._in_thread(log.write_snapshot, id_, image, quorum, log.last_timestamp_ms)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("A listener of the cluster metadata failed", exc_info=error)
