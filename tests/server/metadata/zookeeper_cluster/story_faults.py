"""Deliberate faults: each breaks one rule of the metadata in ZooKeeper, and random stories have to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from server.metadata.zookeeper.znode_model import ModelSession
from tidelog.server.metadata.controller import leaders
from tidelog.server.metadata.controller.decision import Decision
from tidelog.server.metadata.controller.partition_change import Election, ElectionRules
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import (
    ANY_VERSION,
    Check,
    ConnectionLostError,
    Operation,
    SetData,
    ZnodeConflictError,
)
from tidelog.server.metadata.zookeeper_cluster import duty_rules, znode_changes
from tidelog.server.metadata.zookeeper_cluster.controller_role import ControllerRole
from tidelog.server.metadata.zookeeper_cluster.followed_image import FollowedImage
from tidelog.server.metadata.zookeeper_cluster.operation_list import OperationList
from tidelog.server.metadata.zookeeper_cluster.znode_changer import ZnodeChanger
from tidelog.server.metadata.zookeeper_cluster.zookeeper_metadata import ZooKeeperMetadata

Patch = tuple[object, str, object]
"""An object, the name of its attribute, and the wrong value."""


@dataclass(frozen=True, slots=True)
class Fault:
    rule: str
    """The rule that the fault breaks, as a sentence."""
    patches: Callable[[], list[Patch]]


@contextmanager
def applied(name: str) -> Iterator[None]:
    """Break the rule of a fault during the block."""
    patches = FAULTS[name].patches()
    kept = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in patches]
    try:
        for owner, attribute, value in patches:
            setattr(owner, attribute, value)
        yield
    finally:
        for owner, attribute, value in reversed(kept):
            setattr(owner, attribute, value)


# --- the controller ---


def _has_no_guard() -> list[Patch]:
    return [(ControllerRole, "_guard", lambda _self: None)]


def _guards_with_any_epoch() -> list[Patch]:
    def guard(self: ControllerRole) -> Check:
        return Check(paths.CONTROLLER_EPOCH, self._followed.mirror[paths.CONTROLLER_EPOCH].version)

    return [(ControllerRole, "_guard", guard), (ControllerRole, "_end", lambda _self, _reason: None)]


def _forgets_an_election() -> list[Patch]:
    original = ControllerRole._is_elected

    async def is_elected(self: ControllerRole) -> bool:
        found = self._followed.mirror.get(paths.CONTROLLER)
        if found is not None and found.ephemeral_owner == self._session_id():
            return self.is_active
        return await original(self)

    return [(ControllerRole, "_is_elected", is_elected)]


def _elects_outside_isr() -> list[Patch]:
    original = leaders.election_rules

    def rules(*args: Any, **kwargs: Any) -> ElectionRules:
        return original(*args, **{**kwargs, "election": kwargs.get("election") or Election.UNCLEAN})

    return [(leaders, "election_rules", rules)]


def _ignores_departures() -> list[Patch]:
    return [(duty_rules, "departed_brokers", lambda _image: [])]


# --- changes ---


def _writes_any_version(root: str) -> list[Patch]:
    original = OperationList.write

    def write(self: OperationList, path: str, data: bytes, *, version: int | None = None) -> None:
        original(self, path, data, version=ANY_VERSION if path.startswith(root) else version)

    return [(OperationList, "write", write)]


def _acknowledges_lost_changes() -> list[Patch]:
    original = ZnodeChanger._commit

    async def commit(self: ZnodeChanger, *args: Any) -> bool:
        session = self._session
        self._session = _Deaf(session)
        try:
            return await original(self, *args)
        finally:
            self._session = session

    return [(ZnodeChanger, "_commit", commit)]


class _Deaf:
    """A session that takes the loss of a connection for a success."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def sync(self) -> None:
        await self._session.sync()

    async def commit(self, operations: Sequence[Operation]) -> Sequence[str | None]:
        with suppress(ConnectionLostError):
            return await self._session.commit(operations)  # type: ignore[no-any-return]
        return []


