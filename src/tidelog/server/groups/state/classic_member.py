"""A member of a classic group. Pure: a pending reply is a callable that is called once.

A join is pending (``join_reply``) from JoinGroup until the rebalance's members are fixed. A sync is pending
(``sync_reply``) from SyncGroup until the leader's assignment is written. A member with a pending request needs no
heartbeats unless it is new: its client may have disappeared, so a first join has its own timeout.
Source: Kafka's ``ClassicGroupMember``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

ResponseFields = Mapping[str, Any]
"""The fields of a response, by their names in ``protocol.messages``."""
Reply = Callable[[ResponseFields], None]


class Protocol(NamedTuple):
    """An assignment strategy that a member knows, and the member's metadata for it (for consumers: its topics)."""

    name: str
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """``instance_id`` is a static member's (KIP-345). ``protocols`` are sorted by preference."""

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
    """True until its first generation begins."""
    join_reply: Reply | None = None
    sync_reply: Reply | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_joining(self) -> bool:
        return self.join_reply is not None

    @property
    def may_be_silent(self) -> bool:
        """True if it waits for our response, so its silence means nothing."""
        return not self.is_new and (self.join_reply is not None or self.sync_reply is not None)

    @property
    def protocol_names(self) -> list[str]:
        return [protocol.name for protocol in self.protocols]

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for a protocol. Raise ValueError if it does not know the protocol."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise ValueError(f"member {self.member_id} does not support protocol {protocol_name}")

    def vote(self, candidates: Collection[str]) -> str:
        """Return the member's preferred protocol among ``candidates``. Raise ValueError if it knows none of them."""
        for name in self.protocol_names:
            if name in candidates:
                return name
        raise ValueError(f"member {self.member_id} does not support any of the candidate protocols")
