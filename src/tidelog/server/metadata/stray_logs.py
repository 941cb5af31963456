"""Stray logs: the metadata does not place them on this broker.

Their topic was deleted or recreated, or the replica moved to another broker.

==================================  ================================================================================
a loaded log                        is
==================================  ================================================================================
with a topic id                     stray if the topic does not exist, or has no replica of the partition here
without an id, empty                the log of the topic with its name: a crash came before the id was written.
                                    It is stray if no replica is here, or if its leader epochs are ahead
without an id, with records         stray
==================================  ================================================================================

A topic id reaches the disk before any record, so a log without an id should hold no data. Kafka treats all logs without
an id as stray and creates them again. Here an empty log stays, and ``ReplicaManager`` writes its id. Pure. Source:
Kafka's ``LogManager.isStrayReplica``.
"""

from __future__ import annotations

from tidelog.model import TopicPartition
from tidelog.server.metadata.image import MetadataImage
from tidelog.storage.log.partition_log import PartitionLog


def is_stray(image: MetadataImage, broker_id: int, log: PartitionLog) -> bool:
    """Return True if the log must be set aside and not be served."""
    name = TopicPartition.from_directory_name(log.directory.name)
    topic = image.topics.get(name.topic) if log.topic_id is None else image.topics_by_id.get(log.topic_id)
    state = None if topic is None else topic.partitions.get(name.partition)
    if state is None or broker_id not in state.replicas:
        return True
    if log.topic_id is not None:
        return False
    return log.end_offset > 0 or (log.epochs.latest or 0) > state.leader_epoch