def _decides_again_after_a_loss() -> list[Patch]:
    class Repeating(_Deaf):
        async def commit(self, operations: Sequence[Operation]) -> Sequence[str | None]:
            try:
                return await self._session.commit(operations)  # type: ignore[no-any-return]
            except ConnectionLostError:
                raise ZnodeConflictError(operations[0], "lost") from None

    original = ZnodeChanger._commit

    async def commit(self: ZnodeChanger, *args: Any) -> bool:
        session = self._session
        self._session = Repeating(session)
        try:
            return await original(self, *args)
        finally:
            self._session = session

    return [(ZnodeChanger, "_commit", commit)]


def _returns_before_the_image() -> list[Patch]:
    async def reach(_self: FollowedImage) -> None:
        return

    return [(FollowedImage, "reach_published", reach)]


def _never_syncs() -> list[Patch]:
    async def sync(_self: ModelSession) -> None:
        return

    return [(ModelSession, "sync", sync)]


# --- the image ---


def _reads_nothing_again() -> list[Patch]:
    async def read_all(self: FollowedImage) -> None:
        await self._session.watch_all()

    return [(FollowedImage, "read_all", read_all)]


def _watches_once() -> list[Patch]:
    original = ModelSession.watch_all

    async def watch_all(self: ModelSession) -> None:
        if not hasattr(self, "has_watched"):
            self.has_watched = True  # type: ignore[attr-defined]
            await original(self)

    return [(ModelSession, "watch_all", watch_all)]


def _drops_events_while_it_reads() -> list[Patch]:
    original = FollowedImage.note

    def note(self: FollowedImage, path: str) -> None:
        if not self._reading.locked():
            original(self, path)

    return [(FollowedImage, "note", note)]


# --- registrations ---


def _registers_once() -> list[Patch]:
    async def register_again(_self: ZooKeeperMetadata) -> None:
        return

    return [(ZooKeeperMetadata, "_register_again", register_again)]


def _leads_after_a_restart() -> list[Patch]:
    return [(duty_rules, "rejoin", lambda _image, _settings, _broker: Decision([], None))]


def _replaces_partitions_epoch() -> list[Patch]:
    original = znode_changes._write_topic

    def write(out: OperationList, draft: Any, controller_epoch: int) -> None:
        original(out, draft, controller_epoch)
        for number, one in enumerate(out.operations):
            if isinstance(one, SetData) and one.path.endswith("/state") and b'"leader_epoch":' in one.data:
                head, _, tail = one.data.partition(b'"leader_epoch":')
                rest = tail.lstrip(b"0123456789")
                out.operations[number] = SetData(one.path, head + b'"leader_epoch":0' + rest, one.version)

    return [(znode_changes, "_write_topic", write)]


FAULTS = {
    "no-guard": Fault("Each commit of a controller has the condition of its epoch.", _has_no_guard),
    "any-epoch": Fault("The condition is the epoch of the controller's own election.", _guards_with_any_epoch),
    "election-forgotten": Fault(
        "A controller whose election had no response begins its role again.", _forgets_an_election
    ),
    "unclean-election": Fault("Only a replica in sync leads, without unclean elections.", _elects_outside_isr),
    "dead-leaders": Fault("Partitions of a broker that is gone get other leaders.", _ignores_departures),
    "any-version-of-a-state": Fault(
        "A state is written with the version that the decision saw.", lambda: _writes_any_version(paths.TOPICS)
    ),
    "any-version-of-settings": Fault(
        "Settings are written with the version that the decision saw.", lambda: _writes_any_version(paths.CONFIG)
    ),
    "leader-epoch-again": Fault("A new leader has a new leader epoch.", _replaces_partitions_epoch),
    "loss-acknowledged": Fault("A commit without a response is not acknowledged.", _acknowledges_lost_changes),
    "loss-decided-again": Fault("A commit without a response is not decided again.", _decides_again_after_a_loss),
    "image-later": Fault("A change returns once the image has it.", _returns_before_the_image),
    "no-sync": Fault("After a conflict the server catches up before the znodes are read.", _never_syncs),
    "not-read-again": Fault("After a lost connection all znodes are read again.", _reads_nothing_again),
    "watched-once": Fault("Each new connection watches the znodes again.", _watches_once),
    "events-dropped": Fault(
        "An event that comes during a read lets its path be read again.", _drops_events_while_it_reads
    ),
    "registered-once": Fault("A broker registers again after its session has expired.", _registers_once),
    "restart-leads": Fault("A broker that starts gives up the leaderships of its earlier run.", _leads_after_a_restart),
}
