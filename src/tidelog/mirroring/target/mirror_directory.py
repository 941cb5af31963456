"""The log directory of a copy, owned by this process: its lock, its metadata and its logs.

States: *new* -> ``open`` -> *open* -> ``close``. A failed disk leads to *failed*: ``failure`` has the reason, and
nothing is written any more.

=====================  ===============================================================================================
step                   a crash after it leaves
=====================  ===============================================================================================
``mirror.properties``  a directory without ``meta.properties``, which the next ``open`` formats
formatting             a new, empty copy
logs are loaded        a directory without the marker of a clean shutdown: the next owner recovers the logs
topics are changed     metadata without logs, which the next ``open`` creates; or logs without metadata, which it sets
                       aside
records are appended   records after the recovery point, which recovery checks; the copy goes on at the log end
``close``              the state of a clean shutdown
=====================  ===============================================================================================

The logs have the rules of a broker's: flushes, retention, compaction and checkpoints, by the settings of their topics.
One rule is stricter, because nothing but the log end says which records the copy has: a log is on the disk before its
next segment begins. Otherwise a power failure could leave a later segment without the records before it, and the next
run would go on at the log end.
Fetched records are below the source's high watermark, so the copy's high watermark is its log end.

Thread rule: the event loop only. Slow work runs in background threads. Appends need no event loop: see
``append_pass``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from tidelog.config.broker_config import BrokerConfig
from tidelog.mirroring.target.copied_metadata import (
    CopiedTopic,
    Replica,
    acl_records,
    producer_id_records,
    removal,
    topic_records,
)
from tidelog.mirroring.target.mirror_properties import MIRROR_PROPERTIES_FILE, MirrorProperties
from tidelog.mirroring.target.target_metadata import TargetMetadata
from tidelog.mirroring.target.target_settings import TargetSettings
from tidelog.model import StorageError, TidelogError, TopicPartition
from tidelog.runtime import Clock, Scheduler
from tidelog.runtime.executor import InThread
from tidelog.server.authorization.acl import Acl
from tidelog.server.metadata.image import MetadataImage, Topic
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.replicas.replica_manager import is_stray
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.manager_settings import ManagerSettings

_RECORDS_A_CHANGE = 2_000
"""A change is one batch of the metadata log, and its size is limited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySetup:
    fs: FileSystem
    settings: TargetSettings
    source_cluster_id: str
    compacts: bool
    """True if the cleaner runs, which is useful only in a long run."""
    clock: Clock
    scheduler: Scheduler
    """A started scheduler."""
    in_thread: InThread
    on_failure: Callable[[TidelogError], None]
    """A callback for a failed disk, from any thread."""


