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
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.record.control import ControlType, control_key
from tidelog.record.quorum import quorum_value
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.security.security_protocol import SecurityProtocol
from tidelog.server.network.endpoint import protocol_of, reachable
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

    def moved_to(self, endpoint: BrokerEndpoint | None) -> Voters:
        """Return the voters with the endpoint of the only one, if the log has them and ``endpoint`` is given."""
        if endpoint is None or self.kraft_version == 0 or len(self.voters) != 1:
            return self
        # A voter's endpoint in the log has no security protocol.
        only = self.voters[0]._replace(endpoints=(endpoint._replace(security_protocol=0),))
        return Voters(kraft_version=self.kraft_version, voters=(only,))

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


class ObserverKey(NamedTuple):
    node_id: int
    directory_id: uuid.UUID
    """The id of its metadata directory, or zero if it did not send it."""


@dataclass(slots=True)
class Observer:
    """The progress of an observer."""

    end_offset: int = -1
    """The offset of its last Fetch."""
    fetched_at_ms: int = -1
    """The wall clock's time of its last Fetch."""
    caught_up_at_ms: int = -1
    """The last time at which it had every record."""
    last_log_end: int = -1
    """The log end of this controller at its last Fetch."""

    def fetched(self, offset: int, log_end: int, now_ms: int) -> None:
        """Note a Fetch from ``offset``."""
        if offset >= log_end:
            self.caught_up_at_ms = max(now_ms, self.caught_up_at_ms)
        elif 0 <= self.last_log_end <= offset:
            self.caught_up_at_ms = max(self.fetched_at_ms, self.caught_up_at_ms)
        self.end_offset, self.fetched_at_ms, self.last_log_end = offset, now_ms, log_end


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """The quorum at one moment."""

    leader_id: int
    epoch: int
    high_watermark: int
    """The records below it are committed."""
    kraft_version: int
    voters: tuple[Voter, ...]
    observers: Mapping[ObserverKey, Observer] = field(default_factory=dict)
    """The other nodes that fetch the metadata log."""


def static_voters(config: BrokerConfig) -> Voters | None:
    """Return the voters of the properties, or None if there are none. Raise ConfigError if a voter is malformed."""
    entries = config.texts("controller.quorum.voters")
    name = _controller_listener(config)
    return Voters(kraft_version=0, voters=tuple(_voter(entry, name) for entry in entries)) if entries else None


def past_voters(ids: Sequence[int]) -> Voters:
    """Return the voters of ``quorum-state``, for a static quorum that the properties no longer list."""
    return Voters(kraft_version=0, voters=tuple(Voter(node, _NO_DIRECTORY, ()) for node in ids))


def controller_endpoint(config: BrokerConfig) -> BrokerEndpoint:
    """Return the controller's endpoint. It may not be open: a node that is alone needs none."""
    name = _controller_listener(config)
    for key in ("advertised.listeners", "listeners"):
        for entry in config.texts(key):
            listener, _, address = entry.partition("://")
            host, _, port = address.rpartition(":")
            if listener.upper() == name.upper() and port.isdigit():
                return BrokerEndpoint(name, _reachable(host.strip("[]")), int(port), _protocol(config, name))
    return BrokerEndpoint(name, "localhost", _DEFAULT_PORT)


def _reachable(host: str) -> str:
    """Return a host name for other nodes: an empty host is this machine."""
    return reachable(host) if host else "localhost"


def _protocol(config: BrokerConfig, name: str) -> int:
    try:
        return int(protocol_of(config, name.upper()))
    except ConfigError:
        return int(SecurityProtocol.PLAINTEXT)  # ``StartSettings`` reports the mistake


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
