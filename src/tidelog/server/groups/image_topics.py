"""The topics of the metadata image in the form that groups need. Thread rule: the event loop only."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection

from tidelog.server.groups.journal import TopicFacts
from tidelog.server.metadata.image import MetadataChange, MetadataImage, Topic


class ImageTopics:
    """``Topics`` over the current image. ``note`` receives every metadata change."""

    def __init__(self, image: Callable[[], MetadataImage], applied_offset: Callable[[], int]) -> None:
        """``applied_offset`` is the offset of the image's last record, which is Kafka's version of the image."""
        self._image = image
        self._applied_offset = applied_offset
        self.last_creation_version = -1

    @property
    def version(self) -> int:
        return self._applied_offset()

    def changed_topic_names(self, change: MetadataChange) -> frozenset[str]:
        """Return the names of the topics that were created, deleted, or got more partitions."""
        if change.created_topics:
            self.last_creation_version = change.end_offset - 1
        names = {topic.name for topic in (*change.created_topics, *change.deleted_topics)}
        for (topic_id, _), delta in change.partitions.items():
            topic = self._image().topics_by_id.get(topic_id)
            if topic is not None and delta.before is None:
                names.add(topic.name)
        return frozenset(names)

    @property
    def names(self) -> Collection[str]:
        return self._image().topics.keys()

    def by_name(self, name: str) -> TopicFacts | None:
        return self._facts(self._image().topics.get(name))

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return self._facts(self._image().topics_by_id.get(topic_id))

    def _facts(self, topic: Topic | None) -> TopicFacts | None:
        if topic is None:
            return None
        brokers = self._image().brokers
        racks = {number: broker.rack for number, broker in brokers.items() if broker.rack is not None}
        of_partitions = (
            tuple(
                tuple(racks[replica] for replica in state.replicas if replica in racks)
                for _, state in sorted(topic.partitions.items())
            )
            if racks
            else ()
        )
        return TopicFacts(topic.id, topic.name, len(topic.partitions), of_partitions)
