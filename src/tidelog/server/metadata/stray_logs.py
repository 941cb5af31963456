"""Logs that the metadata does not place on this broker: their topic was deleted or recreated, or their replica moved.

==================================  ================================================================================
a loaded log                        is
==================================  ================================================================================
with the id of a topic              stray if the topic does not exist, or has no replica of the partition here
without an id, empty                the log of the topic of its name, which a crash left before the id was written;
                                    stray if there is no such replica here, or if its leader epochs are ahead
without an id, with records         stray
==================================  ================================================================================

An id reaches the disk before any record does, so a log without an id holds no data. Kafka calls all of them stray and
makes them anew; here an empty log keeps its place, and gets its id from ``ReplicaManager``.
Pure. Called by: ``LogManager``, when the logs are loaded. Source: Kafka's ``LogManager.isStrayReplica``.
"""

from __future__ import annotations

from tidelog.model import TopicPartition
from tidelog.server.metadata.image import MetadataImage
from tidelog.storage.log.partition_log import PartitionLog


def is_stray(image: MetadataImage, broker_id: int, log: PartitionLog) -> bool:
    """Return whether the log is to be set aside instead of being served."""
    name = TopicPartition.from_directory_name(log.directory.name)
    topic = image.topics.get(name.topic) if log.topic_id is None else image.topics_by_id.get(log.topic_id)
    state = None if topic is None else topic.partitions.get(name.partition)
    if state is None or broker_id not in state.replicas:
        return True
    if log.topic_id is not None:
        return False
    return log.end_offset > 0 or (log.epochs.latest or 0) > state.leader_epoch
