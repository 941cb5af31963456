"""What a broker is at: the numbers are those of Kafka's gauge ``BrokerState``."""

from __future__ import annotations

from enum import IntEnum


class BrokerState(IntEnum):
    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    """The logs are loaded, the broker is becoming part of the cluster."""
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    """Clients are let go, and what is under way for them ends."""
    SHUTTING_DOWN = 7
    """What was started is stopped: coordinators, replicas, logs."""
