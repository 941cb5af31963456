"""The store of the metadata: two images over one log, changes one after the other, and snapshots.

States: *new* -> ``load`` (in a background thread: the directories are locked, the log is replayed into the image) ->
``lead`` (a new epoch of this process) -> ``close``. A failed write leads to *failed*, where no change is possible.

=========  =========================================================================================================
committed  the controller decides by this image; it has every record that is on the disk
published  the broker and its clients see this image; it gets a change once the broker is ready for it
=========  =========================================================================================================

Changes take turns. A change is decided by the committed image, appended as one batch, flushed in a background thread,
and applied to the committed image. Then the next change has its turn. Changes are published in the same sequence: the
listeners prepare for a change (they create the logs of a new topic). Then the change is applied to the published image
and the listeners are notified, in one step of the event loop. So a client never sees a leader that is not ready. A
caller that stops waiting does not stop its change. A crash leaves all of a change or nothing, and no acknowledged
change is lost.

Thread rule: the event loop only, but for ``load``. Source: Kafka's ``QuorumController``, ``KafkaRaftClient``,
``MetadataLoader``, ``SnapshotGenerator``, ``BrokerMetadataPublisher``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tidelog.model import CheckpointError, CorruptRecordError, StorageError, TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.runtime import Clock, Scheduler
from tidelog.runtime.executor import InThread
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision
from tidelog.server.metadata.features import version_set_by
from tidelog.server.metadata.image import MetadataChange, MetadataImage
from tidelog.server.metadata.kraft.bootstrap_records import activation_records
from tidelog.server.metadata.kraft.directory_check import require_servable_image
from tidelog.server.metadata.kraft.metadata_log import MetadataLog, MetadataLogSettings
from tidelog.server.metadata.kraft.quorum import QuorumStatus, Voters, leader_change, past_voters, require_alone
from tidelog.server.metadata.kraft.replay import MetadataReplay, bootstrap_image
from tidelog.server.metadata.kraft.snapshot import BOOTSTRAP_ID, read_bootstrap_records
from tidelog.server.metadata.kraft.snapshot_schedule import SnapshotSchedule
from tidelog.server.metadata.metadata_record import MetadataRecord, encode_record
from tidelog.server.metadata.published_metadata import PublishedMetadata, apply_all
from tidelog.storage.fs import FileSystem

T = TypeVar("T")
_log = logging.getLogger(__name__)

CommitListener = Callable[[Sequence[MetadataRecord], MetadataChange], None]
"""A callback for the records of each change that is on the disk, before the next change is decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSetup:
    fs: FileSystem
    directory: Path
    """The log directory with the metadata."""
    settings: ControllerSettings
    static_voters: Voters | None
    clock: Clock
    scheduler: Scheduler
    in_thread: InThread
    endpoint: BrokerEndpoint | None = None
    """The endpoint at which other nodes reach this controller, or None if they cannot."""
    on_failure: Callable[[TidelogError], None]
    """A callback for a failed change: a disk error, or a contradiction to the image. The broker stops then."""


