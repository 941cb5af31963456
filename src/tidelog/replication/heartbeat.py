"""A broker's heartbeat to the active controller, and the controller's response. Immutable values.

================  =================================================================================================
wants_fence       the broker is not ready for clients: it is starting, or recovering its logs
wants_shutdown    the broker asks for a controlled shutdown
is_caught_up      the broker has read the metadata up to its own registration
is_fenced         the broker may not serve clients
should_shut_down  no leadership and no other broker needs it any longer: it may stop
================  =================================================================================================

Source: Kafka's ``BrokerHeartbeatRequest``, ``BrokerHeartbeatResponse``; KIP-631, KIP-858, KIP-1066.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequest:
    broker_id: int
    broker_epoch: int
    metadata_offset: int
    """The highest offset of the metadata log that the broker has applied, or -1."""
    wants_fence: bool = False
    wants_shutdown: bool = False
    offline_dirs: frozenset[uuid.UUID] = frozenset()
    """Every log directory that failed since the broker started."""
    cordoned_dirs: frozenset[uuid.UUID] | None = None
    """The log directories that get no new partitions. It is None if the broker does not report them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatResponse:
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
