"""The registration of a broker: an ephemeral znode, which ends with the broker's session.

=============  =======================================================================================================
state          next
=============  =======================================================================================================
not wanted     ``want``
wanted         ``await_absence``, then ``register``: the znode of an earlier session goes first
registered     the epoch of this broker is the id of the transaction that created the znode
forgotten      the session has expired: wanted again
ended          ``end``: the broker stops
=============  =======================================================================================================

Thread rule: the event loop only. Source: Kafka's ``KafkaZkClient.registerBroker``, ``BrokerInfo``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tidelog.model import ConfigError
from tidelog.replication.registration_request import NO_BROKER_EPOCH, VersionRange
from tidelog.runtime.timers import Timers, pause
from tidelog.server.metadata.broker_metadata import OwnRegistration, StartGivenUpError
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.operations import ConnectionLostError, Create, Delete, SessionExpiredError
from tidelog.server.metadata.zookeeper.znodes import BrokerZnode
from tidelog.server.metadata.zookeeper_cluster.followed_image import FollowedImage
from tidelog.server.metadata.zookeeper_cluster.sessions import Session
from tidelog.server.metadata.zookeeper_cluster.znode_changer import RETRY_BACKOFF_MS, Plan, ZnodeChanger

_FEATURE: Final = "tidelog"
"""The feature in the registration of a broker of tidelog. Kafka ignores it."""
_FEATURES: Final = {_FEATURE: VersionRange(1, 1)}
_log: Final = logging.getLogger(__name__)


class Registration:
    def __init__(
        self, node_id: int, session: Session, followed: FollowedImage, changer: ZnodeChanger, timers: Timers
    ) -> None:
        self.broker_epoch = NO_BROKER_EPOCH
        """The epoch of this broker, or -1 while it is not registered."""
        self._node_id = node_id
        self._path = paths.broker(node_id)
        self._session = session
        self._followed = followed
        self._changer = changer
        self._timers = timers
        self._data: bytes | None = None
        """The data of the znode while this broker is to be registered."""
        self._session_id: int | None = None
        """The session of the registration."""
        self._turn = asyncio.Lock()

    @property
    def is_wanted(self) -> bool:
        return self._data is not None

    @property
    def is_current(self) -> bool:
        """True if this broker is registered in the newest session."""
        return self._session_id == self._session.session_id

    def require_tidelog(self, address: ZooKeeperAddress) -> None:
        """Raise ConfigError next to a live broker that is not of tidelog: it does not follow the same rules.

        A registration with this broker's id may be that of a killed run, whose session ends before this one registers.
        """
        for broker in self._followed.committed.brokers.values():
            if _FEATURE not in broker.features and broker.id != self._node_id:
                raise ConfigError(
                    f"broker {broker.id} in {address} is a running broker of Kafka. tidelog does not join it: stop the"
                    " brokers of Kafka first, and then start those of tidelog"
                )

    def want(self, own: OwnRegistration, rack: str | None) -> None:
        self._data = BrokerZnode(
            listeners=tuple(own.endpoints), timestamp_ms=self._timers.now_ms(), rack=rack, features=_FEATURES
        ).encode()

    def give_up(self) -> None:
        """Register no longer: this broker stops."""
        self._data = None

    def forget(self) -> None:
        """Note that the session of the registration has ended."""
        self.broker_epoch, self._session_id = NO_BROKER_EPOCH, None

    async def await_absence(self, timeout_ms: int, is_given_up: Callable[[], bool]) -> None:
        """Return once no other znode has this broker's id. That of a killed run ends with its session. Raise
        ConfigError if it stays, and StartGivenUpError if the broker is to stop meanwhile."""
        deadline_ms = self._timers.monotonic_ms() + timeout_ms
        is_reported = False
        while (found := self._followed.mirror.get(self._path)) is not None:
            if found.ephemeral_owner == self._session.session_id:
                return
            if is_given_up():
                raise StartGivenUpError("the broker is to stop before it has started")
            if self._timers.monotonic_ms() > deadline_ms and self._changer.is_connected.is_set():
                raise ConfigError(
                    f"broker.id {self._node_id}: a live broker with this id is registered in ZooKeeper ({self._path},"
                    f" session 0x{found.ephemeral_owner:x}). Stop it, or give this broker another id"
                )
            if not is_reported:
                _log.info("Waiting for the end of this broker's earlier session (%s)", self._path)
                is_reported = True
            await pause(self._timers, RETRY_BACKOFF_MS)
            with suppress(ConnectionLostError, SessionExpiredError):  # all is read again over the next connection
                await self._session.sync()
                await self._followed.refresh([self._path])

    async def register(self) -> None:
        """Create the znode. Raise ConfigError if another broker has the id."""
        async with self._turn:
            data = self._data
            if data is None or self.is_current:
                return
            await self._changer.write(lambda: self._plan(data))
            found = self._followed.mirror.get(self._path)
            if found is None or found.ephemeral_owner != self._session.session_id:
                raise SessionExpiredError("the session has ended with the registration")
            self.broker_epoch, self._session_id = found.czxid, found.ephemeral_owner
            _log.info("Broker %d is registered in ZooKeeper, epoch %d", self._node_id, self.broker_epoch)

    async def end(self, timeout_ms: int) -> None:
        """Delete the znode of this session. The epoch stays known: the markers of a clean shutdown have it."""

        def plan() -> Plan[None]:
            return Plan([Delete(self._path)] if self._is_own() else [], None)

        await self._changer.write(plan, timeout_ms=timeout_ms)

    def _plan(self, data: bytes) -> Plan[None]:
        if self._is_own():
            return Plan((), None)
        if self._path in self._followed.mirror:
            raise ConfigError(f"broker {self._node_id} is registered by another process")
        return Plan([Create(self._path, data, is_ephemeral=True)], None)

    def _is_own(self) -> bool:
        found = self._followed.mirror.get(self._path)
        return found is not None and found.ephemeral_owner == self._session.session_id
