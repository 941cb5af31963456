"""One member of a classic group. Pure: who waits for an answer is a callable, called once and forgotten.

A member waits for a join (``join_reply``) from its JoinGroup until the rebalance's members are known, and for a sync
(``sync_reply``) from its SyncGroup until the leader's assignment is written. While it waits it needs no heartbeats,
unless it is new: then whoever sent the first JoinGroup may be gone, so its join has a time-out of its own.

Called by: ``ClassicGroup``. Source: Kafka's ``ClassicGroupMember``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Answer = Mapping[str, Any]
"""Fields of a response, by the names that ``protocol.messages`` has."""
Reply = Callable[[Answer], None]


class Protocol(NamedTuple):
    """A way to assign that a member knows, and what it says to whoever assigns so (for consumers: its topics)."""

    name: str
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """``instance_id`` of a static member (KIP-345); ``protocols`` in its order of preference."""

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """It has not been in a generation yet."""
    join_reply: Reply | None = None
    sync_reply: Reply | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_joining(self) -> bool:
        return self.join_reply is not None

    @property
    def needs_no_heartbeat(self) -> bool:
        """It waits for an answer of ours, so its silence means nothing."""
        return not self.is_new and (self.join_reply is not None or self.sync_reply is not None)

    @property
    def protocol_names(self) -> list[str]:
        return [protocol.name for protocol in self.protocols]

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it says for a protocol; ValueError for one it does not know."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise ValueError(f"member {self.member_id} does not support protocol {protocol_name}")

    def vote(self, candidates: Collection[str]) -> str:
        """Which of the protocols that all support it likes best; ValueError where it supports none of them."""
        for name in self.protocol_names:
            if name in candidates:
                return name
        raise ValueError(f"member {self.member_id} does not support any of the candidate protocols")
