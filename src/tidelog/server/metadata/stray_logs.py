"""Logs that the metadata does not have here: of a topic that is gone or was made anew, or moved to another broker.

A log without a topic id was made, but nothing was ever written to it: the id goes to the disk before any record does.
Pure. Called by: ``LogManager``, when the logs are loaded. Source: Kafka's ``LogManager.isStrayKraftReplica``.
"""

from __future__ import annotations

from tidelog.model import TopicPartition
from tidelog.server.metadata.image import MetadataImage
from tidelog.storage.log.partition_log import PartitionLog


def is_stray(image: MetadataImage, broker_id: int, log: PartitionLog) -> bool:
    """Such a log is set aside, not served."""
    topic = None if log.topic_id is None else image.topics_by_id.get(log.topic_id)
    if topic is None:
        return True
    number = TopicPartition.from_directory_name(log.directory.name).partition
    state = topic.partitions.get(number)
    return state is None or broker_id not in state.replicas
