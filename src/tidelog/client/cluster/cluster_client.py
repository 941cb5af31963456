"""A client of a cluster: it finds brokers, keeps a connection to each, and knows who leads.

::

    async with ClusterClient(settings) as cluster:
        metadata = await cluster.metadata_of(["flights"])
        leader = metadata.leader_of("flights", 0)
        response = await cluster.send(leader.leader_id, ApiKey.LIST_OFFSETS, {"topics": ...})

==========================  ===========================================================================================
what                        when
==========================  ===========================================================================================
bootstrap servers           asked first. With ``metadata.recovery.strategy=rebootstrap`` also if no known broker
                            responds (KIP-899); without metadata for ``metadata.recovery.rebootstrap.trigger.ms`` the
                            known brokers are forgotten (KIP-1102)
metadata                    refreshed for topics that are not known, after ``metadata.max.age.ms``, and on ``refresh``
a broker's connection       opened by its first request; one for each broker and ``purpose``
a broker's new address      replaces the old connection with the next metadata
a failure                   is the caller's for ``send``. The client's own requests are repeated, with
                            ``retry.backoff.ms``, until ``default.api.timeout.ms`` have passed, ``retries`` times
==========================  ===========================================================================================

Metadata is asked from one broker, and from a second one too if the first has not responded within ``hedge_ms``, and so
on: a broker that hangs delays no caller. Thread rule: the event loop only.
Source: Kafka's ``NetworkClient.DefaultMetadataUpdater``, ``Metadata``, ``AdminMetadataManager``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self

from tidelog.client.cluster.cluster_metadata import ClusterMetadata
from tidelog.client.cluster.first_response import first_response
from tidelog.client.cluster.node_link import NodeLink
from tidelog.client.connection.canonical_names import canonical_servers
from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.connection.connection import Connection, Decoder, Request, Values
from tidelog.client.model.address import Address
from tidelog.client.model.backoff import Backoff
from tidelog.client.model.errors import ClientClosedError, ClientError, DisconnectedError, RequestTimedOutError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode, error_text
from tidelog.protocol.leader_hints import NodeEndpoint

_WITHOUT_AUTO_CREATION: Final = 4
"""The first version of Metadata that can leave topics uncreated."""


def _accept(response: Any, broker: str) -> None:
    """Accept every response."""


class ClusterClient:
    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._loop = asyncio.get_running_loop()
        self._links: dict[tuple[int, str], NodeLink] = {}
        self._bootstrap = [NodeLink(address, settings) for address in settings.bootstrap]
        self._canonical: asyncio.Task[None] | None = None
        """The resolution of the bootstrap servers' canonical names, if the settings want it."""
        self._metadata = ClusterMetadata()
        self._fetched_at: dict[str | None, float] = {}
        """The time of the last response by topic. None stands for all topics."""
        self._brokers_at = -1.0
        """The time of the last response, because each has the brokers."""
        self._missing_since: float | None = None
        """The time of the first request for metadata since the last response."""
        self._refreshes: dict[frozenset[str] | None, asyncio.Task[ClusterMetadata]] = {}
        self._retry = Backoff(initial_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms)
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Pending requests raise ClientClosedError. Idempotent."""
        self._is_closed = True
        for task in (*self._refreshes.values(), *filter(None, (self._canonical,))):
            task.cancel()
        for link in (*self._links.values(), *self._bootstrap):
            link.close()

    # --- metadata ---

    @property
    def metadata(self) -> ClusterMetadata:
        """The latest view; it is empty before the first request."""
        return self._metadata

    async def metadata_of(self, topics: Iterable[str] | None) -> ClusterMetadata:
        """Return metadata of these topics, or of all with None, that is not older than ``metadata.max.age.ms``.

        A topic that does not exist is not in the result. Raise ClientError if no broker responds in time.
        """
        names = None if topics is None else frozenset(topics)
        return self._metadata if self._is_fresh(names) else await self.refresh(names)

    async def refresh(self, topics: Iterable[str] | None) -> ClusterMetadata:
        """Fetch the metadata of these topics, or of all with None, now. Callers at the same time share one request.

        Raise ClientError if no broker responds in time.
        """
        names = None if topics is None else frozenset(topics)
        task = self._refreshes.get(names)
        if task is None:
            self._require_open()
            task = self._refreshes[names] = self._loop.create_task(self._fetch_metadata(names))
            task.add_done_callback(lambda done: self._refresh_done(names, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # by close
                raise self._closed_error() from None
            raise  # the caller itself is cancelled

    def learn_leader(
        self, topic: str, partition: int, leader_id: int, leader_epoch: int, endpoints: Iterable[NodeEndpoint] = ()
    ) -> None:
        """Use a leader hint of a response (KIP-951). A hint with an older epoch than the known one is ignored."""
        self._use(self._metadata.with_leader(topic, partition, leader_id, leader_epoch, endpoints))

    # --- requests ---

    async def send(
        self,
        node_id: int,
        api: ApiKey,
        values: Request,
        *,
        purpose: str = "",
        at_most: int | None = None,
        at_least: int | None = None,
        timeout_ms: int | None = None,
        decode: Decoder | None = None,
    ) -> Any:
        """Send a request to a broker, as ``Connection.send`` does. The connection is opened first if necessary.

        ``purpose`` is a name of the caller's: each has a connection of its own, so that a Fetch that waits does not
        delay other requests. Raise DisconnectedError if the broker is not in the metadata.
        """
        connection = await self.connection(node_id, purpose)
        return await connection.send(
            api, values, at_most=at_most, at_least=at_least, timeout_ms=timeout_ms, decode=decode
        )

    async def send_to_any(
        self,
        api: ApiKey,
        values: Values,
        *,
        at_most: int | None = None,
        at_least: int | None = None,
        check: Callable[[Any, str], None] = _accept,
    ) -> Any:
        """Send a request that every broker can handle. Ask the next broker if one fails or hangs.

        ``check`` raises ClientError to refuse the response of the named broker. Raise a broker's error if all fail.
        """

        async def ask(link: NodeLink) -> Any:
            connection = await link.connection()
            response = await connection.send(api, values, at_most=at_most, at_least=at_least)
            check(response, connection.broker)
            return response

        self._require_open()
        if self.settings.uses_canonical_names:
            await self._use_canonical_names()
        return await first_response([partial(ask, link) for link in self._candidates()], self.settings.hedge_ms / 1000)

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """Return the open connection to a broker for a purpose, for its versions or several requests in sequence."""
        return await self._link(node_id, purpose).connection()

    async def controller_id(self, *, fresh: bool = False) -> int:
        """Return the broker for requests to the controller, from metadata or, if ``fresh``, from a new response.

        Raise ApiError if there is no controller for ``default.api.timeout.ms``.
        """
        deadline = self._deadline()
        failures = 0
        while fresh or self._metadata.controller_id < 0:
            await self.refresh(())
            if self._metadata.controller_id >= 0:
                break
            failures += 1
            await self._pause(failures, deadline, ApiError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller"))
        return self._metadata.controller_id

    # --- inside ---

    def _candidates(self) -> list[NodeLink]:
        """Return the brokers for a request to any, the best first: open ones with few requests, then those with few
        failures, then the bootstrap servers. Without ``rebootstraps`` known brokers replace these for ever."""
        known = [self._link(node_id, "") for node_id in self._metadata.nodes]
        known.sort(key=lambda link: (not link.is_ready, link.failures, link.in_flight))
        if known and not self.settings.rebootstraps:
            return known
        return known + sorted(self._bootstrap, key=lambda link: (not link.is_ready, link.failures))

    async def _use_canonical_names(self) -> None:
        """Replace the bootstrap servers by their canonical names, once. Callers at the same time share the work."""
        if self._canonical is None:
            self._canonical = self._loop.create_task(self._resolve_bootstrap())
        try:
            await asyncio.shield(self._canonical)
        except asyncio.CancelledError:
            self._require_open()
            raise  # the caller itself is cancelled

    async def _resolve_bootstrap(self) -> None:
        servers = await canonical_servers(self.settings.bootstrap)
        self._bootstrap = [NodeLink(server, self.settings) for server in servers]

    def _link(self, node_id: int, purpose: str) -> NodeLink:
        self._require_open()
        node = self._metadata.nodes.get(node_id)
        if node is None:
            known = ", ".join(map(str, sorted(self._metadata.nodes))) or "none"
            raise DisconnectedError(f"broker {node_id} is not in the metadata of the cluster; known brokers: {known}")
        link = self._links.get((node_id, purpose))
        if link is None:
            link = self._links[node_id, purpose] = NodeLink(node.address, self.settings, node_id)
        return link

    def _is_fresh(self, names: frozenset[str] | None) -> bool:
        oldest = max(0.0, self._loop.time() - self.settings.metadata_max_age_ms / 1000)
        all_at = self._fetched_at.get(None, -1.0)
        times = [max(all_at, self._fetched_at.get(name, -1.0)) for name in ((None,) if names is None else names)]
        return min(self._brokers_at, *times) >= oldest if times else self._brokers_at >= oldest

    async def _fetch_metadata(self, names: frozenset[str] | None) -> ClusterMetadata:
        topics = None if names is None else [{"name": name} for name in sorted(names)]
        values = {"topics": topics, "allow_auto_topic_creation": False}
        deadline, failures, last = self._deadline(), 0, ""
        while True:
            trigger = self._rebootstrap_at()
            try:
                async with asyncio.timeout_at(min(deadline, trigger)):
                    response = await self.send_to_any(
                        ApiKey.METADATA, values, at_least=_WITHOUT_AUTO_CREATION, check=self._check_metadata
                    )
                return self._received(response, names)
            except TimeoutError:
                if trigger < deadline:
                    continue
                limit = self.settings.default_api_timeout_ms
                text = f"no broker of {self._servers} has sent metadata within {limit} ms{last}"
                raise RequestTimedOutError(text) from None
            except ClientError as error:
                if not error.is_retriable:
                    raise
                failures, last = failures + 1, f"; the last error: {error.message}"
                await self._pause(failures, deadline, error)

    def _rebootstrap_at(self) -> float:
        """Return the time at which the known brokers are forgotten. Forget them now if it is over."""
        now = self._loop.time()
        if self._missing_since is None:
            self._missing_since = now
        if not self.settings.rebootstraps or not self._metadata.nodes:
            return math.inf
        trigger = self._missing_since + self.settings.rebootstrap_trigger_ms / 1000
        if now <= trigger:
            return trigger
        self._missing_since = now
        self._use(replace(self._metadata, nodes={}))
        return math.inf

    def _check_metadata(self, response: Any, broker: str) -> None:
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self.settings.rebootstraps:  # KIP-1102
            self._use(replace(self._metadata, nodes={}))
        if response.error_code != ErrorCode.NONE:
            raise DisconnectedError(f"{broker} sends no metadata: {error_text(response.error_code)}")
        before = self._metadata.cluster_id
        if before is not None and response.cluster_id != before:
            raise DisconnectedError(
                f"{broker} belongs to cluster {response.cluster_id}, but this client's cluster is {before}"
            )

    def _received(self, response: Any, names: frozenset[str] | None) -> ClusterMetadata:
        self._brokers_at = now = self._loop.time()
        self._missing_since = None
        for name in (None,) if names is None else names:
            self._fetched_at[name] = now
        self._use(self._metadata.updated(response, names))
        return self._metadata

    def _use(self, metadata: ClusterMetadata) -> None:
        """Replace the view, and close the links of brokers that are gone or have moved."""
        self._metadata = metadata
        for (node_id, purpose), link in list(self._links.items()):
            node = metadata.nodes.get(node_id)
            if node is None or node.address != link.address:
                del self._links[node_id, purpose]
                link.close(DisconnectedError(f"broker {node_id} at {link.address} is gone or has another address"))

    async def _pause(self, failures: int, deadline: float, error: Exception) -> None:
        """Wait before an attempt is repeated. Raise ``error`` if the time is over, or too many attempts failed."""
        wait_s = self._retry.delay_ms(failures) / 1000
        if self._loop.time() + wait_s >= deadline or failures > self.settings.retries:
            raise error
        await asyncio.sleep(wait_s)

    def _deadline(self) -> float:
        return self._loop.time() + self.settings.default_api_timeout_ms / 1000

    def _require_open(self) -> None:
        if self._is_closed:
            raise self._closed_error()

    def _closed_error(self) -> ClientClosedError:
        return ClientClosedError(f"the client of {self._servers} is closed")

    @property
    def _servers(self) -> str:
        return _listed(self.settings.bootstrap)

    def _refresh_done(self, names: frozenset[str] | None, task: asyncio.Task[ClusterMetadata]) -> None:
        if self._refreshes.get(names) is task:
            del self._refreshes[names]
        if not task.cancelled():
            task.exception()  # no warning if every caller was cancelled


def _listed(addresses: Iterable[Address]) -> str:
    return ", ".join(map(str, addresses))
