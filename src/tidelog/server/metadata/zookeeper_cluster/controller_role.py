"""The role of the controller: its election, and the duties that one broker has for all of them.

=============  =======================================================================================================
state          next
=============  =======================================================================================================
waiting        the broker is not registered yet, or another broker is the controller
elected        ``/controller`` and the next ``/controller_epoch`` were written in one commit
active         the duties run after each change, until nothing is left to do
resigned       ``/controller`` is gone, another epoch began, or the session is lost: waiting again
=============  =======================================================================================================

Every commit of an active controller has the condition that ``/controller_epoch`` still has the version of its election:
a controller that was away too long cannot change anything. A duty that fails is tried again after a back-off, and after
every change. Thread rule: the event loop only. Source: Kafka's ``KafkaController``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tidelog.model import TidelogError, ZnodeError
from tidelog.runtime.repeated_errors import RepeatedErrors
from tidelog.runtime.timers import Timers, pause
from tidelog.server.metadata.controller import leaders, periodic_elections, reassignments
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision
from tidelog.server.metadata.image import MetadataChange, MetadataImage
from tidelog.server.metadata.requests import ElectionType
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import Check, Create, Delete, Operation, SetData, ZnodeConflictError
from tidelog.server.metadata.zookeeper.znodes import ControllerEpochZnode, ControllerZnode
from tidelog.server.metadata.zookeeper_cluster import duty_rules
from tidelog.server.metadata.zookeeper_cluster.followed_image import FollowedImage
from tidelog.server.metadata.zookeeper_cluster.mirror import UnitKind, unit_of
from tidelog.server.metadata.zookeeper_cluster.topic_removal import is_removable, removal_operations
from tidelog.server.metadata.zookeeper_cluster.znode_changer import RETRY_BACKOFF_MS, Plan, ZnodeChanger

T = TypeVar("T")

_FIRST_EPOCH: Final = ControllerEpochZnode(0)
_log: Final = logging.getLogger(__name__)


class ControllerRole:
    def __init__(
        self,
        settings: ControllerSettings,
        followed: FollowedImage,
        changer: ZnodeChanger,
        timers: Timers,
        session_id: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._followed = followed
        self._changer = changer
        self._timers = timers
        self._session_id = session_id
        self._epoch: Check | None = None
        """The condition of the commits of this controller, while it is active."""
        self._controller_epoch = 0
        self._may_stand = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._checks_leaders = False
        """True if a broker or a leader may be gone."""
        self._topics: set[str] = set()
        """The topics whose znodes have changed."""
        self._errors = RepeatedErrors(_log, "Topic %s is left as it is: %s")
        followed.on_commit.append(self._note)

    @property
    def is_active(self) -> bool:
        return self._epoch is not None

    @property
    def controller_epoch(self) -> int | None:
        """The epoch of this broker's election, or None while another broker is the controller."""
        return self._controller_epoch if self.is_active else None

    def stand(self) -> None:
        """Take part in elections from now on: this broker is registered."""
        self._may_stand = True
        self._wake.set()

    def resign(self) -> None:
        """End the role: the session is lost, or this broker stops."""
        self._may_stand = False
        self._end("its session has ended")

    async def settle(self) -> None:
        """Return once this broker is not the controller, or has nothing left to do."""
        await self._idle.wait()

    async def run(self) -> None:
        """Stand for election and do the duties until the task is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._idle.clear()
            try:
                if await self._is_elected():
                    await self._do_duties()
                    _log.debug("The duties of the controller are done")
            except TidelogError as error:
                if isinstance(error, ZnodeConflictError):
                    self._end("another controller has a newer epoch")
                else:
                    _log.warning("The duties of the controller are tried again: %s", error)
                await pause(self._timers, RETRY_BACKOFF_MS)
                self._checks_leaders = True
                self._wake.set()
            if not self._wake.is_set():
                self._idle.set()

    # --- periodic duties: they return True if there may be more to do ---

    async def balance_leaders(self) -> bool:
        """Give leaderships back to preferred replicas."""
        return await self._periodic(lambda image: periodic_elections.balance_leaders(image, self._settings))

    async def elect_leaderless(self) -> bool:
        """Elect leaders uncleanly where topics allow it."""
        return await self._periodic(lambda image: periodic_elections.elect_leaderless(image, self._settings))

    async def _periodic(self, decide: Callable[[MetadataImage], Decision[bool]]) -> bool:
        return self.is_active and await self._change(decide)

    # --- election ---

    async def _is_elected(self) -> bool:
        """Return True if this broker is the controller, if need be after an election."""
        found = self._followed.mirror.get(paths.CONTROLLER)
        if found is not None and found.ephemeral_owner != self._session_id():
            self._end(f"broker {self._followed.committed.controller_id} is the controller")
        elif self._may_stand and (found is None or not self.is_active):
            self._end("its znode is gone")
            await self._stand()
        return self.is_active

    async def _stand(self) -> None:
        """Become the controller, unless another broker is faster. A znode of this session without the role is left from
        an election without a response, or from an epoch that another hand has ended: the role begins again."""
        node_id, now_ms = self._settings.node_id, self._timers.now_ms()

        def plan() -> Plan[tuple[int, int] | None]:
            mirror = self._followed.mirror
            found = mirror.get(paths.CONTROLLER)
            if found is not None and found.ephemeral_owner != self._session_id():
                return Plan((), None)
            data = ControllerZnode(broker_id=node_id, timestamp_ms=now_ms).encode()
            created: Operation = Create(paths.CONTROLLER, data, is_ephemeral=True)
            if found is not None:
                created = SetData(paths.CONTROLLER, data, found.version)
            before = mirror.get(paths.CONTROLLER_EPOCH)
            first: list[Operation] = []
            epoch, version = 0, 0
            if before is None:
                first.append(Create(paths.CONTROLLER_EPOCH, _FIRST_EPOCH.encode()))
            else:
                epoch = ControllerEpochZnode.decode(paths.CONTROLLER_EPOCH, before.data).epoch
                version = before.version
            grown = SetData(paths.CONTROLLER_EPOCH, ControllerEpochZnode(epoch + 1).encode(), version)
            return Plan([*first, created, grown], (epoch + 1, version + 1))

        elected = await self._changer.write(plan)
        if elected is not None and self._may_stand:
            self._controller_epoch, version = elected
            self._epoch = Check(paths.CONTROLLER_EPOCH, version)
            self._checks_leaders = True
            self._topics.update(self._followed.mirror.children(paths.TOPICS))
            _log.info("Broker %d is the controller in epoch %d", node_id, self._controller_epoch)

    def _end(self, reason: str) -> None:
        if self._epoch is not None:
            _log.info("Broker %d is the controller no longer: %s", self._settings.node_id, reason)
        self._epoch = None

    # --- duties ---

    async def _do_duties(self) -> None:
        await self._complete_topics()
        await self._remove_topics()
        await self._obey_requests()
        if self._checks_leaders:
            self._checks_leaders = False
            await self._check_leaders()

    async def _complete_topics(self) -> None:
        """Give topics the ids and states that they lack."""
        for name in sorted(self._topics):
            self._topics.discard(name)  # before the work: a change that comes meanwhile adds it again
            try:
                await self._write(lambda name=name: duty_rules.id_operations(self._followed.mirror, name))  # type: ignore[misc]
                await self._write(lambda name=name: self._missing_states(name))  # type: ignore[misc]
            except ZnodeError as error:
                self._errors.note(name, error)
            except TidelogError:
                self._topics.add(name)
                raise

    def _missing_states(self, name: str) -> list[Operation]:
        followed = self._followed
        if name not in followed.committed.topics:
            return []
        return duty_rules.state_operations(
            followed.committed, followed.mirror, name, controller_epoch=self._controller_epoch
        )

    async def _remove_topics(self) -> None:
        followed = self._followed
        for name in followed.mirror.children(paths.DELETED_TOPICS):
            try:
                if not is_removable(followed.committed, followed.mirror, name):
                    continue
            except ZnodeError as error:
                self._errors.note(name, error)
                continue
            await self._write(lambda name=name: removal_operations(followed.mirror, name))  # type: ignore[misc]
            if followed.mirror.deletes_topics:
                _log.info("The deletion of topic %s is complete", name)
            else:
                _log.warning("Topic %s is not deleted: delete.topic.enable is false", name)

    async def _obey_requests(self) -> None:
        """Carry out the requests of other programs, which are znodes below ``/admin``."""
        mirror = self._followed.mirror
        if (found := mirror.get(paths.REASSIGNMENT)) is not None:
            await self._obey(paths.REASSIGNMENT, found.data, self._reassign)
        if (found := mirror.get(paths.PREFERRED_ELECTION)) is not None:
            await self._obey(paths.PREFERRED_ELECTION, found.data, self._elect_preferred)

    async def _obey(
        self, path: str, data: bytes, change: Callable[[bytes], Callable[[MetadataImage], Decision[Any]]]
    ) -> None:
        try:
            decide = change(data)
        except ZnodeError as error:
            _log.error("The request is deleted: %s", error)
        else:
            await self._change(decide)
        await self._write(lambda: [Delete(path)] if path in self._followed.mirror else [])

    def _reassign(self, data: bytes) -> Callable[[MetadataImage], Decision[Any]]:
        wanted = duty_rules.requested_reassignments(data)
        return lambda image: reassignments.alter_reassignments(image, self._settings, wanted, may_change_factor=True)

    def _elect_preferred(self, data: bytes) -> Callable[[MetadataImage], Decision[Any]]:
        wanted = duty_rules.requested_elections(data)
        return lambda image: leaders.elect_leaders(image, self._settings, ElectionType.PREFERRED, wanted)

    async def _check_leaders(self) -> None:
        """Let other replicas lead the partitions of brokers that are gone, and elect where there is no leader."""
        for broker_id in duty_rules.departed_brokers(self._followed.committed):
            await self._change(
                lambda image, broker_id=broker_id: Decision(  # type: ignore[misc]
                    [] if image.is_active(broker_id) else leaders.remove_broker(image, self._settings, broker_id), None
                )
            )
        if duty_rules.has_leaderless(self._followed.committed):
            await self._change(lambda image: duty_rules.elect(image, self._settings))

    async def _change(self, decide: Callable[[MetadataImage], Decision[T]]) -> T:
        return await self._changer.change_valid(decide, guard=self._guard)

    async def _write(self, operations: Callable[[], list[Operation]]) -> None:
        await self._changer.write(lambda: Plan(operations(), None), guard=self._guard)

    def _guard(self) -> Check:
        """Return the condition of the commits. Without the role, no znode meets it."""
        return self._epoch or _NO_EPOCH

    def _note(self, change: MetadataChange, changed: set[str]) -> None:
        """Note the duties that a change of the committed image brings."""
        image = self._followed.committed
        after = (delta.after for delta in change.partitions.values() if delta.after is not None)
        # a broker with an old image may write a replica that is gone already
        has_gone = any(not image.is_active(broker) for state in after for broker in (state.leader, *state.isr))
        if change.brokers or self._followed.has_repair or has_gone:
            self._checks_leaders = True
        if change.brokers:  # partitions without a live replica may have waited for it
            self._topics.update(self._followed.mirror.children(paths.TOPICS))
        for path in changed:
            unit = unit_of(path)
            if unit is not None and unit.kind is UnitKind.TOPIC and not path.endswith("/state"):
                self._topics.add(unit.name)
        self._wake.set()


_NO_EPOCH: Final = Check(paths.CONTROLLER_EPOCH, 2**31 - 1)
