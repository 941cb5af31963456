"""The changes of znodes: decisions on the newest image become commits, one after the other.

===================================  =================================================================================
a commit                             effect
===================================  =================================================================================
succeeds                             its paths are read again, and the call returns once the change is published
meets a newer version of a znode     the paths are read again, and the decision is made again on the newer image
has no response                      ApiError(REQUEST_TIMED_OUT): it may have taken effect
===================================  =================================================================================

A large change takes several commits. The first has the versions that guard the decision. If a later one meets a newer
znode, the controller has begun to complete the change, so the rest is left to it.
While the connection is lost a change waits for its return, at most ``timeout_ms``. A caller that stops waiting does not
stop its change. Thread rule: the event loop only. Source: Kafka's ``KafkaZkClient``, ``ZkAdminManager``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tidelog.model import ZnodeError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.runtime.timers import Timers
from tidelog.server.metadata.controller.decision import Decision
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import (
    MAX_COMMIT_BYTES,
    Check,
    ConnectionLostError,
    Operation,
    SessionExpiredError,
    ZnodeConflictError,
    encoded_bytes,
)
from tidelog.server.metadata.zookeeper.znodes import ControllerEpochZnode
from tidelog.server.metadata.zookeeper_cluster.followed_image import FollowedImage
from tidelog.server.metadata.zookeeper_cluster.sessions import CommittingSession
from tidelog.server.metadata.zookeeper_cluster.znode_changes import znode_changes

T = TypeVar("T")
Guard = Callable[[], Check | None]
"""Returns the condition of a commit, if it has one."""

DEFAULT_TIMEOUT_MS: Final = 30_000
"""The longest wait of a change for the connection to ZooKeeper (Kafka's ``request.timeout.ms``)."""
RETRY_BACKOFF_MS: Final = 100
"""The pause after a failed change, before its next attempt."""
_MOST_ATTEMPTS: Final = 100
"""The most decisions of one change. Each conflict means that another broker has made progress."""
_MOST_OPERATIONS: Final = 1000
_MOST_BYTES: Final = MAX_COMMIT_BYTES // 2
_log: Final = logging.getLogger(__name__)


class Plan(NamedTuple, Generic[T]):
    """Operations and a result. The result is returned once the operations have taken effect."""

    operations: Sequence[Operation]
    result: T


class ZnodeChanger:
    def __init__(self, session: CommittingSession, followed: FollowedImage, timers: Timers) -> None:
        self._session = session
        self._followed = followed
        self._timers = timers
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_connected = asyncio.Event()
        """Set while the session is connected and the image has caught up."""
        self._is_closed = False

    async def change(
        self,
        decide: Callable[[MetadataImage], Decision[T]],
        *,
        guard: Guard = lambda: None,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> T:
        """Return the result of a decision once its records are published. Raise the ApiError of ``decide``, and
        REQUEST_TIMED_OUT if the change does not begin within ``timeout_ms``. Raise ZnodeError if the znodes of a topic
        to change are not valid."""

        def plan() -> Plan[T]:
            decision = decide(self._followed.committed)
            if validate_only or not decision.records:
                return Plan((), decision.result)
            for record in decision.records:
                if (error := self._followed.error_of_change(record)) is not None:
                    raise ZnodeError(error)
            return Plan(self._operations(decision), decision.result)

        return await self.write(plan, guard=guard, timeout_ms=timeout_ms)

    async def change_valid(
        self,
        decide: Callable[[MetadataImage], Decision[T]],
        *,
        guard: Guard = lambda: None,
        timeout_ms: int | None = None,
    ) -> T:
        """Change all that is valid: a topic with damaged znodes stays as it is, and does not hold up the others."""

        def decide_valid(image: MetadataImage) -> Decision[T]:
            records, result = decide(image)
            return Decision([one for one in records if self._followed.error_of_change(one) is None], result)

        return await self.change(decide_valid, guard=guard, timeout_ms=timeout_ms)

    async def write(
        self, plan: Callable[[], Plan[T]], *, guard: Guard = lambda: None, timeout_ms: int | None = None
    ) -> T:
        """Commit planned operations, as ``change`` does. ``plan`` is called again after a conflict."""
        if self._is_closed:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "This broker stops")
        limit_ms = DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms
        deadline_ms = self._timers.monotonic_ms() + limit_ms
        task = asyncio.get_running_loop().create_task(self._in_turn(plan, guard, deadline_ms))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End all changes, and refuse later ones. Idempotent."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _in_turn(self, plan: Callable[[], Plan[T]], guard: Guard, deadline_ms: int) -> T:
        async with self._turn:
            for _ in range(_MOST_ATTEMPTS):
                await self._wait_for_connection(deadline_ms)
                planned = plan()
                if not planned.operations or await self._commit(planned.operations, guard):
                    break
            else:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "The znodes of this change never stood still")
        await self._followed.reach_published()
        return planned.result

    async def _wait_for_connection(self, deadline_ms: int) -> None:
        left_ms = deadline_ms - self._timers.monotonic_ms()
        if left_ms <= 0 and not self.is_connected.is_set():
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "This broker has no connection to ZooKeeper")
        if left_ms <= 0:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
        try:
            async with asyncio.timeout(left_ms / 1000):
                await self.is_connected.wait()
        except TimeoutError:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "This broker has no connection to ZooKeeper") from None

    async def _commit(self, operations: Sequence[Operation], guard: Guard) -> bool:
        """Commit the operations in groups, and read their paths again. Return False if the first met a newer znode."""
        touched = [one.path for one in operations]
        is_first, is_conflict = True, False
        try:
            for group in _groups(operations):
                condition = guard()
                await self._session.commit([condition, *group] if condition is not None else group)
                is_first = False
        except ZnodeConflictError as error:
            _log.debug("Decided again: %s", error)
            if isinstance(error.operation, Check) and error.operation == guard():
                raise
            touched.append(error.operation.path)
            is_conflict = True
        except (ConnectionLostError, SessionExpiredError) as error:
            raise ApiError(
                ErrorCode.REQUEST_TIMED_OUT, f"The connection to ZooKeeper was lost, and the change with it: {error}"
            ) from error
        if is_conflict and is_first:
            with suppress(ConnectionLostError, SessionExpiredError):  # all is read again over the next connection
                await self._session.sync()
                await self._followed.refresh(touched)
            return False
        await self._read_again(touched)
        return True

    async def _read_again(self, touched: Sequence[str]) -> None:
        try:
            await self._followed.refresh(touched)
        except (ConnectionLostError, SessionExpiredError) as error:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"The change is made, but not seen here: {error}") from error

    def _operations(self, decision: Decision[Any]) -> Sequence[Operation]:
        mirror = self._followed.mirror
        epoch = mirror.get(paths.CONTROLLER_EPOCH)
        return znode_changes(
            self._followed.committed,
            mirror,
            decision.records,
            controller_epoch=0
            if epoch is None
            else ControllerEpochZnode.decode(paths.CONTROLLER_EPOCH, epoch.data).epoch,
        )

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark the error as retrieved; an awaiting caller still gets it


def _groups(operations: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Yield the operations in groups that ZooKeeper accepts as one commit."""
    group: list[Operation] = []
    size = 0
    for operation in operations:
        added = encoded_bytes(operation)
        if group and (len(group) == _MOST_OPERATIONS or size + added > _MOST_BYTES):
            yield group
            group, size = [], 0
        group.append(operation)
        size += added
    if group:
        yield group
