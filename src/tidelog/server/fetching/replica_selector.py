"""The replica that a consumer should fetch from: in its own rack, if an in-sync one is there (KIP-392).

============================================================  ========================================================
``replica.selector.class``                                    the leader sends a consumer to
============================================================  ========================================================
not set, ``…common.replica.LeaderSelector``                   itself
``…common.replica.RackAwareReplicaSelector``                  itself, if it is in the consumer's rack; else the most
                                                              caught-up replica of that rack; else itself
any other class                                               the broker does not start: it runs no Java
============================================================  ========================================================

A replica counts if it is in sync, holds the fetch offset, and its broker is not fenced and has the consumer's listener.
The response then has no records and comes at once. Thread rule: the event loop only. Source: Kafka's
``RackAwareReplicaSelector``, ``ReplicaManager.findPreferredReadReplica``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.replicas.partition import Partition

_KEY: Final = "replica.selector.class"
_PACKAGE: Final = "org.apache.kafka.common.replica."
_RACK_AWARE: Final = _PACKAGE + "RackAwareReplicaSelector"
_LEADER: Final = _PACKAGE + "LeaderSelector"


def selects_by_rack(config: BrokerConfig) -> bool:
    """Return True if consumers are sent to replicas of their rack. Raise ConfigError for an unknown class."""
    name = config[_KEY]
    if name in (None, "", _LEADER):
        return False
    if name == _RACK_AWARE:
        return True
    raise ConfigError(f"{_KEY}: {name} is not supported; use {_RACK_AWARE} or {_LEADER}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSelector:
    """The choice for the consumers of one request."""

    node_id: int
    image: MetadataImage
    listener: str
    rack: str
    """The consumer's rack, or "" if it has none."""

    def preferred(self, partition: Partition, offset: int) -> int | None:
        """Return the broker to fetch a partition from, or None for this one. Only the leader knows others."""
        if not self.rack or not partition.is_leading or self._rack_of(self.node_id) == self.rack:
            return None
        followers = partition.in_sync.followers
        candidates = [
            (state.log_end.message_offset, state.last_caught_up_ms, broker_id)
            for broker_id, state in followers.items()
            if broker_id in partition.in_sync.isr
            and state.log_start_offset <= offset <= state.log_end.message_offset
            and self._rack_of(broker_id) == self.rack
        ]
        return max(candidates)[2] if candidates else None

    def _rack_of(self, broker_id: int) -> str | None:
        """Return the rack of a broker that consumers can reach, or None."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.is_fenced or self.listener not in broker.listeners:
            return None
        return broker.rack
