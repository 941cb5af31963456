"""The rules that each commit of a story keeps, that of a broker and that of another program.

==================  ===================================================================================================
znode               rules
==================  ===================================================================================================
a state             leader epochs only grow, and each new leader has a new one; a leader is in sync; a new leader was
                    in sync before, unless the old leader has found that it is, or its topic allows unclean elections;
                    those in sync are replicas
a topic             it keeps its id and its partitions; it is deleted only if that was requested
settings            no value comes back that another one has replaced
a registration      a broker that starts does not lead
the controller      duties are done by the session that was elected last, and have the version of its election
==================  ===================================================================================================
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from server.metadata.zookeeper.znode_model import ModelZooKeeper, Step
from tidelog.model import ZnodeError
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import Check, Create, Delete, Operation, SetData
from tidelog.server.metadata.zookeeper.znodes import ConfigZnode, StateZnode, TopicZnode

UNCLEAN: Final = "unclean"
"""The begin of the names of topics that allow unclean elections."""
_OTHER_HANDS: Final = 0
"""The session of the commits of other programs, and of ZooKeeper when a session ends."""
_STATE: Final = re.compile(rf"{paths.TOPICS}/([^/]+)/partitions/([0-9]+)/state")
_TOPIC: Final = re.compile(rf"{paths.TOPICS}/([^/]+)")


class TreeMonitor:
    def __init__(self, zookeeper: ModelZooKeeper) -> None:
        self.problems: list[str] = []
        self.first_sessions: set[int] = set()
        """The sessions in which a run of a broker registers for the first time."""
        self.written: list[bytes] = []
        """All data that was ever written."""
        self._zookeeper = zookeeper
        self._states: dict[str, StateZnode] = {}
        self._topics: dict[str, tuple[int, TopicZnode]] = {}
        self._settings: dict[str, tuple[int, dict[str, str]]] = {}
        self._replaced: defaultdict[tuple[str, str], set[str | None]] = defaultdict(set)
        self._elected: dict[int, int] = {}
        """The sessions of the controllers by the version of ``/controller_epoch``."""

    def has(self, token: str) -> bool:
        """Return True if a text was ever written."""
        return any(token.encode() in data for data in self.written)

    def note(self, operations: Sequence[Operation], session_id: int) -> None:
        """Check a commit that has just taken effect."""
        steps = self._zookeeper.commits[-1]
        self.written += [step.found.data for step in steps if step.found is not None]
        if session_id != _OTHER_HANDS:
            self._check_role(operations, session_id)
        for step in steps:
            try:
                self._check(step, steps, session_id)
            except ZnodeError:
                assert session_id == _OTHER_HANDS, step

    def _require(self, is_met: bool, rule: str) -> None:
        if not is_met:
            self.problems.append(rule)

    def _check(self, step: Step, steps: Sequence[Step], session_id: int) -> None:
        path = step.event.path
        if (found := _STATE.fullmatch(path)) is not None:
            self._check_state(step, found[1], int(found[2]), session_id)
        elif (found := _TOPIC.fullmatch(path)) is not None:
            self._check_topic(step, found[1], steps)
        elif path.startswith((f"{paths.TOPIC_CONFIGS}/", f"{paths.BROKER_CONFIGS}/")):
            self._check_settings(step)
        elif path.startswith(f"{paths.BROKER_IDS}/") and session_id in self.first_sessions and step.found:
            self.first_sessions.remove(session_id)
            self._check_registration(int(path.rpartition("/")[2]))

    # --- the controller ---

    def _check_role(self, operations: Sequence[Operation], session_id: int) -> None:
        grown = next((one for one in reversed(operations) if _writes(one, paths.CONTROLLER_EPOCH)), None)
        if isinstance(grown, SetData) and any(_writes(one, paths.CONTROLLER) for one in operations):
            self._require(grown.version + 1 not in self._elected, "two controllers have one epoch")
            self._elected[grown.version + 1] = session_id
        guard = next((one for one in operations if isinstance(one, Check) and one.path == paths.CONTROLLER_EPOCH), None)
        if guard is not None:
            owner = self._elected.get(guard.version)
            self._require(owner == session_id, "a broker commits with the epoch of another controller")
        elif any(map(_is_duty, operations)):
            self.problems.append(f"a duty without the version of the controller epoch: {operations}")

    # --- topics ---

    def _check_state(self, step: Step, topic: str, number: int, session_id: int) -> None:
        path = step.event.path
        before = self._states.pop(path, None)
        if step.found is None:
            return
        state = self._states[path] = StateZnode.decode(path, step.found.data)
        if session_id == _OTHER_HANDS:
            return
        told = f"{path}: {before} became {state}: "
        self._require(state.leader == -1 or state.leader in state.isr, f"{told}the leader is not in sync")
        replicas = self._topics[paths.topic(topic)][1].replicas[number]
        self._require(set(state.isr) <= set(replicas), f"{told}the replicas are {replicas}")
        if before is None:
            return
        grows = state.leader_epoch > before.leader_epoch
        self._require(grows or state.leader_epoch == before.leader_epoch, f"{told}the leader epoch went back")
        if state.leader != before.leader:
            self._require(grows, f"{told}another leader in the same epoch")
            owner = self._zookeeper.read(paths.broker(before.leader))
            is_by_leader = owner is not None and owner.ephemeral_owner == session_id
            is_clean = state.leader == -1 or state.leader in before.isr
            self._require(is_clean or is_by_leader or topic.startswith(UNCLEAN), f"{told}an unclean election")

    def _check_topic(self, step: Step, name: str, steps: Sequence[Step]) -> None:
        path, mark = step.event.path, f"{paths.DELETED_TOPICS}/{name}"
        before = self._topics.get(path)
        if step.found is None:
            is_requested = self._zookeeper.read(mark) is not None or any(one.event.path == mark for one in steps)
            self._require(is_requested, f"topic {name} is lost")
            self._topics.pop(path, None)
            return
        topic = TopicZnode.decode(path, step.found.data)
        self._topics[path] = (step.found.czxid, topic)
        if before is not None and before[0] == step.found.czxid:
            self._require(before[1].topic_id in (None, topic.topic_id), f"topic {name} has another id")
            self._require(before[1].replicas.keys() <= topic.replicas.keys(), f"topic {name} has lost a partition")

    def _check_settings(self, step: Step) -> None:
        path = step.event.path
        if step.found is None:
            self._settings.pop(path, None)
            return
        settings = dict(ConfigZnode.decode(path, step.found.data).settings)
        czxid, before = self._settings.get(path, (0, {}))
        if czxid != step.found.czxid:
            for known in [one for one in self._replaced if one[0] == path]:
                del self._replaced[known]
            before = {}
        self._settings[path] = (step.found.czxid, settings)
        for key in before.keys() | settings.keys():
            if settings.get(key) != before.get(key):
                is_old = key in settings and settings[key] in self._replaced[path, key]
                self._require(not is_old, f"{path}: the value {settings.get(key)} of {key} came back")
                self._replaced[path, key].add(before.get(key))

    def _check_registration(self, broker_id: int) -> None:
        doomed = {paths.topic(name) for name in self._zookeeper.table.children(paths.DELETED_TOPICS) or ()}
        for path, state in self._states.items():
            if path.partition("/partitions/")[0] in doomed:
                continue
            self._require(state.leader != broker_id, f"{path}: broker {broker_id} starts as the leader of {state}")


def _writes(operation: Operation, path: str) -> bool:
    return operation.path == path and isinstance(operation, Create | SetData)


def _is_duty(operation: Operation) -> bool:
    """Return True for an operation that only the controller makes."""
    return isinstance(operation, Delete) and operation.path.startswith((f"{paths.TOPICS}/", "/admin/"))
