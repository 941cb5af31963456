"""The metadata quorum, as a node's properties define it and as clients see it. Pure.

Kafka's key ``controller.quorum.voters`` (``id@host:port``, …) makes the quorum static. Without it, the only voter is in
the log. ``controller.listener.names`` names the controllers' listener, whose address is in ``advertised.listeners`` or
``listeners``. Source: Kafka's ``QuorumConfig``, ``KafkaConfig``.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.server.metadata.broker_registration import BrokerEndpoint
from tidelog.server.metadata.kraft.voters import Voter, Voters

_DEFAULT_LISTENER: Final = "CONTROLLER"
_DEFAULT_PORT: Final = 9093
_NO_DIRECTORY: Final = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """The quorum at one moment."""

    leader_id: int
    epoch: int
    high_watermark: int
    """The records below it are committed."""
    kraft_version: int
    voters: tuple[Voter, ...]


def static_voters(config: BrokerConfig) -> Voters | None:
    """Return the voters of the properties, or None if there are none. Raise ConfigError if a voter is malformed."""
    entries = config.texts("controller.quorum.voters")
    name = _controller_listener(config)
    return Voters(kraft_version=0, voters=tuple(_voter(entry, name) for entry in entries)) if entries else None


def past_voters(ids: Sequence[int]) -> Voters:
    """Return the voters of ``quorum-state``, for a static quorum that the properties no longer list."""
    return Voters(kraft_version=0, voters=tuple(Voter(node, _NO_DIRECTORY, ()) for node in ids))


def controller_endpoint(config: BrokerConfig) -> BrokerEndpoint:
    """Return the controller's endpoint. It may not be open, because no other node needs a lone controller."""
    name = _controller_listener(config)
    for key in ("advertised.listeners", "listeners"):
        for entry in config.texts(key):
            listener, _, address = entry.partition("://")
            host, _, port = address.rpartition(":")
            if listener.upper() == name.upper() and port.isdigit():
                return BrokerEndpoint(name, host.strip("[]") or "localhost", int(port))
    return BrokerEndpoint(name, "localhost", _DEFAULT_PORT)


def require_alone(voters: Voters, node_id: int) -> None:
    """Raise ConfigError if there are other voters: they would have to acknowledge each record."""
    others = [str(voter) for voter in voters.ids if voter != node_id]
    if others or not voters.ids:
        raise ConfigError(
            f"the metadata quorum has the voters {', '.join(map(str, voters.ids)) or 'none'}: node {node_id} can only"
            " keep the metadata of a cluster if it is the only voter"
        )


def _controller_listener(config: BrokerConfig) -> str:
    return next(iter(config.texts("controller.listener.names")), _DEFAULT_LISTENER)


def _voter(entry: str, listener: str) -> Voter:
    node, _, address = entry.partition("@")
    host, _, port = address.rpartition(":")
    if not (node.isdigit() and host and port.isdigit()):
        raise ConfigError(f"Failed to parse voter {entry}: it should be {{id}}@{{host}}:{{port}}")
    return Voter(int(node), _NO_DIRECTORY, (BrokerEndpoint(listener, host, int(port)),))
