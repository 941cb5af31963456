"""A broker's request to register at the active controller. Immutable values.

The incarnation id is random at each start of the broker. A request with the id of the registered incarnation amends
the registration, and the broker keeps its epoch. Any other id makes a new incarnation. The controller treats its
predecessor as stopped uncleanly, unless ``previous_broker_epoch`` is the registered epoch. Source: Kafka's
``BrokerRegistrationRequest``, ``VersionRange``; KIP-631, KIP-858, KIP-966.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

NO_BROKER_EPOCH: Final = -1


class BrokerEndpoint(NamedTuple):
    """The address of a listener for clients."""

    name: str
    """The listener's name."""
    host: str
    port: int
    security_protocol: int = 0
    """Kafka's number of the protocol; 0 is PLAINTEXT."""

    def fields(self) -> dict[str, Any]:
        return {"name": self.name, "host": self.host, "port": self.port, "securityProtocol": self.security_protocol}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        return cls(fields["name"], fields["host"], fields["port"], fields["securityProtocol"])


class VersionRange(NamedTuple):
    """An inclusive range of a feature's levels."""

    oldest: int
    latest: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.oldest <= level <= self.latest

    def __str__(self) -> str:
        return str(self.oldest) if self.oldest == self.latest else f"{self.oldest}-{self.latest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationRequest:
    broker_id: int
    cluster_id: str
    incarnation_id: uuid.UUID
    listeners: tuple[BrokerEndpoint, ...]
    features: Mapping[str, VersionRange]
    """The supported levels of each feature. A missing feature counts as level 0 only."""
    log_dirs: tuple[uuid.UUID, ...]
    """The ids of the log directories, sorted."""
    rack: str | None = None
    previous_broker_epoch: int = NO_BROKER_EPOCH
    """The epoch of the run that ended with a clean shutdown, from its marker file, or -1."""
