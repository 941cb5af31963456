"""The connection to one broker for one purpose: it is opened when it is needed, and opened again after its end.

Callers that need it at the same time share one attempt. After a failure or a lost connection the next attempt waits for
the back-off. A connection that was closed because it was idle is opened again at once. A link never waits for another
broker. Thread rule: the event loop only. Source: Kafka's ``ClusterConnectionStates``.
"""

from __future__ import annotations

import asyncio

from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.connection.connection import Connection
from tidelog.client.connection.opening import open_connection
from tidelog.client.model.address import Address
from tidelog.client.model.backoff import Backoff
from tidelog.client.model.errors import ClientClosedError, ClientError


class NodeLink:
    def __init__(self, address: Address, settings: ClientSettings, node_id: int | None = None) -> None:
        self.address = address
        self.node_id = node_id
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._reconnect = Backoff(initial_ms=settings.reconnect_backoff_ms, max_ms=settings.reconnect_backoff_max_ms)
        self._setup = Backoff(
            initial_ms=settings.connection_setup_timeout_ms, max_ms=settings.connection_setup_timeout_max_ms
        )
        self._failures = 0
        """Failed attempts in a row; a lost connection counts as one."""
        self._not_before = 0.0
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._end_reason: ClientError | None = None

    @property
    def is_ready(self) -> bool:
        return self._connection is not None and self._connection.is_open

    @property
    def in_flight(self) -> int:
        return 0 if self._connection is None else self._connection.in_flight

    @property
    def failures(self) -> int:
        return self._failures

    def change(self, settings: ClientSettings) -> None:
        """Use other settings from the next connection on."""
        self._settings = settings

    async def connection(self) -> Connection:
        """Return the open connection, after a wait for the back-off and the set-up if there is none.

        Raise the errors of ``open_connection``.
        """
        if self._end_reason is not None:
            raise self._end_reason
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if self._opening is None:
            self._opening = self._loop.create_task(self._open())
            self._opening.add_done_callback(self._opening_done)
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled() and self._end_reason is not None:
                raise self._end_reason from None
            raise  # the caller itself is cancelled, and the attempt goes on for others

    def close(self, reason: ClientError | None = None) -> None:
        """Close the connection, and end an attempt. Callers get ``reason``, or else ClientClosedError. Idempotent."""
        if self._end_reason is None:
            self._end_reason = reason or ClientClosedError(f"the client has closed its connection to {self.address}")
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.close(self._end_reason)

    async def _open(self) -> Connection:
        wait_s = self._not_before - self._loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        timeout_ms = max(1, round(self._setup.delay_ms(self._failures + 1)))
        try:
            connection = await open_connection(
                self.address, self._settings, node_id=self.node_id, setup_timeout_ms=timeout_ms
            )
        except ClientError:
            self._note_failure(self._failures + 1)
            raise
        self._failures = 0
        connection.on_lost = lambda: self._note_failure(1)
        self._connection = connection
        return connection

    def _note_failure(self, failures: int) -> None:
        self._failures = failures
        self._not_before = self._loop.time() + self._reconnect.delay_ms(failures) / 1000

    def _opening_done(self, opening: asyncio.Task[Connection]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # no warning if every caller was cancelled
