"""The observers of the metadata log: other nodes that fetch it and its snapshots from this controller.

A Fetch gets records up to the high watermark, or one of these results:

=========================================  =============================================================================
state                                      result
=========================================  =============================================================================
another leader epoch than this one         FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH, with this leader
the observer begins, or is behind the log  the newest snapshot's id: it fetches that snapshot, and then the log after it
start
its last epoch ends elsewhere in this log  the diverging epoch and its end: it truncates
no record, and no news of the high         a wait of up to ``max_wait_ms``; a new record ends it
watermark
=========================================  =============================================================================

The high watermark is the end of the records on the disk. Records above it are not sent: a crash may lose them.
DescribeQuorum shows each observer's progress. Thread rule: the event loop only. Source: Kafka's ``KafkaRaftClient``
(``tryCompleteFetchRequest``, ``handleFetchSnapshotRequest``), ``ReplicatedLog``, ``LeaderState``; KIP-595, KIP-630.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch_response import SnapshotId
from tidelog.replication.observer_messages import FetchedMetadata, FetchedSnapshot, MetadataFetch, SnapshotFetch
from tidelog.runtime import Clock
from tidelog.runtime.executor import InThread
from tidelog.server.metadata.image import MetadataChange
from tidelog.server.metadata.kraft.metadata_store import MetadataStore
from tidelog.server.metadata.kraft.quorum import Observer, ObserverKey
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.storage.epoch import EpochEndOffset
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId as LogSnapshotId

_MAX_BYTES: Final = 1024 * 1024
"""The bytes of one response, but for a single batch above it."""
_FORGET_AFTER_MS: Final = 300_000
"""An observer without a Fetch for that time is no longer shown."""
_FIRST: Final = LogSnapshotId(0, 0)
"""The snapshot from formatting, which has no part of the log."""


class Observers:
    def __init__(self, store: MetadataStore, clock: Clock, in_thread: InThread) -> None:
        """Create the observers of a store that leads."""
        self._store = store
        self._clock = clock
        self._in_thread = in_thread
        self._known: dict[ObserverKey, Observer] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        store.on_commit.append(self._wake)

    # --- fetching ---

    async def fetch(self, key: ObserverKey, request: MetadataFetch, *, max_wait_ms: int) -> FetchedMetadata:
        """Return records, or wait for them."""
        response = self._fetch(key, request)
        if max_wait_ms <= 0 or not self._may_wait(request, response):
            return response
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        try:
            async with asyncio.timeout(max_wait_ms / 1000):
                await news
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(news)
        return self._fetch(key, request)

    async def fetch_snapshot(self, request: SnapshotFetch, max_bytes: int) -> FetchedSnapshot:
        """Return a part of a snapshot."""
        leader_id, epoch = self._store.quorum.leader_id, self._store.quorum.epoch

        def refused(code: ErrorCode) -> FetchedSnapshot:
            return FetchedSnapshot(error=code, leader_id=leader_id, leader_epoch=epoch)

        if (code := self._epoch_error(request.leader_epoch)) is not ErrorCode.NONE:
            return refused(code)
        id_, position = request.snapshot_id, request.position
        if id_.end_offset < 0 or id_.epoch < 0 or id_ == SnapshotId(*_FIRST):
            return refused(ErrorCode.SNAPSHOT_NOT_FOUND)
        limit = max(0, min(max_bytes, _MAX_BYTES))
        found = await self._in_thread(
            self._store.log.read_snapshot, LogSnapshotId(id_.end_offset, id_.epoch), max(0, position), limit
        )
        if found is None:
            return refused(ErrorCode.SNAPSHOT_NOT_FOUND)
        size, data = found
        if not 0 <= position < size:
            return refused(ErrorCode.POSITION_OUT_OF_RANGE)
        return FetchedSnapshot(
            leader_id=leader_id, leader_epoch=epoch, snapshot_id=id_, position=position, size=size, data=data
        )

    def _fetch(self, key: ObserverKey, request: MetadataFetch) -> FetchedMetadata:
        store = self._store
        leader_id, epoch, high_watermark = store.quorum.leader_id, store.quorum.epoch, store.committed_end_offset
        error = self._epoch_error(request.leader_epoch)
        diverging, snapshot_id, records = None, None, b""
        if error is ErrorCode.NONE:
            snapshot_id = self._snapshot_for(request)
            diverging = None if snapshot_id is not None else self._divergence(request)
        if error is ErrorCode.NONE and snapshot_id is None and diverging is None:
            self._note(key, request.offset)
            records = store.log.read(request.offset, high_watermark, _MAX_BYTES)
        return FetchedMetadata(
            error=error,
            leader_id=leader_id,
            leader_epoch=epoch,
            high_watermark=high_watermark if error is ErrorCode.NONE else -1,
            diverging=diverging,
            snapshot_id=snapshot_id,
            records=records,
        )

    def _epoch_error(self, epoch: int) -> ErrorCode:
        own = self._store.quorum.epoch
        if epoch < own:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE if epoch == own else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _snapshot_for(self, request: MetadataFetch) -> SnapshotId | None:
        """Return the snapshot that the observer needs instead of records, or None."""
        log = self._store.log
        start, offset, epoch = log.log_start_offset, request.offset, request.last_fetched_epoch
        if offset > start and epoch == log.epoch:
            return None  # most requests: no need to list the snapshots
        known = [one for one in log.snapshots if one != _FIRST]
        if not known:
            return None
        earliest = known[0]
        is_behind = offset < start or (offset == start == earliest.offset and epoch != earliest.epoch)
        if offset == 0 or is_behind or epoch < earliest.epoch:
            return SnapshotId(*known[-1])
        return None

    def _divergence(self, request: MetadataFetch) -> EpochEndOffset | None:
        """Return where the observer's last epoch ends here, if its log diverges from this one."""
        if request.offset == 0 and request.last_fetched_epoch == 0 and self._store.log.log_start_offset == 0:
            return None
        end = self._store.log.end_of_epoch(request.last_fetched_epoch)
        is_same = end.epoch == request.last_fetched_epoch and end.end_offset >= request.offset
        return None if is_same else end

    def _may_wait(self, request: MetadataFetch, response: FetchedMetadata) -> bool:
        """Return True if the response has nothing for the observer."""
        has_result = response.error is not ErrorCode.NONE or response.diverging is not None or response.records
        return not (has_result or response.snapshot_id or response.high_watermark > request.high_watermark)

    def _wake(self, _records: Sequence[MetadataRecord], _change: MetadataChange) -> None:
        for news in self._waiting:
            if not news.done():
                news.set_result(None)

    # --- progress ---

    @property
    def log_start_offset(self) -> int:
        return self._store.log.log_start_offset

    def _note(self, key: ObserverKey, offset: int) -> None:
        if key.node_id < 0 or key.node_id in (voter.id for voter in self._store.quorum.voters):
            return
        observer = self._known.setdefault(key, Observer())
        observer.fetched(offset, self._store.committed_end_offset, self._clock.now_ms())

    @property
    def progress(self) -> dict[ObserverKey, Observer]:
        """The observers that have fetched of late, by node and directory."""
        oldest_ms = self._clock.now_ms() - _FORGET_AFTER_MS
        self._known = {key: one for key, one in self._known.items() if one.fetched_at_ms >= oldest_ms}
        return self._known