class MetadataStore:
    def __init__(self, setup: StoreSetup, image: MetadataImage) -> None:
        """Create a store that ``load`` fills. ``image`` is empty but for the cluster id."""
        self._setup = setup
        self.published = PublishedMetadata(image)
        self.committed = image
        """The committed image. It is the published image until the end of ``load``."""
        self.committed_end_offset = 0
        """The high watermark: the records below it are on the disk."""
        self.on_commit: list[CommitListener] = []
        self._turn = asyncio.Lock()
        self._publishing = asyncio.Lock()
        self._failure: TidelogError | None = None
        self._log: MetadataLog | None = None
        self._replay: MetadataReplay | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._snapshots = SnapshotSchedule(setup.settings.config, setup.clock)

    # --- start and end ---

    def load(self) -> None:
        """Open the log and read it into the image, in a background thread. The log directory must be locked. Raise
        ConfigError if the quorum has other voters, and StorageError or CorruptRecordError if the log cannot be read."""
        setup = self._setup
        config = setup.settings.config
        self._log = log = MetadataLog(
            setup.fs, setup.directory, MetadataLogSettings.of(config), setup.clock, setup.scheduler
        )
        known = setup.static_voters or past_voters(log.past_voters)
        self._replay = replay = MetadataReplay(self.image, known, path=log.directory)
        for batch in log.replay():
            replay.apply(batch)
        self._snapshots.note(log.replayed_bytes)
        require_alone(replay.voters, setup.settings.node_id)
        image = self._bootstrap_image() if replay.is_empty else self.image
        require_servable_image(image, log.directory, setup.settings.node_id, accepts_brokers=setup.endpoint is not None)
        self.committed, self.published.end_offset = self.image.copy(), log.end_offset
        self.committed_end_offset = log.end_offset
        _log.info("Loaded the cluster metadata up to offset %d, epoch %d", log.end_offset, log.epoch)

    async def become_leader(self) -> None:
        """Begin an epoch, and write the first records of a new cluster."""
        log, replay, node_id = self.log, self.replay, self._setup.settings.node_id
        voters = replay.voters.moved_to(self._setup.endpoint)
        first = [leader_change(node_id, voters)]
        if not replay.voters_in_log or voters != replay.voters:
            first += voters.control_records()
        replay.voters = voters
        static = voters.ids if voters.kraft_version == 0 else None
        await self._setup.in_thread(log.become_leader, static, first)
        self.image.controller_id = self.committed.controller_id = node_id
        bootstrap = await self._setup.in_thread(self._bootstrap_records) if replay.is_empty else []
        records = activation_records(replay, bootstrap, self._setup.settings)
        await self.change(lambda: Decision(records, None))
        if not records:
            await self._setup.in_thread(log.flush)
            self.committed_end_offset = log.end_offset
        _log.info("Node %d leads the cluster metadata in epoch %d", node_id, log.epoch)

    async def close(self) -> None:
        """Wait for the running change and snapshot, then close the log; idempotent."""
        async with self._turn:
            if self._failure is None:
                self._failure = StorageError("the cluster metadata is closed")
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._log is not None:
            await self._setup.in_thread(self._log.close)

    # --- changes ---

    async def change(self, decide: Callable[[], Decision[T]], timeout_ms: int | None = None) -> T:
        """Return the result of ``decide``, which uses the committed image, once its records are published. Raise the
        ApiError of ``decide``, REQUEST_TIMED_OUT if its turn comes later than ``timeout_ms``, or StorageError."""
        deadline_ms = None if timeout_ms is None else self._setup.clock.monotonic_ms() + timeout_ms
        return await asyncio.shield(self._spawn(self._in_turn(decide, deadline_ms)))

    async def _in_turn(self, decide: Callable[[], Decision[T]], deadline_ms: int | None) -> T:
        async with self._turn:
            if deadline_ms is not None and self._setup.clock.monotonic_ms() >= deadline_ms:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
            if self._failure is not None:
                raise ApiError(ErrorCode.NOT_CONTROLLER, str(self._failure))
            decision = decide()
            change = None
            if decision.records:
                try:
                    await self._write(decision.records)
                    change = self._commit(decision.records)
                except (StorageError, CorruptRecordError) as error:
                    self._fail(error)
                    raise
        # No await between the locks: asyncio.Lock is fair, so changes are published in the sequence of their turns.
        # A decision without records waits too, so that clients can see the image that it was based on.
        async with self._publishing:
            waiting = [] if change is None else await self.published.publish(decision.records, change)
        for done in waiting:
            await done
        return decision.result

    async def _write(self, records: Sequence[MetadataRecord]) -> None:
        version = version_set_by(records) or self.committed.metadata_version
        values = [encode_record(record, version) for record in records]
        self.log.append(values)
        await self._setup.in_thread(self.log.flush)
        self._snapshots.note(sum(map(len, values)))

    def _commit(self, records: Sequence[MetadataRecord]) -> MetadataChange:
        """Apply records that are on the disk to the committed image."""
        change = apply_all(self.committed, records, self.log.end_offset)
        self.committed_end_offset = change.end_offset
        for told in self.on_commit:
            told(records, change)
        if self._snapshots.is_due:
            self._snapshots.begin()
            self._spawn(self._write_snapshot())
        return change

    def _fail(self, error: TidelogError) -> None:
        _log.critical("The cluster metadata can no longer be changed: %s", error)
        self._failure = error
        self._setup.on_failure(error)

    # --- snapshots ---

    async def _write_snapshot(self) -> None:
        """Write a snapshot of the current committed image. Changes continue meanwhile."""
        log, image = self.log, self.committed.copy()
        quorum = self.replay.voters.control_records()
        await self._setup.in_thread(log.write_snapshot, log.snapshot_id, image, quorum, log.last_timestamp_ms)

    # --- queries ---

    @property
    def image(self) -> MetadataImage:
        """The published image."""
        return self.published.image

    @property
    def is_writable(self) -> bool:
        """True if the store is neither closed nor failed."""
        return self._failure is None

    @property
    def log(self) -> MetadataLog:
        assert self._log is not None, "not loaded"
        return self._log

    @property
    def replay(self) -> MetadataReplay:
        assert self._replay is not None, "not loaded"
        return self._replay

    @property
    def quorum(self) -> QuorumStatus:
        return QuorumStatus(
            leader_id=self._setup.settings.node_id,
            epoch=self.log.epoch,
            high_watermark=self.committed_end_offset,
            kraft_version=self.replay.voters.kraft_version,
            voters=self.replay.voters.voters,
        )

    # --- internals ---

    def _bootstrap_records(self) -> list[MetadataRecord]:
        records = read_bootstrap_records(self._setup.fs, self._setup.directory)
        if not records:
            raise CheckpointError(
                "the features of the new cluster are not defined: neither the snapshot of offset 0 nor"
                " bootstrap.checkpoint exists (`tidelog format` writes the snapshot)",
                path=self.log.directory / BOOTSTRAP_ID.file_name,
            )
        return records

    def _bootstrap_image(self) -> MetadataImage:
        """Return the image that a new cluster has once the controller leads."""
        return bootstrap_image(self._bootstrap_records(), path=self.log.directory)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        """Return a task that continues even if its caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark the error as retrieved; an awaiting caller still gets it
