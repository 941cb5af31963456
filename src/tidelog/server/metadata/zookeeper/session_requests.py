"""The requests of a session in kazoo's form, and the values and errors that their responses become. Pure.

This module imports kazoo, so it is imported after ``require_kazoo``. Source: ZooKeeper's ``zookeeper.jute``,
``ZooDefs``; Kafka's ``ZkData``.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kazoo import exceptions
from kazoo.protocol import serialization
from kazoo.protocol.serialization import CheckVersion, Exists, GetChildren, GetData, Sync, Transaction
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from tidelog.model import ZooKeeperError
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.operations import (
    Check,
    ConnectionLostError,
    Create,
    Delete,
    Operation,
    ReadZnode,
    SessionExpiredError,
    SetData,
    ZnodeConflictError,
)

_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2
_RECURSIVE: Final = 1
_SENSITIVE: Final = (paths.USER_CONFIGS, paths.BROKER_CONFIGS, paths.DELEGATION_TOKENS)
_CONFLICTS: Final = (
    exceptions.BadVersionError,
    exceptions.NoNodeError,
    exceptions.NodeExistsError,
    exceptions.NotEmptyError,
)
_NOT_TRIED: Final = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
"""The results of the other operations of a commit that failed."""


class AddWatch(namedtuple("AddWatch", "path mode")):
    """The request for a persistent watch (ZooKeeper 3.6), which kazoo does not have."""

    type = 106

    def serialize(self) -> bytes:
        encoded: bytes = serialization.write_string(self.path) + serialization.int_struct.pack(self.mode)
        return encoded

    @classmethod
    def deserialize(cls, _buffer: bytes, _offset: int) -> bool:
        return True


class Request(NamedTuple):
    body: Any
    """kazoo's form."""
    value: Callable[[Any], Any]
    """Return the value for the result of kazoo."""
    failure: Callable[[Exception], Exception | None]
    """Return the error for kazoo's error, or None if the value is None."""


class Requests:
    """Makes requests for paths below a chroot."""

    def __init__(self, address: ZooKeeperAddress, *, sets_acls: bool) -> None:
        self._address = address
        self._sets_acls = sets_acls
        self._servers = ",".join(address.servers)

    def read(self, path: str) -> Request:
        """Return a request for a ReadZnode, or None if it is missing."""
        return self._of_path(GetData(self._address.path(path), None), path, _read_znode)

    def count_children(self, path: str) -> Request:
        """Return a request for the number of children, or None if the znode is missing."""
        return self._of_path(Exists(self._address.path(path), None), path, lambda stat: stat and stat.numChildren)

    def list_children(self, path: str) -> Request:
        """Return a request for the sorted names, or None if the znode is missing."""
        return self._of_path(GetChildren(self._address.path(path), None), path, lambda names: tuple(sorted(names)))

    def sync(self) -> Request:
        return self._of_path(Sync(self._address.path("/")), "/", lambda _: None)

    def watch_all(self) -> Request:
        return self._of_path(AddWatch(self._address.path("/"), _RECURSIVE), "/", lambda _: None)

    def commit(self, operations: Sequence[Operation]) -> Request:
        """Return a request for the created paths. A conflict is an error."""
        body = Transaction([self._encoded(operation) for operation in operations])
        return Request(
            body,
            lambda results: self._committed(operations, results),
            lambda error: self._error(error, f"a change of {operations[0].path}"),
        )

    def _of_path(self, body: Any, path: str, value: Callable[[Any], Any]) -> Request:
        def failure(error: Exception) -> Exception | None:
            return None if isinstance(error, exceptions.NoNodeError) else self._error(error, f"a read of {path}")

        return Request(body, value, failure)

    def _encoded(self, operation: Operation) -> Any:
        path = self._address.path(operation.path)
        match operation:
            case Create():
                flags = operation.is_ephemeral * _EPHEMERAL | operation.is_sequential * _SEQUENTIAL
                return serialization.Create(path, operation.data or None, self._acls(operation.path), flags)
            case SetData():
                return serialization.SetData(path, operation.data, operation.version)
            case Delete():
                return serialization.Delete(path, operation.version)
            case Check():
                return CheckVersion(path, operation.version)

    def _acls(self, path: str) -> Any:
        """Return the ACLs of a new znode. Source: ``ZkData.defaultAcls``."""
        if not self._sets_acls or path == paths.OLD_CONSUMERS:
            return OPEN_ACL_UNSAFE
        return CREATOR_ALL_ACL if path.startswith(_SENSITIVE) else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

    def _committed(self, operations: Sequence[Operation], results: Sequence[Any]) -> list[str | None]:
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, _CONFLICTS):
                raise ZnodeConflictError(operation, type(result).__name__)
            if isinstance(result, Exception) and not isinstance(result, _NOT_TRIED):
                raise self._error(result, f"{type(operation).__name__} of znode {operation.path}")
        length = len(self._address.chroot)
        return [result[length:] if isinstance(result, str) else None for result in results]

    def _error(self, error: Exception, request: str) -> ZooKeeperError:
        reason = type(error).__name__
        if isinstance(error, exceptions.SessionExpiredError):
            return SessionExpiredError(f"ZooKeeper at {self._servers}: the session has ended before {request}")
        if isinstance(error, (exceptions.ConnectionLoss, exceptions.AuthFailedError)):
            return ConnectionLostError(f"ZooKeeper at {self._servers}: the connection broke during {request}")
        if isinstance(error, exceptions.NoAuthError):
            return ZooKeeperError(
                f"ZooKeeper at {self._servers} does not allow {request}: the ACL of the znode is for another user"
                " (zookeeper.set.acl)"
            )
        if isinstance(error, exceptions.UnimplementedError):
            return ZooKeeperError(
                f"ZooKeeper at {self._servers} is older than 3.6, and a broker needs 3.6 or newer for its watch"
            )
        return ZooKeeperError(f"ZooKeeper at {self._servers}: {request} failed ({reason}: {error})")


def _read_znode(found: Any) -> ReadZnode:
    data, stat = found
    return ReadZnode(data or b"", stat.version, stat.czxid, stat.ephemeralOwner, stat.numChildren, stat.ctime)
