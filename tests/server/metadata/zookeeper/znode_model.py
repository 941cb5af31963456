"""A model of ZooKeeper for tests: one tree of znodes, and sessions whose faults are under the test's control.

A commit changes the leader's tree at once. Each session is connected to a server of its own, which applies the commits
in their sequence, sends the events of the watch, and then the responses. A server that lags (``is_lagging``) applies
them only when the session commits or syncs, or when the test lets it ``catch_up``: until then reads are old.

============  ========================================================================================================
control       effect
============  ========================================================================================================
``cut``       the connection is lost; of the requests without a response, the first few have taken effect
``end``       the session ends on the servers, with its ephemeral znodes. The client does not know yet
``reconnect`` the same session goes on, or another one begins if it has ended. The watch is gone
============  ========================================================================================================
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from server.metadata.zookeeper.znode_trees import parents
from tidelog.model import ZooKeeperError
from tidelog.server.metadata.zookeeper.operations import (
    ANY_VERSION,
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
from tidelog.server.metadata.zookeeper.session import EventKind, SessionState, ZnodeEvent
from tidelog.server.metadata.zookeeper.session_metrics import SessionMeters

T = TypeVar("T")


class Step(NamedTuple):
    """A change of a znode: its data afterwards, or None if it is deleted."""

    event: ZnodeEvent
    found: ReadZnode | None


class ZnodeTable:
    """The znodes of a server by path."""

    def __init__(self) -> None:
        self._znodes: dict[str, ReadZnode] = {"/": ReadZnode(b"", 0, 0, 0, 0)}
        self._names: defaultdict[str, set[str]] = defaultdict(set)

    def read(self, path: str) -> ReadZnode | None:
        found = self._znodes.get(path)
        return None if found is None else found._replace(child_count=len(self._names[path]))

    def children(self, path: str) -> tuple[str, ...] | None:
        return tuple(sorted(self._names[path])) if path in self._znodes else None

    def all(self) -> dict[str, ReadZnode]:
        return {path: found for path in self._znodes if (found := self.read(path)) is not None}

    def put(self, path: str, found: ReadZnode | None) -> None:
        parent, name = parent_of(path)
        if found is None:
            del self._znodes[path]
            self._names[parent].remove(name)
        else:
            self._znodes[path] = found
            self._names[parent].add(name)


class ModelZooKeeper:
    """The leader: its tree, and all commits so far."""

    def __init__(self, znodes: Mapping[str, bytes] | None = None) -> None:
        """Create the znodes with version 0, and their parents."""
        self.table = ZnodeTable()
        self.commits: list[list[Step]] = []
        self.live: set[int] = set()
        """The ids of the sessions that have not ended."""
        self.sessions: list[ModelSession] = []
        self.now_ms: Callable[[], int] = lambda: 0
        """Returns the time of the servers, in ms."""
        self._sequences: defaultdict[str, int] = defaultdict(int)
        self._last_session = 0
        for path, data in (znodes or {}).items():
            self.write(path, data)

    def read(self, path: str) -> ReadZnode | None:
        return self.table.read(path)

    def write(self, path: str, data: bytes) -> None:
        """Set the data of a znode, or create it with its missing parents, as another program would."""
        if self.table.read(path) is not None:
            self.commit([SetData(path, data, ANY_VERSION)])
            return
        missing = [one for one in (*parents(path), path) if self.table.read(one) is None]
        self.commit([Create(one, data if one == path else b"") for one in missing])

    def delete(self, path: str) -> None:
        """Delete a znode, if it is there."""
        if self.table.read(path) is not None:
            self.commit([Delete(path)])

    def commit(self, operations: Iterable[Operation], session_id: int = 0) -> list[str | None]:
        """Apply all operations, or none. Raise ZnodeConflictError."""
        steps: list[Step] = []
        before: list[tuple[str, ReadZnode | None]] = []
        results: list[str | None] = []
        sequences = self._sequences.copy()
        try:
            for operation in operations:
                step, result = self._step(operation, session_id)
                results.append(result)
                if step is not None:
                    before.append((step.event.path, self.table.read(step.event.path)))
                    self.table.put(step.event.path, step.found)
                    steps.append(step)
        except ZnodeConflictError:
            for path, found in reversed(before):
                self.table.put(path, found)
            self._sequences = sequences
            raise
        self.commits.append(steps)
        for session in self.sessions:
            session.note_commit()
        return results

    def begin_session(self) -> int:
        self._last_session += 1
        self.live.add(self._last_session)
        return self._last_session

    def end_session(self, session_id: int) -> None:
        if session_id in self.live:
            self.live.remove(session_id)
            owned = [path for path, found in self.table.all().items() if found.ephemeral_owner == session_id]
            self.commit([Delete(path) for path in owned])

    def _step(self, operation: Operation, session_id: int) -> tuple[Step | None, str | None]:
        if isinstance(operation, Create):
            return self._create(operation, session_id)
        found = self.table.read(operation.path)
        if found is None:
            raise ZnodeConflictError(operation, "NoNodeError")
        if operation.version not in (ANY_VERSION, found.version):
            raise ZnodeConflictError(operation, "BadVersionError")
        if isinstance(operation, Check):
            return None, None
        if isinstance(operation, SetData):
            changed = found._replace(data=operation.data, version=found.version + 1)
            return Step(ZnodeEvent(EventKind.CHANGED, operation.path), changed), None
        if found.child_count:
            raise ZnodeConflictError(operation, "NotEmptyError")
        self._sequences.pop(operation.path, None)
        return Step(ZnodeEvent(EventKind.DELETED, operation.path), None), None

    def _create(self, operation: Create, session_id: int) -> tuple[Step, str]:
        parent = parent_of(operation.path)[0]
        path = operation.path
        if operation.is_sequential:
            path += f"{self._sequences[parent]:010}"
        if self.table.read(path) is not None:
            raise ZnodeConflictError(operation, "NodeExistsError")
        if (above := self.table.read(parent)) is None:
            raise ZnodeConflictError(operation, "NoNodeError")
        assert not above.ephemeral_owner, f"{path} is below an ephemeral znode"
        self._sequences[parent] += 1
        owner = session_id if operation.is_ephemeral else 0
        found = ReadZnode(operation.data, 0, len(self.commits) + 1, owner, 0, self.now_ms())
        return Step(ZnodeEvent(EventKind.CREATED, path), found), path


@dataclass(slots=True)
class _Request:
    act: Callable[[], Any]
    future: asyncio.Future[Any]
    operations: Sequence[Operation] = ()


class ModelSession:
    """The interface of ``ZooKeeperSession``, and the controls of a test."""

    def __init__(
        self,
        zookeeper: ModelZooKeeper,
        *,
        on_event: Callable[[ZnodeEvent], None],
        on_state: Callable[[SessionState], None],
    ) -> None:
        self.session_id = 0
        self.state = SessionState.CONNECTING
        self.meters = SessionMeters()
        self.is_lagging = False
        """True if the server applies commits only when it must."""
        self._zookeeper = zookeeper
        self._on_event = on_event
        self._on_state = on_state
        self._table = ZnodeTable()
        self._applied = 0
        self._watches = False
        self._requests: deque[_Request] = deque()
        self._is_scheduled = False

    # --- the interface ---

    async def open(self) -> None:
        self._zookeeper.sessions.append(self)
        self.catch_up()
        self.session_id = self._zookeeper.begin_session()
        self._change(SessionState.CONNECTED)

    async def close(self) -> None:
        if self.state is not SessionState.CLOSED:
            self._zookeeper.end_session(self.session_id)
            self._fail_all()
            self._change(SessionState.CLOSED)
            self._zookeeper.sessions.remove(self)

    async def watch_all(self) -> None:
        await self._send(self._begin_watch)

    async def sync(self) -> None:
        await self._send(self.catch_up)

    async def read(self, paths: Sequence[str]) -> list[ReadZnode | None]:
        return await asyncio.gather(*(self._send(partial(self._read, path)) for path in paths))

    async def list_children(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        return await asyncio.gather(*(self._send(partial(self._children, path)) for path in paths))

    async def commit(self, operations: Sequence[Operation]) -> list[str | None]:
        return await self._send(partial(self._commit, tuple(operations)), operations) if operations else []

    # --- the controls ---

    @property
    def requests(self) -> list[Sequence[Operation]]:
        """The requests without a response: the operations of each commit, and none of another request."""
        return [request.operations for request in self._requests]

    def catch_up(self, commits: int | None = None) -> None:
        """Let the server apply the next commits, or all of them."""
        newest = len(self._zookeeper.commits)
        end = newest if commits is None else min(newest, self._applied + commits)
        while self._applied < end:
            steps = self._zookeeper.commits[self._applied]
            self._applied += 1
            for step in steps:
                self._table.put(step.event.path, step.found)
            for step in steps if self._watches else ():
                self._on_event(step.event)

    def cut(self, executed: int = 0) -> None:
        """Lose the connection. The first ``executed`` requests without a response take effect."""
        if self.state is SessionState.CONNECTED:
            self._serve(executed)
            self._change(SessionState.DISCONNECTED)
            self._fail_all()

    def kill(self, executed: int = 0) -> int:
        """End the client at once, as ``cut`` does, but without a report. Return the id of its session, which lasts."""
        self._serve(executed)
        self._fail_all()
        self.state = SessionState.CLOSED
        if self in self._zookeeper.sessions:
            self._zookeeper.sessions.remove(self)
        return self.session_id

    def end(self) -> None:
        """Lose the connection for longer than the session lasts."""
        self.cut()
        self._zookeeper.end_session(self.session_id)

    def reconnect(self) -> None:
        """Connect again, with another session if the first one has ended."""
        if self.session_id not in self._zookeeper.live:
            self._change(SessionState.EXPIRED)
            self._change(SessionState.CONNECTING)
            self.session_id = self._zookeeper.begin_session()
        self._change(SessionState.CONNECTED)
        self.note_commit()

    def note_commit(self) -> None:
        """Let the server work soon."""
        if not self._is_scheduled and self.state is SessionState.CONNECTED:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    # --- the server ---

    def _send(self, act: Callable[[], T], operations: Sequence[Operation] = ()) -> asyncio.Future[T]:
        if self.state is SessionState.EXPIRED:
            raise SessionExpiredError("the session has ended")
        if self.state is not SessionState.CONNECTED:
            raise ConnectionLostError("there is no connection")
        request = _Request(act, asyncio.get_running_loop().create_future(), operations)
        self._requests.append(request)
        self.note_commit()
        return request.future

    def _work(self) -> None:
        """Apply the commits, and serve one request."""
        self._is_scheduled = False
        if self.state is not SessionState.CONNECTED:
            return
        if not self.is_lagging:
            self.catch_up()
        if self._requests:
            request = self._requests.popleft()
            try:
                result = request.act()
            except ZnodeConflictError as error:
                _settle(request.future, error)
            else:
                _settle(request.future, result)
        if self._requests:
            self.note_commit()

    def _serve(self, executed: int) -> None:
        """Let the next requests take effect. Their events and responses are lost."""
        for request in list(self._requests)[:executed]:
            self._watches = False
            with suppress(ZnodeConflictError):
                request.act()
        self._watches = False

    def _begin_watch(self) -> None:
        self._watches = True

    def _read(self, path: str) -> ReadZnode | None:
        return self._table.read(path)

    def _children(self, path: str) -> tuple[str, ...] | None:
        return self._table.children(path)

    def _commit(self, operations: Sequence[Operation]) -> list[str | None]:
        results = self._zookeeper.commit(operations, self.session_id)
        self.catch_up()
        return results

    def _fail_all(self) -> None:
        while self._requests:
            _settle(self._requests.popleft().future, ConnectionLostError("the connection is lost"))

    def _change(self, state: SessionState) -> None:
        self.state = state
        self._on_state(state)


def parent_of(path: str) -> tuple[str, str]:
    """Return the path of the parent, and the name below it."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if isinstance(result, ZooKeeperError):
        future.set_exception(result)
    else:
        future.set_result(result)
