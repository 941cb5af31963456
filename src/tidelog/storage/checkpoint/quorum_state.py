"""The file ``quorum-state``: the leader and epoch of the metadata quorum, and this node's vote.

It is one line of JSON without a line end. Version 0 (``kraft.version`` 0) has the voters' ids. Version 1 has the
directory id of the voted node. The file is replaced atomically before any write in a new epoch, so that no crash can
lead to two leaders of one epoch. Source: Kafka's ``FileQuorumStateStore``; KIP-595, KIP-853.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tidelog.model import CheckpointError
from tidelog.record.internal_records.schema import ZERO_UUID
from tidelog.storage.fs import FileSystem, read_whole, write_atomically

QUORUM_STATE_FILE: Final = "quorum-state"
_VERSION = "data_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The contents of the file. ``voters`` is set in version 0 only."""

    leader_id: int
    epoch: int
    voted_id: int = -1
    voters: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, data: bytes, *, path: Path | None = None) -> Self:
        """Parse the file. Raise CheckpointError for malformed JSON, an unknown version or a missing field."""
        try:
            found = json.loads(data)
            version = found[_VERSION]
            if version not in (0, 1):
                raise ValueError(f"version {version} is unknown")
            return cls(
                leader_id=int(found["leaderId"]),
                epoch=int(found["leaderEpoch"]),
                voted_id=int(found["votedId"]),
                voters=tuple(int(voter["voterId"]) for voter in found["currentVoters"]) if version == 0 else None,
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise CheckpointError(f"not a readable {QUORUM_STATE_FILE}: {error!r}", path=path) from None

    def to_bytes(self) -> bytes:
        """Return the file's bytes, with the fields in Kafka's sequence."""
        found: dict[str, object] = {"leaderId": self.leader_id, "leaderEpoch": self.epoch, "votedId": self.voted_id}
        if self.voters is None:
            found |= {"votedDirectoryId": ZERO_UUID, _VERSION: 1}
        else:
            voters = [{"voterId": voter} for voter in self.voters]
            found = {"clusterId": "", **found, "appliedOffset": 0, "currentVoters": voters, _VERSION: 0}
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def read(cls, fs: FileSystem, directory: Path) -> Self | None:
        """Return the state, or None without a file: the node has not been part of a quorum yet."""
        path = directory / QUORUM_STATE_FILE
        return cls.parse(read_whole(fs, path), path=path) if fs.exists(path) else None

    def write(self, fs: FileSystem, directory: Path) -> None:
        """Replace the file. It is durable on return."""
        write_atomically(fs, directory / QUORUM_STATE_FILE, self.to_bytes())
