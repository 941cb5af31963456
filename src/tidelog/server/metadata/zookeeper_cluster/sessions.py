"""The parts of a session with ZooKeeper that the parts of a broker use. Tests have a session of their own.

``ZooKeeperSession`` has all of them. Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tidelog.server.metadata.zookeeper.operations import Operation, ReadZnode
from tidelog.server.metadata.zookeeper.session import SessionState, ZnodeEvent
from tidelog.server.metadata.zookeeper.session_metrics import SessionMeters
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings


class ReadingSession(Protocol):
    """The reads of a session with ZooKeeper."""

    async def watch_all(self) -> None: ...
    async def sync(self) -> None: ...
    async def read(self, paths: Sequence[str], /) -> Sequence[ReadZnode | None]: ...
    async def list_children(self, paths: Sequence[str], /) -> Sequence[tuple[str, ...] | None]: ...


class CommittingSession(Protocol):
    """The writes of a session with ZooKeeper."""

    async def sync(self) -> None: ...
    async def commit(self, operations: Sequence[Operation], /) -> Sequence[str | None]: ...


class Session(ReadingSession, CommittingSession, Protocol):
    """A session with ZooKeeper, as ``ZooKeeperSession`` is one."""

    @property
    def state(self) -> SessionState: ...
    @property
    def session_id(self) -> int: ...
    @property
    def meters(self) -> SessionMeters: ...
    async def open(self) -> None: ...
    async def close(self) -> None: ...


class NewSession(Protocol):
    """Makes a session that is not open yet. Its callbacks run on the event loop."""

    def __call__(
        self,
        settings: ZooKeeperSettings,
        *,
        on_event: Callable[[ZnodeEvent], None],
        on_state: Callable[[SessionState], None],
    ) -> Session: ...
