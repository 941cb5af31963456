"""The states of a broker. The numbers are those of Kafka's gauge ``BrokerState``."""

from __future__ import annotations

from enum import IntEnum


class BrokerState(IntEnum):
    NOT_RUNNING = 0
    STARTING = 1
    """The broker registers, and reads the metadata up to its registration."""
    RECOVERY = 2
    """The logs are loaded, and the broker is joining the cluster."""
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    """The broker takes no new work. In a cluster it waits until the controller lets it stop."""
    SHUTTING_DOWN = 7
    """The started parts are stopped: coordinators, replicas, logs."""
