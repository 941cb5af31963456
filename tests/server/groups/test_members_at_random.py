"""Members join, leave, die and are slow at random, with both protocols (hypothesis state machines).

These facts always hold:

* No partition is used by two members (consumer protocol), or assigned to two in one generation (classic).
* After enough heartbeats of the remaining members, all partitions are assigned and the group is stable.
* The next coordinator loads the same state from the log.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from server.groups.shard_harness import Consumer, MemoryTopics, Replies, ShardHarness
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.state.classic_group import ClassicState
from tidelog.server.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from tidelog.server.groups.state.consumer_member import STATIC_LEAVING_EPOCH
from tidelog.server.groups.state.unserved_group import UnservedGroup

NAMES = ["m0", "m1", "m2", "m3"]
TOPICS = {"a": 4, "b": 3}


class ConsumerMembers(RuleBasedStateMachine):
    """The consumer protocol. Members in ``alive`` use their partitions until they acknowledge a revocation."""

    @initialize(regex=st.booleans())
    def begin(self, regex: bool) -> None:
        self.harness = ShardHarness(MemoryTopics(**TOPICS))
        self.subscription: dict[str, Any] = (
            {"topic_regex": "a|b"} if regex else {"topic_names": frozenset({"a", "b", "new"})}
        )
        self.alive: dict[str, Consumer] = {}
        self.dead: list[tuple[Consumer, int]] = []
        self.count = 0

    @rule(assignor=st.sampled_from(["uniform", "range", None]))
    @precondition(lambda self: len(self.alive) < len(NAMES))
    def comes(self, assignor: str | None) -> None:
        self.count += 1
        name = f"m{self.count}"
        self.alive[name] = Consumer(self.harness, name, assignor=assignor, **self.subscription)
        assert self.alive[name].beat() is ErrorCode.NONE

    @rule(index=st.integers(0, 3), times=st.integers(1, 3))
    @precondition(lambda self: self.alive)
    def heartbeats(self, index: int, times: int) -> None:
        for _ in range(times):
            self.alive[sorted(self.alive)[index % len(self.alive)]].beat()

    @rule(index=st.integers(0, 3))
    @precondition(lambda self: self.alive)
    def loses_an_answer(self, index: int) -> None:
        """The coordinator applied a heartbeat, but its response is lost. The member's next heartbeat is a full one."""
        member = self.alive[sorted(self.alive)[index % len(self.alive)]]
        if member.epoch:
            self.harness.beat(member.member_id, member.epoch, owned=member.owned)
            member.says_all = True

    @rule(index=st.integers(0, 3))
    @precondition(lambda self: self.alive)
    def leaves(self, index: int) -> None:
        member = self.alive.pop(sorted(self.alive)[index % len(self.alive)])
        if member.epoch:
            assert member.leave() is ErrorCode.NONE

    @rule(index=st.integers(0, 3))
    @precondition(lambda self: self.alive)
    def dies(self, index: int) -> None:
        self.alive.pop(sorted(self.alive)[index % len(self.alive)])

    @rule(seconds=st.integers(1, 20))
    def time_passes(self, seconds: int) -> None:
        """Live members send a heartbeat every five seconds."""
        for second in range(seconds):
            self.harness.wait(1000)
            if second % 5 == 0:
                for member in self.alive.values():
                    member.beat()

    @rule(partitions=st.integers(1, 4))
    @precondition(lambda self: "new" not in self.harness.topics.names)
    def a_topic_is_made(self, partitions: int) -> None:
        self.harness.topics.make("new", partitions)
        self.harness.shard.mark_topics_changed(frozenset({"new"}))

    @rule()
    def the_coordinator_moves(self) -> None:
        before = self.told()
        self.harness = self.harness.reloaded()
        for member in self.alive.values():
            member.harness = self.harness
        assert self.told() == before

    @rule()
    @precondition(lambda self: self.alive)
    def it_comes_to_rest(self) -> None:
        for _ in range(14):  # longer than a session, so dead members are removed
            self.harness.wait(5_000)
            for member in self.alive.values():
                member.beat()
        assert self.harness.consumer.state is ConsumerGroupState.STABLE
        owned = Counter(partition for member in self.alive.values() for partition in member.partitions)
        read = [name for name in self.harness.topics.names if name in TOPICS or "topic_names" in self.subscription]
        topics = [topic for name in read if (topic := self.harness.topics.by_name(name)) is not None]
        assert owned == {(topic.name, number): 1 for topic in topics for number in range(topic.partitions)}

    @invariant()
    def nothing_is_in_use_twice(self) -> None:
        if not hasattr(self, "alive"):
            return
        members = {name: one for name, one in self.alive.items() if self.is_member(one)}
        used = Counter(partition for member in members.values() for partition in member.partitions)
        assert not [partition for partition, count in used.items() if count > 1]

    def is_member(self, member: Consumer) -> bool:
        """Return True if the coordinator knows the member. A removed member stops with its next heartbeat."""
        group = self.harness.shard.groups.get("g")
        return isinstance(group, ConsumerGroup) and member.member_id in group.members

    def told(self) -> object:
        group = self.harness.shard.groups.get("g")
        if not isinstance(group, ConsumerGroup):
            return None
        assert all(member.member_epoch != STATIC_LEAVING_EPOCH for member in group.members.values())
        return (group.members, group.targets, group.group_epoch, group.assignment_epoch, group.regexes, group.state)


