"""The import of surveyed log directories: it writes a metadata log and ``meta.properties``.

The steps are these, each durable before the next::

    a topic id in the partition.metadata of topics without one
    meta.properties of version 1 in the other log directories
    in the metadata directory: the snapshot of offset 0 with the quorum's only voter, features, topics, partitions,
        configs and the next producer id, and from ZooKeeper also users, ACLs and quotas; the metadata log, by a first
        run of the controller
    meta.properties of version 1 in the metadata directory

A crash before the last step leaves directories that the ZooKeeper broker can still use, and that a survey finds again
with the topic ids. A partial metadata log is removed and written again. The logs of topics are never changed. Each
partition record names this broker as leader, so the broker becomes the leader again when it registers. Without a last
leader no replica would be eligible, because the shutdown is not known to be clean (KIP-966).
Source: Kafka's ``ActivationRecordsGenerator``; KIP-866.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError, TidelogError
from tidelog.runtime import Clock, ThreadScheduler
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.configs import config_record
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.kraft.bootstrap_records import NEW_CLUSTER_RECORDS
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata, ClusterMetadataSetup
from tidelog.server.metadata.kraft.formatting import FormatRequest, format_directory
from tidelog.server.metadata.kraft.quorum import controller_endpoint
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.zookeeper_import.found_topics import FoundTopic
from tidelog.server.metadata.zookeeper_import.survey import Survey, unfinished_metadata
from tidelog.storage.checkpoint import (
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    MetaProperties,
    PartitionMetadata,
    random_uuid,
    uuid_to_text,
)
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """The import of one survey. ``config`` is the config of the broker that will serve the directories."""

    fs: FileSystem
    config: BrokerConfig
    clock: Clock

    def run(self, survey: Survey) -> Survey:
        """Import the directories, and return the survey with the ids that were assigned. Raise LockedError if another
        process uses one of the directories, ConfigError if a broker of the cluster runs, and StorageError."""
        if survey.live_brokers:
            numbers = ", ".join(map(str, survey.live_brokers))
            raise ConfigError(
                f"ZooKeeper has running brokers ({numbers}): stop all brokers of the cluster before the import, or the"
                " two clusters have different records"
            )
        with ExitStack() as locks:
            for path in survey.directories:
                locks.callback(self.fs.lock(path / LOCK_FILE).release)
            topics = [self._identified(topic) for topic in survey.topics]
            decided = replace(survey, topics=topics, cluster_id=survey.cluster_id or uuid_to_text(random_uuid()))
            self._format(decided)
        return decided

    def _identified(self, topic: FoundTopic) -> FoundTopic:
        topic_id = topic.topic_id or random_uuid()
        for directory in topic.without_id:
            PartitionMetadata(topic_id=topic_id).write(self.fs, directory / PARTITION_METADATA_FILE)
        return replace(topic, topic_id=topic_id)

    def _format(self, survey: Survey) -> None:
        """Format the metadata directory last: its ``meta.properties`` completes the import."""
        assert survey.cluster_id is not None
        ids = {path: self._directory_id(path) for path in survey.directories}
        request = FormatRequest(
            node_id=survey.node_id,
            directories=survey.directories,
            metadata_directory=survey.metadata_directory,
            controller=controller_endpoint(self.config),
            directory_ids=ids,
        )
        for path in survey.directories:
            if path != survey.metadata_directory:
                format_directory(self.fs, request, path, survey.cluster_id, self.clock)
        self._clear(survey.metadata_directory / METADATA_DIRECTORY)
        complete = replace(request, first_records=[*NEW_CLUSTER_RECORDS, *_records(survey, ids)])
        format_directory(
            self.fs,
            complete,
            survey.metadata_directory,
            survey.cluster_id,
            self.clock,
            before_last=lambda: asyncio.run(self._begin(survey)),
        )

    def _clear(self, directory: Path) -> None:
        """Remove the files of an unfinished import."""
        for path in unfinished_metadata(self.fs, directory):
            self.fs.remove(path)

    def _directory_id(self, path: Path) -> uuid.UUID:
        """Return the directory id of an unfinished import, or a new one."""
        properties = MetaProperties.read(self.fs, path / META_PROPERTIES_FILE)
        return (properties and properties.directory_id) or random_uuid()

    async def _begin(self, survey: Survey) -> None:
        """Run the controller once, without a broker."""
        scheduler = ThreadScheduler(1, clock=self.clock)
        scheduler.startup()
        try:
            metadata = ClusterMetadata(
                ClusterMetadataSetup(
                    fs=self.fs,
                    config=self.config,
                    node_id=survey.node_id,
                    directories=survey.directories,
                    clock=self.clock,
                    scheduler=scheduler,
                    in_thread=_at_once,
                    on_failure=lambda _error: None,
                )
            )
            try:
                metadata.load()
                await metadata.start()
            finally:
                await metadata.close()
        finally:
            scheduler.shutdown()


def _at_once(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Awaitable[Result]:
    """Run ``function`` in place of a background thread: no other task waits for the event loop."""
    done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    try:
        done.set_result(function(*args, **kwargs))
    except TidelogError as error:
        done.set_exception(error)
    return done


def _records(survey: Survey, directory_ids: Mapping[Path, uuid.UUID]) -> Iterator[MetadataRecord]:
    for topic in survey.topics:
        assert topic.topic_id is not None
        topic_id = uuid_to_text(topic.topic_id)
        yield MetadataRecord("TopicRecord", {"name": topic.name, "topicId": topic_id})
        for number, found in topic.partitions.items():
            state = PartitionState(
                replicas=(survey.node_id,),
                isr=(survey.node_id,),
                leader=survey.node_id,
                leader_epoch=found.leader_epoch,
                partition_epoch=found.partition_epoch,
                is_recovering=found.is_recovering,
                directories=(directory_ids[found.directory],),
            )
            yield MetadataRecord("PartitionRecord", {"partitionId": number, "topicId": topic_id, **state.fields()})
        for key, value in topic.settings.items():
            yield config_record(ConfigResource(ResourceType.TOPIC, topic.name), key, value)
    yield from survey.more_records
    if survey.next_producer_id:
        fields = {"brokerId": survey.node_id, "brokerEpoch": -1, "nextProducerId": survey.next_producer_id}
        yield MetadataRecord("ProducerIdsRecord", fields)
