"""The removal of a topic's znodes, once its deletion is requested. Pure.

The image of every broker lacks the topic since its mark (``/admin/delete_topics/T``), so the brokers delete its logs.
The znodes stay until all replicas' brokers are registered: a broker that is away would find its logs again, and Kafka,
which may start in its place, needs the topic to delete them. The mark goes last, with the topic: without both, no
broker can take the topic for a live topic. If topics are not deleted (``delete.topic.enable``), only the mark goes.
Source: Kafka's ``TopicDeletionManager``.
"""

from __future__ import annotations

from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import Delete, Operation
from tidelog.server.metadata.zookeeper.znodes import TopicZnode
from tidelog.server.metadata.zookeeper_cluster.mirror import ZnodeMirror


def is_removable(image: MetadataImage, mirror: ZnodeMirror, name: str) -> bool:
    """Return True if the deletion of a topic can be completed. Raise ZnodeError if its znode is not valid."""
    found = mirror.get(paths.topic(name)) if mirror.deletes_topics else None
    replicas = () if found is None else TopicZnode.decode(paths.topic(name), found.data).replicas.values()
    return all(image.is_active(broker) for brokers in replicas for broker in brokers)


def removal_operations(mirror: ZnodeMirror, name: str) -> list[Operation]:
    """Delete the znodes of a topic: children first, the mark last."""
    root = paths.topic(name)
    doomed = [*reversed(list(mirror.below(root))), f"{paths.TOPIC_CONFIGS}/{name}", root]
    mark = f"{paths.DELETED_TOPICS}/{name}"
    return [Delete(path) for path in ([*doomed, mark] if mirror.deletes_topics else [mark]) if path in mirror]