class ClassicMembers(RuleBasedStateMachine):
    """The classic protocol: clients join, sync the leader's assignment and send heartbeats."""

    @initialize()
    def begin(self) -> None:
        self.harness = ShardHarness()
        self.clients: list[Client] = []

    @rule(instance=st.sampled_from([None, None, "i1", "i2"]))
    @precondition(lambda self: len(self.clients) < len(NAMES))
    def comes(self, instance: str | None) -> None:
        if instance is not None:
            self.clients = [client for client in self.clients if client.instance_id != instance]
        self.clients.append(Client(self.harness, instance))
        self.clients[-1].act()

    @rule(index=st.integers(0, 3))
    @precondition(lambda self: self.clients)
    def acts(self, index: int) -> None:
        self.clients[index % len(self.clients)].act()

    @rule(index=st.integers(0, 3))
    @precondition(lambda self: self.clients)
    def dies(self, index: int) -> None:
        del self.clients[index % len(self.clients)]

    @rule(seconds=st.integers(1, 12))
    def time_passes(self, seconds: int) -> None:
        for second in range(seconds):
            self.harness.wait(1000)
            if second % 3 == 0:
                self.all_act()

    @rule()
    @precondition(lambda self: self.clients)
    def the_coordinator_moves(self) -> None:
        """An unfinished rebalance is forgotten: the generation before it is stable again."""
        self.harness = self.harness.reloaded()
        for client in self.clients:
            client.moved(self.harness)

    @rule()
    @precondition(lambda self: self.clients)
    def it_comes_to_rest(self) -> None:
        for _ in range(40):  # 120 s, longer than all timeouts of the members
            self.harness.wait(3_000)
            self.all_act()
            self.all_act()
        group = self.harness.classic
        assert group.state is ClassicState.STABLE
        assert sorted(group.members) == sorted(client.member_id for client in self.clients)
        parts = [part for client in self.clients for part in client.assignment.decode().split()]
        assert sorted(parts) == [str(number) for number in range(8)]
        loaded = self.harness.reloaded().classic
        assert (loaded.assignments, loaded.leader_id) == (group.assignments, group.leader_id)
        assert (loaded.generation_id, loaded.static_members) == (group.generation_id, group.static_members)

    @invariant()
    def one_generation_assigns_each_partition_once(self) -> None:
        if not hasattr(self, "clients"):
            return
        generations: dict[int, list[str]] = {}
        for client in self.clients:
            if (
                client.state == "stable"
                and client.harness is self.harness
                and client.member_id in client.known_members()
            ):
                generations.setdefault(client.generation, []).extend(client.assignment.decode().split())
        for parts in generations.values():
            assert len(parts) == len(set(parts))

    def all_act(self) -> None:
        for client in self.clients:
            client.act()


class Client:
    """A classic consumer. ``act`` takes the next step, like a poll loop."""

    def __init__(self, harness: ShardHarness, instance_id: str | None) -> None:
        self.harness = harness
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.assignment = b""
        self.state = "new"
        self.waiting: Replies | None = None

    def act(self) -> None:
        if self.waiting is not None and not self.waiting:
            return
        step = {"new": self.join, "joining": self.joined, "syncing": self.synced, "stable": self.heartbeat}[self.state]
        step()

    def moved(self, harness: ShardHarness) -> None:
        """Continue with the new coordinator. The connection broke, so a pending response never arrives."""
        self.harness = harness
        if self.state != "stable":
            self.state, self.waiting = "new", None

    def known_members(self) -> set[str]:
        group = self.harness.shard.groups.get("g")
        assert not isinstance(group, UnservedGroup)
        return set() if group is None else set(group.members)

    def join(self) -> None:
        self.assignment = b""
        fields = {"instance_id": self.instance_id, "requires_member_id": self.instance_id is None}
        self.waiting = self.harness.join(self.member_id, **fields)
        self.state = "joining"

    def joined(self) -> None:
        answer = self.answer()
        if answer["error_code"] in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = answer["member_id"]
        if answer["error_code"] is not ErrorCode.NONE:
            self.begin_again(answer["error_code"])
            return
        self.generation = answer["generation_id"]
        assignments = {}
        if answer["leader"] == self.member_id and not answer["skip_assignment"]:
            ids = [member["member_id"] for member in answer["members"]]
            for index, member_id in enumerate(ids):
                assignments[member_id] = " ".join(str(part) for part in range(index, 8, len(ids))).encode()
        self.waiting = self.harness.sync(self.member_id, self.generation, self.instance_id, assignments=assignments)
        self.state = "syncing"

    def synced(self) -> None:
        answer = self.answer()
        if answer["error_code"] is not ErrorCode.NONE:
            self.begin_again(answer["error_code"])
            return
        self.assignment, self.state = answer["assignment"], "stable"

    def heartbeat(self) -> None:
        error = self.harness.heartbeat(self.member_id, self.generation, self.instance_id)
        if error is not ErrorCode.NONE:
            self.begin_again(error)

    def begin_again(self, error: ErrorCode) -> None:
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        self.state, self.waiting = "new", None

    def answer(self) -> Any:
        assert self.waiting is not None
        answer, self.waiting = self.waiting.one, None
        return answer


TestConsumerMembers = ConsumerMembers.TestCase
TestConsumerMembers.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestClassicMembers = ClassicMembers.TestCase
TestClassicMembers.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [ConsumerMembers, ClassicMembers])
def test_for_long(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=1000, stateful_step_count=50, deadline=None))