class MirrorDirectory:
    def __init__(self, setup: DirectorySetup) -> None:
        """Create the object without disk access."""
        self._setup = setup
        self.failure: TidelogError | None = None
        """The reason why nothing can be written any more."""
        settings = setup.settings
        self.metadata = TargetMetadata(
            setup.fs,
            settings,
            clock=setup.clock,
            scheduler=setup.scheduler,
            in_thread=setup.in_thread,
            on_failure=self._fail,
        )
        self.logs = LogManager(
            setup.fs,
            [settings.path],
            settings=replace(ManagerSettings.of(settings.config), cleaner_enable=setup.compacts, syncs_rolls=True),
            default_config=LogConfig.of(settings.config),
            topic_settings=self.metadata.settings_of,
            clock=setup.clock,
            scheduler=setup.scheduler,
            is_stray=lambda log: is_stray(self.metadata.image, settings.node_id, log),
            on_locked=self.metadata.load,
            on_all_failed=self._fail_disk,
        )

    # --- start and end ---

    async def open(self) -> None:
        """Format a new directory, recover an unclean one, and open it for changes.

        Raise LockedError if another process uses it, DirectoryError, StorageError or CorruptRecordError.
        """
        in_thread = self._setup.in_thread
        await in_thread(self._format)
        await in_thread(self.logs.startup)
        await self.metadata.start()
        await in_thread(self._create_missing_logs)

    async def close(self) -> None:
        """Shut down cleanly; idempotent. After a failed disk, nothing is written."""
        await self.metadata.close()
        await self._setup.in_thread(self.logs.shutdown)

    # --- queries ---

    @property
    def image(self) -> MetadataImage:
        """The metadata. Do not change it, and do not keep it over an ``await``."""
        return self.metadata.image

    @property
    def replica(self) -> Replica:
        return Replica(node_id=self._setup.settings.node_id, directory_id=self.metadata.directory_id)

    @property
    def config(self) -> BrokerConfig:
        """The config of the broker that the copy is made for."""
        return self._setup.settings.config

    def log(self, partition: TopicPartition) -> PartitionLog:
        """Return a partition's log. Raise StorageError if the disk has failed, else UnknownTopicOrPartitionError."""
        return self.logs.require(partition)

    # --- changes ---

    async def take_over(self, topics: Iterable[CopiedTopic], *, deletes_old: bool) -> None:
        """Bring topics up to the source, and create their logs.

        A topic of the same name and another id gives way: ``deletes_old`` deletes its logs, otherwise they are set
        aside under their name and ``-stray``.
        """
        topics = [self._with_settings(topic) for topic in topics]
        for part in _chunks(topics):
            replaced = [known for topic in part if (known := self._replaced_by(topic)) is not None]
            configured = [topic.name for topic in part if topic.settings is not None]
            await self.metadata.change(lambda image, part=part: self._records(image, part))  # type: ignore[misc]
            await self._setup.in_thread(self._follow, replaced, configured, deletes_old)

    async def remove(self, topics: Collection[str], *, deletes_old: bool) -> None:
        """Remove topics that the source does not have any more, as ``take_over`` removes an old topic."""
        gone = [topic for name in topics if (topic := self.image.topics.get(name)) is not None]
        await self.metadata.change(lambda _image: map(removal, gone))
        await self._setup.in_thread(self._follow, gone, (), deletes_old)

    async def replace_acls(self, acls: Collection[Acl]) -> int:
        """Make the ACLs those of the source. Return the number of changes."""
        return await self.metadata.change(lambda image: acl_records(image, acls))

    async def reserve_producer_ids(self, largest: int) -> None:
        """Let no broker on the copy hand out a producer id up to ``largest``."""
        await self.metadata.change(lambda image: producer_id_records(image, largest, self._setup.settings.node_id))

    def truncate(self, partition: TopicPartition, offset: int) -> None:
        """Remove the records from ``offset`` on, in a background thread."""
        self.logs.truncate_to({partition: offset})

    # --- inside ---

    def _format(self) -> None:
        fs, path = self._setup.fs, self._setup.settings.path
        if not fs.exists(path):
            fs.make_dir(path)
            fs.sync_dir(path.absolute().parent)
        properties = MirrorProperties(source_cluster_id=self._setup.source_cluster_id)
        if MirrorProperties.read(fs, path / MIRROR_PROPERTIES_FILE) != properties:
            properties.write(fs, path / MIRROR_PROPERTIES_FILE)
        self.metadata.format()

    def _with_settings(self, topic: CopiedTopic) -> CopiedTopic:
        """Give a new topic of unknown settings those of ``unread_settings``."""
        if topic.settings is not None or topic.topic_id in self.image.topics_by_id:
            return topic
        return replace(topic, settings=self._setup.settings.unread_settings(topic.name))

    def _replaced_by(self, topic: CopiedTopic) -> Topic | None:
        known = self.image.topics.get(topic.name)
        return None if known is None or known.id == topic.topic_id else known

    def _records(self, image: MetadataImage, topics: Iterable[CopiedTopic]) -> Iterator[MetadataRecord]:
        for topic in topics:
            yield from topic_records(image, topic, self.replica)

    def _follow(self, gone: Iterable[Topic], configured: Iterable[str], deletes_old: bool) -> None:
        """Let the logs follow a change of the metadata, in a background thread."""
        for topic in gone:
            for number in topic.partitions:
                self.logs.delete(TopicPartition(topic.name, number), is_stray=not deletes_old)
        self._create_missing_logs()
        for name in configured:
            self.logs.update_topic_config(name)

    def _create_missing_logs(self) -> None:
        """Create the logs that the metadata has and the directory has not, and write missing topic ids."""
        created = False
        for topic, number, _state in list(self.image.partitions()):
            partition = TopicPartition(topic.name, number)
            log = self.logs.log(partition)
            if log is None or log.topic_id is None:
                self.logs.get_or_create(partition, is_new=log is None, topic_id=topic.id, syncs=False)
                created = True
        if created:
            self.logs.sync_directories()

    def _fail_disk(self) -> None:
        offline = next(iter(self.logs.offline.values()), None)
        self._fail(offline or StorageError("the log directory has failed", path=self._setup.settings.path))

    def _fail(self, error: TidelogError) -> None:
        if self.failure is None:
            self.failure = error
            self._setup.on_failure(error)


def _chunks(topics: Iterable[CopiedTopic]) -> Iterator[list[CopiedTopic]]:
    """Yield the topics in parts whose changes have a limited size, but at least one topic at a time."""
    part: list[CopiedTopic] = []
    size = 0
    for topic in topics:
        weight = 2 + len(topic.epochs) + len(topic.settings or ())
        if part and size + weight > _RECORDS_A_CHANGE:
            yield part
            part, size = [], 0
        part.append(topic)
        size += weight
    if part:
        yield part
