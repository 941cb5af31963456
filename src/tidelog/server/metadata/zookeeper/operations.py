"""The operations of a change of znodes, a znode as a session reads it, and the errors of a session. Pure.

All operations of a commit take effect, or none of them. Paths begin below the chroot.
Source: ZooKeeper's ``Op``, ``KeeperException``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Self, TypeAlias

from tidelog.model import ZooKeeperError

ANY_VERSION: Final = -1
"""The version of an operation that does not depend on the version of its znode."""
MAX_COMMIT_BYTES: Final = 1_000_000
"""The most bytes of a commit: ZooKeeper's limit of a request (``jute.maxbuffer``, 1 MiB) with some room."""
_OPERATION_BYTES: Final = 128
"""The most bytes of an operation without its path and data."""


class ReadZnode(NamedTuple):
    data: bytes
    """The data; empty if the znode has none."""
    version: int
    """The number of changes of the data."""
    czxid: int
    """The id of the transaction that created the znode. It is the broker epoch of a registration."""
    ephemeral_owner: int
    """The id of the session with which the znode ends; 0 if it is persistent."""
    child_count: int
    created_ms: int = 0
    """The time of the creation by ZooKeeper's clock, in ms since the epoch."""


@dataclass(frozen=True, slots=True)
class Create:
    """A new znode. A sequential one gets a number of ten digits at the end of its name."""

    path: str
    data: bytes = b""
    is_ephemeral: bool = False
    """The znode ends with the session."""
    is_sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """The condition that the znode has this version. It changes nothing."""

    path: str
    version: int


Operation: TypeAlias = Create | SetData | Delete | Check


def encoded_bytes(operation: Operation) -> int:
    """Return the most bytes that the operation has in a commit, if the chroot is short."""
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return len(operation.path.encode()) + len(data) + _OPERATION_BYTES


class ZnodeConflictError(ZooKeeperError):
    """An operation of a commit does not fit the znodes: another program was faster. The commit changed nothing.

    ``reason`` is a ``BadVersionError``, ``NoNodeError``, ``NodeExistsError`` or ``NotEmptyError`` by its name.
    """

    def __init__(self, operation: Operation, reason: str) -> None:
        super().__init__(f"{type(operation).__name__} of znode {operation.path} failed: {reason}. Nothing was changed")
        self.operation = operation
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[Operation, str]]:
        return (type(self), (self.operation, self.reason))


class ConnectionLostError(ZooKeeperError):
    """The connection is lost. A commit that had no response yet may have taken effect."""


class SessionExpiredError(ZooKeeperError):
    """The session has ended, and its ephemeral znodes with it. The request was not sent."""
