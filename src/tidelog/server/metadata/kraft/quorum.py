"""The metadata quorum: its voters in a node's properties and in control records, and its status for clients. Pure.

With ``kraft.version`` 0 the voters are in every node's properties (``controller.quorum.voters``). With 1 they are in
the log, with the ids of their directories (KIP-853). This process must be the only voter in both cases: others would
have to acknowledge each record. Kafka's key ``controller.quorum.voters`` (``id@host:port``, …) makes the quorum static.
Without it, the only voter is in the log. ``controller.listener.names`` names the controllers' listener, whose address
is in ``advertised.listeners`` or ``listeners``. Source: Kafka's ``QuorumConfig``, ``KafkaConfig``, ``VoterSet``,
``LeaderState``."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.record.control import ControlType, control_key
from tidelog.record.quorum import quorum_value
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.storage.checkpoint import uuid_from_text, uuid_to_text

_SUPPORTED: Final = {"minSupportedVersion": 0, "maxSupportedVersion": 1}


class ControlRecord(NamedTuple):
    type: ControlType
    fields: Mapping[str, Any]

    @property
    def key(self) -> bytes:
        return control_key(self.type)

    @property
    def value(self) -> bytes:
        return quorum_value(self.type, self.fields)


class Voter(NamedTuple):
    id: int
    directory_id: uuid.UUID
    endpoints: tuple[BrokerEndpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Voters:
    """The voters of the quorum. They are not in the log if ``kraft_version`` is 0."""

    kraft_version: int
    voters: tuple[Voter, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.id for voter in self.voters)

    def control_records(self) -> list[ControlRecord]:
        """Return the control records for the log and for snapshots; none if the voters are not in the log."""
        if self.kraft_version == 0:
            return []
        voters = [
            {
                "voterId": voter.id,
                "voterDirectoryId": uuid_to_text(voter.directory_id),
                "endpoints": [
                    {"name": endpoint.name, "host": endpoint.host, "port": endpoint.port}
                    for endpoint in voter.endpoints
                ],
                "kRaftVersionFeature": _SUPPORTED,
            }
            for voter in self.voters
        ]
        return [
            ControlRecord(ControlType.KRAFT_VERSION, {"version": 0, "kRaftVersion": self.kraft_version}),
            ControlRecord(ControlType.KRAFT_VOTERS, {"version": 0, "voters": voters}),
        ]


def voters_of(fields: Mapping[str, Any]) -> tuple[Voter, ...]:
    """Return the voters of a KRAFT_VOTERS record."""
    return tuple(
        Voter(
            voter["voterId"],
            uuid_from_text(voter["voterDirectoryId"]),
            tuple(BrokerEndpoint(one["name"], one["host"], one["port"]) for one in voter["endpoints"]),
        )
        for voter in fields["voters"]
    )


def leader_change(node_id: int, voters: Voters) -> ControlRecord:
    """Return the first record of an epoch, which names its leader."""
    voted = [{"voterId": voter} for voter in voters.ids]
    fields = {"version": 0, "leaderId": node_id, "voters": voted, "grantingVoters": [{"voterId": node_id}]}
    return ControlRecord(ControlType.LEADER_CHANGE, fields)


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
