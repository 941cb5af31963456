"""The voters of the metadata quorum and its version, as its control records define them. Pure.

With ``kraft.version`` 0 the voters are in every node's properties (``controller.quorum.voters``). With 1 they are in
the log, with the ids of their directories (KIP-853). This process must be the only voter in both cases: others would
have to acknowledge each record. Source: Kafka's ``VoterSet``, ``LeaderState``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidelog.record.control import ControlType, control_key
from tidelog.record.quorum import quorum_value
from tidelog.server.metadata.broker_registration import BrokerEndpoint
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
