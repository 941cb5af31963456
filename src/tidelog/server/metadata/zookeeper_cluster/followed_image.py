"""The image of the metadata in ZooKeeper: it follows the mirrored znodes, and is published change by change.

=========  ===========================================================================================================
mirror     the znodes as they were last read; an event of the watch lets its path be read again
committed  the image of the mirror. Decisions and the logs of new topics use it
published  what the broker and its clients see; it stands still until ``release``
=========  ===========================================================================================================

All changes go one way, also those of this broker: an event or ``refresh`` names paths, the paths are read, their units
are translated, and the difference to the committed image becomes records. A batch of paths is read again as long as
events arrive meanwhile, so that the mirror holds znodes of one moment: a topic and the mark of its deletion fit
together. ``read_all`` reads every mirrored znode, at the start and after each loss of the connection.

A unit that is not valid while the broker runs keeps its last valid metadata, with one line in the log for each
error. At the start it is an error: nothing is served that is not certain.
Thread rule: the event loop only. Source: Kafka's ``ZkMetadataCache``, ``KafkaController``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from tidelog.model import ZnodeError
from tidelog.server.metadata.image import MetadataChange, MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.published_metadata import PublishedMetadata
from tidelog.server.metadata.zookeeper.operations import ReadZnode
from tidelog.server.metadata.zookeeper.znode_tree import join
from tidelog.server.metadata.zookeeper_cluster.mirror import (
    MIRRORED,
    Unit,
    UnitKind,
    ZnodeMirror,
    is_mirrored,
    units_of,
)
from tidelog.server.metadata.zookeeper_cluster.sessions import ReadingSession
from tidelog.server.metadata.zookeeper_cluster.unit_records import controller_id, unit_records
from tidelog.storage.checkpoint import uuid_from_text

_MOST_READS: Final = 20
"""The most reads of a batch of paths before it counts, if events never pause."""
_NONE: Final[Mapping[str, ReadZnode | None]] = {}
_OF_PARTITIONS: Final = ("PartitionRecord", "PartitionChangeRecord")
_MOST_ERRORS: Final = 10
"""The most lines in the log for one batch of changes."""
_MOST_RETRIED: Final = 100
"""The most units without a change that are tried again. There may be a million of them."""
_log: Final = logging.getLogger(__name__)


CommitListener = Callable[[MetadataChange, set[str]], None]
"""A callback with the effects of a change on the committed image, and the paths whose znodes have changed."""


class FollowedImage:
    def __init__(self, session: ReadingSession, *, deletes_topics: bool = True) -> None:
        self.mirror = ZnodeMirror(deletes_topics=deletes_topics)
        self.committed = MetadataImage()
        self.published = PublishedMetadata(self.committed)
        self.on_commit: list[CommitListener] = []
        self._session = session
        self._dirty: dict[str, None] = {}
        """The paths to read again."""
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._is_split = False
        self._may_publish = asyncio.Event()
        self._unpublished: deque[tuple[Sequence[MetadataRecord], MetadataChange, asyncio.Future[None]]] = deque()
        self._has_unpublished = asyncio.Event()
        self._reported: dict[Unit, str] = {}
        """The error of each unit that is not valid."""
        self._errors: list[str] = []
        """The new ones among them."""
        self.has_repair = False
        """True if the newest change has made a unit valid that was not."""
        self._tasks: set[asyncio.Future[Any]] = set()

    # --- start ---

    async def load(self, cluster_id: str) -> None:
        """Read all znodes into the image. Raise ZooKeeperError, and ZnodeError if one is not valid."""
        self.committed.cluster_id = cluster_id
        await self._read_all(is_strict=True)

    def split(self) -> None:
        """Begin to publish: until now there was one image, which nothing followed."""
        self.published.image = self.committed.copy()
        self._is_split = True

    def release(self) -> None:
        """Publish from now on: the broker's parts follow the image."""
        self._may_publish.set()

    def hold(self) -> None:
        """Publish nothing until ``release``."""
        self._may_publish.clear()

    # --- following ---

    def note(self, path: str) -> None:
        """Read a path again soon: the watch has told an event."""
        if is_mirrored(path):
            self._dirty[path] = None
            self._news.set()

    async def read_all(self) -> None:
        """Read all znodes again: events may have been lost. Raise ZooKeeperError."""
        await self._read_all(is_strict=False)

    async def refresh(self, paths: Iterable[str] = ()) -> None:
        """Read paths again, with those of all events so far. Raise ZooKeeperError; the paths then stay noted."""
        async with self._reading:
            self._dirty.update(dict.fromkeys(filter(is_mirrored, paths)))
            await self._read_noted()

    async def follow(self) -> None:
        """Apply the events until the task is cancelled. Raise ZooKeeperError if the connection is lost."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.refresh()

    def error_of(self, topic_id: uuid.UUID) -> str | None:
        """Return the error of a topic whose znodes are not valid, or None. The image does not have their versions, so
        nothing can change the topic's partitions."""
        topic = self.committed.topics_by_id.get(topic_id)
        return None if topic is None else self._reported.get(Unit(UnitKind.TOPIC, topic.name))

    def error_of_change(self, record: MetadataRecord) -> str | None:
        """Return the error of a topic whose partitions a record changes."""
        return self.error_of(uuid_from_text(record.fields["topicId"])) if record.name in _OF_PARTITIONS else None

    async def publish(self) -> None:
        """Publish the changes, one after the other, until the task is cancelled."""
        while True:
            await self._has_unpublished.wait()
            while self._unpublished:
                await self._may_publish.wait()
                records, change, done = self._unpublished[0]
                for waiting in await self.published.publish(records, change):
                    self._spawn(waiting)
                self.published.image.controller_id = self.committed.controller_id
                self._unpublished.popleft()
                if not done.done():
                    done.set_result(None)
            self._has_unpublished.clear()

    async def reach_published(self) -> None:
        """Return once the published image has all that the committed image has now."""
        if self._unpublished:
            await asyncio.shield(self._unpublished[-1][2])

    async def close(self) -> None:
        """Wait for the listeners' work, and end all waits. Idempotent."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for *_, done in self._unpublished:
            done.cancel()

    # --- reading ---

    async def _read_all(self, *, is_strict: bool) -> None:
        async with self._reading:
            await self._session.watch_all()
            await self._session.sync()
            found = await self._walk()
            changed = {path: found.get(path) for path in self.mirror.changes_to(found)}
            await self._read_noted(changed, is_strict=is_strict)

    async def _walk(self) -> ZnodeMirror:
        """Read the mirrored znodes, one level after the other."""
        found = ZnodeMirror()
        level: list[str] = list(MIRRORED)
        while level:
            znodes = await self._session.read(level)
            for path, znode in zip(level, znodes, strict=True):
                found.put(path, znode)
            parents = [path for path, znode in zip(level, znodes, strict=True) if znode and znode.child_count]
            listed = await self._session.list_children(parents)
            level = [join(path, name) for path, names in zip(parents, listed, strict=True) for name in names or ()]
        return found

    async def _read_noted(self, known: Mapping[str, ReadZnode | None] = _NONE, *, is_strict: bool = False) -> None:
        """Read the noted paths until no event comes meanwhile, and apply them together with ``known`` znodes. If that
        fails, all of their paths are noted."""
        read = dict(known)
        wanted: list[str] = []
        try:
            for _ in range(_MOST_READS):
                wanted = list(self._dirty)
                if not wanted:
                    break
                self._dirty.clear()
                read.update(zip(wanted, await self._session.read(wanted), strict=True))
        except BaseException:
            self._dirty.update(dict.fromkeys((*read, *wanted)))
            raise
        self._apply(read, is_strict=is_strict)

    def _apply(self, read: Mapping[str, ReadZnode | None], *, is_strict: bool) -> None:
        """Bring the mirror and the committed image to the znodes in one step: a decision never sees one without the
        other. Some units that were not valid are tried again, because an error may be about another unit."""
        paths = {path for path, znode in read.items() if self.mirror.put(path, znode)}
        if not paths:
            return
        self.has_repair = False
        units = sorted({*(unit for path in paths for unit in units_of(path)), *islice(self._reported, _MOST_RETRIED)})
        change = MetadataChange(end_offset=self.published.end_offset)
        records: list[MetadataRecord] = []
        for unit in units:
            made = self._records_of(unit, is_strict=is_strict)
            for record in made:
                self.committed.apply(record, change)
            records += made
        self.committed.controller_id = controller_id(self.mirror)
        self._report_errors()
        if self._is_split:
            self._enqueue(records, change)
        for told in self.on_commit:
            told(change, paths)

    def _records_of(self, unit: Unit, *, is_strict: bool) -> Sequence[MetadataRecord]:
        """Return the difference of a unit. Without ``is_strict``, a unit that is not valid has none."""
        try:
            records = unit_records(self.committed, self.mirror, unit)
        except ZnodeError as error:
            if is_strict:
                raise
            if self._reported.get(unit) != str(error):
                self._reported[unit] = str(error)
                self._errors.append(str(error))
            return ()
        self.has_repair |= self._reported.pop(unit, None) is not None
        return records

    def _report_errors(self) -> None:
        for error in self._errors[:_MOST_ERRORS]:
            _log.error("The last valid metadata stays in use: %s", error)
        if (others := len(self._errors) - _MOST_ERRORS) > 0:
            _log.error("%d other znodes are not valid either; their last valid metadata stays in use", others)
        self._errors.clear()

    def _enqueue(self, records: Sequence[MetadataRecord], change: MetadataChange) -> None:
        last = self._unpublished[-1][1].end_offset if self._unpublished else self.published.end_offset
        change.end_offset = last + max(1, len(records))
        self._unpublished.append((records, change, asyncio.get_running_loop().create_future()))
        self._has_unpublished.set()

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("A listener of the cluster metadata failed", exc_info=error)
