"""The log directories of replicas, as far as the metadata knows them. Pure.

Source: Kafka's ``ClusterControlManager.defaultDir``, ``DirectoryId.isOnline``.
"""

from __future__ import annotations

import uuid

from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.partition_state import LOST, MIGRATING, UNASSIGNED, PartitionState


def default_directory(image: MetadataImage, broker_id: int) -> uuid.UUID:
    """Return the directory id for a new replica. It is the broker's only one, UNASSIGNED if the broker has several, or
    MIGRATING if none is known."""
    broker = image.brokers.get(broker_id)
    directories = () if broker is None else tuple(broker.log_dirs)
    if not directories:
        return MIGRATING
    return directories[0] if len(directories) == 1 else UNASSIGNED


def is_directory_online(image: MetadataImage, broker_id: int, partition: PartitionState) -> bool:
    """Return True if the log directory of that broker's replica is online."""
    directory = partition.directory_of(broker_id)
    broker = image.brokers.get(broker_id)
    if directory == LOST or broker is None:
        return False
    return not broker.log_dirs or directory in (UNASSIGNED, MIGRATING) or directory in broker.log_dirs
