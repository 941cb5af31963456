"""The log directories of this broker's replicas, on their way to the controller (KIP-858).

Assignments wait in one queue, and a later one of a replica replaces an earlier one. One request is in flight at a time,
with up to 2,250 of them. A replica whose assignment fails stays in the queue, unless its topic is gone. A failed
request is repeated after a back-off that doubles. The controller may fence the broker, but an assignment is never
forgotten. Thread rule: the event loop only. Source: Kafka's ``AssignmentsManager``."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from itertools import islice
from typing import Final, Protocol

from tidelog.client.model.backoff import Backoff
from tidelog.client.model.errors import ClientClosedError, ClientError
from tidelog.protocol.errors import ApiError, ErrorCode

Replica = tuple[uuid.UUID, int]
"""The topic's id and the partition's number."""

MAX_ASSIGNMENTS: Final = 2250
_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_log: Final = logging.getLogger(__name__)


class AssignDirectories(Protocol):
    async def __call__(self, directories: Mapping[Replica, uuid.UUID], /) -> Mapping[Replica, ErrorCode]: ...


class DirectoryAssignments:
    def __init__(self, send: AssignDirectories) -> None:
        self._send = send
        self._queue: dict[Replica, uuid.UUID] = {}
        self._news = asyncio.Event()
        self._settled = asyncio.Event()
        """Replaced after each response: waiting callers look again."""
        self._backoff = Backoff(initial_ms=100, max_ms=10_000)

    async def assign(self, directories: Mapping[Replica, uuid.UUID]) -> None:
        """Return once the controller knows these directories, or newer ones of the same replicas."""
        self._queue.update(directories)
        self._news.set()
        while any(self._queue.get(replica) == directory for replica, directory in directories.items()):
            await self._settled.wait()

    async def run(self) -> None:
        """Send the queue until the task is cancelled."""
        failures = 0
        while True:
            if not self._queue:
                self._news.clear()
                await self._news.wait()
            batch = dict(islice(self._queue.items(), MAX_ASSIGNMENTS))
            try:
                is_done = self._take_response(batch, await self._send(batch))
            except ClientClosedError:
                return
            except (ClientError, ApiError) as error:
                _log.warning("The log directories of %d replicas are not assigned yet: %s", len(batch), error)
                is_done = False
            failures = 0 if is_done else failures + 1
            if failures:
                await asyncio.sleep(self._backoff.delay_ms(failures) / 1000)

    def _take_response(self, batch: Mapping[Replica, uuid.UUID], errors: Mapping[Replica, ErrorCode]) -> bool:
        """Remove the assignments that the controller knows. Return False if some of the batch must be sent again."""
        left = 0
        for replica, directory in batch.items():
            error = errors.get(replica, ErrorCode.UNKNOWN_SERVER_ERROR)
            if error is not ErrorCode.NONE and error not in _GONE:
                left += 1
            elif self._queue.get(replica) == directory:
                del self._queue[replica]
        settled, self._settled = self._settled, asyncio.Event()
        settled.set()
        if left:
            _log.warning("The controller did not take the log directories of %d replicas; they are sent again", left)
        return not left
