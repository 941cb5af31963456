"""Who votes in the metadata quorum, as its control records say it; with the quorum's version.

``kraft.version`` 0: the voters stand in every node's properties (``controller.quorum.voters``); 1: in the log, with the
ids of their directories (KIP-853). Either way this process has to be the only one: with others it would need them to
agree to each record. Pure. Source: Kafka's ``VoterSet``, ``LeaderState``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidelog.record.control import ControlType, control_key
from tidelog.record.quorum import quorum_value
from tidelog.server.metadata.broker_registration import Endpoint
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
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Voters:
    """``kraft_version`` 0: nothing of it is in the log."""

    kraft_version: int
    voters: tuple[Voter, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.id for voter in self.voters)

    def control_records(self) -> list[ControlRecord]:
        """For the log and for snapshots; none where the voters stand elsewhere."""
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
    """From the fields of a KRAFT_VOTERS record."""
    return tuple(
        Voter(
            voter["voterId"],
            uuid_from_text(voter["voterDirectoryId"]),
            tuple(Endpoint(one["name"], one["host"], one["port"]) for one in voter["endpoints"]),
        )
        for voter in fields["voters"]
    )


def leader_change(node_id: int, voters: Voters) -> ControlRecord:
    """The first record of an epoch, by which the others learn who leads it."""
    voted = [{"voterId": voter} for voter in voters.ids]
    fields = {"version": 0, "leaderId": node_id, "voters": voted, "grantingVoters": [{"voterId": node_id}]}
    return ControlRecord(ControlType.LEADER_CHANGE, fields)
