"""A shard of the group coordinator without a broker: a journal in memory, made-up topics and a manual clock.

Records are applied after a round trip through their bytes, so that every test also covers the record formats.
``reloaded`` returns the shard that the next coordinator would load.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.runtime.timers import KeyedTimers
from tidelog.server.groups.classic.joining import JoinRequest
from tidelog.server.groups.classic.member_requests import Leaver, MemberClaim, SyncRequest
from tidelog.server.groups.consumer.heartbeats import HeartbeatRequest
from tidelog.server.groups.shard import Shard
from tidelog.server.groups.state.classic_group import ClassicGroup
from tidelog.server.groups.state.classic_member import Protocol
from tidelog.server.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from tidelog.server.groups.state.group_map import GroupMap
from tidelog.server.groups.state.group_topics import TopicFacts
from tidelog.server.groups.state.journal import Done, TransactionalProducer
from tidelog.server.groups.state.offset_store import OffsetStore
from tidelog.server.groups.state.settings import CoordinatorSettings, GroupTimeouts
from tidelog.server.groups.state.shard_context import ShardContext
from tidelog.testing.manual_clock import ManualClock
from tidelog.testing.manual_timers import ManualTimers

START_MS = 1_700_000_000_000
GROUP = "g"

Line = tuple[bytes, bytes | None, int]
"""Key, value, and the transaction's producer id."""


class MemoryTopics:
    """Topics by name with their partitions. ``make`` and ``delete`` change the metadata."""

    def __init__(self, **partitions: int) -> None:
        self.version = self.last_creation_version = 0
        self._topics: dict[str, TopicFacts] = {}
        for name, count in partitions.items():
            self.make(name, count)

    @property
    def names(self) -> list[str]:
        return list(self._topics)

    def by_name(self, name: str) -> TopicFacts | None:
        return self._topics.get(name)

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return next((topic for topic in self._topics.values() if topic.id == topic_id), None)

    def make(self, name: str, partitions: int) -> uuid.UUID:
        """Create a topic or add partitions to it."""
        before = self._topics.get(name)
        topic_id = uuid.uuid5(uuid.NAMESPACE_URL, name) if before is None else before.id
        self._topics[name] = TopicFacts(topic_id, name, partitions)
        self.version += 1
        self.last_creation_version = self.version if before is None else self.last_creation_version
        return topic_id

    def delete(self, name: str) -> None:
        del self._topics[name]
        self.version += 1


class MemoryJournal:
    """Appends fail with ``error``. If ``holds``, callbacks wait for ``release``, as if replicas were slow."""

    def __init__(self) -> None:
        self.lines: list[Line | tuple[int, bool]] = []
        """The records and the transaction markers."""
        self.error = ErrorCode.NONE
        self.holds = False
        self.apply: Callable[[GroupRecord, int, int], None] = lambda *_: None
        self._held: list[Done] = []

    def write(self, records: Sequence[GroupRecord], done: Done, *, apply: bool = True) -> None:
        self._write(records, done, -1, apply=apply)

    def write_transactional(self, records: Sequence[GroupRecord], producer: TransactionalProducer, done: Done) -> None:
        self._write(records, done, producer.producer_id, apply=True)

    def flush(self) -> None:
        """Do nothing: each change is written immediately."""

    def release(self) -> None:
        held, self._held = self._held, []
        for done in held:
            done(ErrorCode.NONE)

    @property
    def records(self) -> list[GroupRecord]:
        """All written records, without markers."""
        return [record for line in self.lines if len(line) == 3 and (record := GroupRecord.read(*line[:2])) is not None]

    def _write(self, records: Sequence[GroupRecord], done: Done, producer_id: int, *, apply: bool) -> None:
        if self.error is not ErrorCode.NONE:
            done(self.error)
            return
        for record in records:
            key, value = record.key_bytes(), record.value_bytes()
            self.lines.append((key, value, producer_id))
            read = GroupRecord.read(key, value)
            if apply and read is not None:
                self.apply(read, len(self.lines) - 1, producer_id)
        if self.holds:
            self._held.append(done)
        else:
            done(ErrorCode.NONE)


class Replies(list[Any]):
    """A reply callback that keeps its arguments. ``one`` fails unless there is exactly one."""

    def __call__(self, answer: Any) -> None:
        self.append(answer)

    @property
    def one(self) -> Any:
        assert len(self) == 1, self
        return self[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.one["error_code"])


class ShardHarness:
    """A shard and its surroundings. The methods send requests of group ``g`` and return their ``Answers``."""

    def __init__(
        self,
        topics: MemoryTopics | None = None,
        *,
        timeouts: GroupTimeouts | None = None,
        clock: ManualClock | None = None,
        **settings: Any,
    ) -> None:
        self.clock = clock or ManualClock(START_MS)
        self.topics = topics or MemoryTopics()
        self.journal = MemoryJournal()
        self.settings = CoordinatorSettings(**{"initial_rebalance_delay_ms": 3000, **settings})
        self.timers = KeyedTimers(ManualTimers(self.clock))
        self.shard = Shard(
            ShardContext(
                groups=GroupMap(),
                offsets=OffsetStore(),
                journal=self.journal,
                timers=self.timers,
                topics=self.topics,
                settings=self.settings,
                timeouts=lambda _group_id: timeouts or GroupTimeouts(assignment_interval_ms=0),
            )
        )
        self.journal.apply = self.shard.replay.apply

    def reloaded(self, **settings: Any) -> ShardHarness:
        """Return a shard that another coordinator loads from the log."""
        harness = ShardHarness(self.topics, clock=ManualClock(self.clock.now_ms()), **settings)
        harness.journal.lines = list(self.journal.lines)
        for offset, line in enumerate(harness.journal.lines):
            if len(line) == 2:
                harness.shard.replay.end_transaction(line[0], is_commit=line[1])
            elif (record := GroupRecord.read(*line[:2])) is not None:
                harness.shard.replay.apply(record, offset, line[2])
        harness.shard.resume()
        return harness

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.journal.lines.append((producer_id, is_commit))
        self.shard.replay.end_transaction(producer_id, is_commit=is_commit)

    def wait(self, ms: int) -> None:
        self.clock.sleep_ms(ms)

    # --- the classic protocol ---

    @property
    def classic(self) -> ClassicGroup:
        return self.shard.groups.find_classic(GROUP)

    def join(self, member_id: str = "", **fields: Any) -> Replies:
        given: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": member_id,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": (Protocol("range", b"what it says"),),
            "requires_member_id": False,
        }
        replies = Replies()
        call_replying(replies, lambda: self.shard.join(JoinRequest(**{**given, **fields}), replies))
        return replies

    def sync(self, member_id: str, generation_id: int, instance_id: str | None = None, **fields: Any) -> Replies:
        claim = MemberClaim(group_id=GROUP, member_id=member_id, instance_id=instance_id, generation_id=generation_id)
        replies = Replies()
        call_replying(replies, lambda: self.shard.sync(SyncRequest(claim=claim, **fields), replies))
        return replies

    def heartbeat(self, member_id: str, generation_id: int, instance_id: str | None = None) -> ErrorCode:
        claim = MemberClaim(group_id=GROUP, member_id=member_id, instance_id=instance_id, generation_id=generation_id)
        try:
            return self.shard.heartbeat(claim)
        except ApiError as error:
            return error.code

    def leave(self, *leavers: Leaver) -> list[ErrorCode]:
        replies = Replies()
        self.shard.leave(GROUP, leavers, replies)
        return list(replies.one)

    def leave_quietly(self, joining: Replies) -> None:
        """Remove the member of this pending join with a LeaveGroup request."""
        waiting = [member for member in self.classic.members.values() if member.join_reply is joining]
        self.leave(*(Leaver(member.member_id) for member in waiting))

    def stable(self, members: int = 1, **fields: Any) -> list[str]:
        """Create a group whose members have all synced. Return their ids, with the leader's first."""
        joins = [self.join(**fields) for _ in range(members)]
        self.wait(self.settings.initial_rebalance_delay_ms * (members + 1))
        ids = [str(replies.one["member_id"]) for replies in joins]
        leader = joins[0].one["leader"]
        generation = joins[0].one["generation_id"]
        assignments = {member_id: f"for {member_id}".encode() for member_id in ids}
        for member_id in ids:
            self.sync(member_id, generation, assignments=assignments if member_id == leader else {})
        for member_id in ids:
            assert self.heartbeat(member_id, generation) is ErrorCode.NONE
        return sorted(ids, key=lambda member_id: member_id != leader)

    # --- the consumer protocol ---

    @property
    def consumer(self) -> ConsumerGroup:
        return self.shard.groups.find_consumer(GROUP)

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Replies:
        """Send a heartbeat. A joining member (epoch 0) includes its subscription."""
        given: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": member_id,
            "member_epoch": epoch,
            "client_id": "client",
            "client_host": "/127.0.0.1",
        }
        if epoch == 0:
            given |= {"rebalance_timeout_ms": 30_000, "owned": {}}
            if "topic_regex" not in fields:
                given |= {"topic_names": frozenset(self.topics.names)}
        replies = Replies()
        call_replying(replies, lambda: self.shard.consumer.heartbeat(HeartbeatRequest(**{**given, **fields}), replies))
        return replies


class Consumer:
    """A client of the consumer protocol, which follows its assignment heartbeat by heartbeat."""

    def __init__(self, harness: ShardHarness, member_id: str, **subscription: Any) -> None:
        self.harness = harness
        self.member_id = member_id
        self.subscription = subscription
        self.epoch = 0
        self.owned: dict[uuid.UUID, frozenset[int]] = {}
        self.says_all = False
        """True if the next heartbeat is a full one, as after a lost response."""

    def beat(self) -> ErrorCode:
        """Send one heartbeat. A fenced member joins again with the next one."""
        fields: dict[str, Any] = {"owned": self.owned}
        if self.epoch == 0 or self.says_all:
            fields |= {"rebalance_timeout_ms": 30_000, **self.subscription}
            self.says_all = False
        replies = self.harness.beat(self.member_id, self.epoch, **fields)
        if replies.error is ErrorCode.NONE:
            self.epoch = replies.one["member_epoch"]
            self.owned = assigned(replies.one, self.owned)
        else:
            self.epoch, self.owned = 0, {}
        return replies.error

    def leave(self) -> ErrorCode:
        error = self.harness.beat(self.member_id, -1).error
        self.epoch, self.owned = 0, {}
        return error

    @property
    def partitions(self) -> set[tuple[str, int]]:
        """The owned partitions with their topics' names."""
        names = {topic_id: topic.name for topic_id in self.owned if (topic := self.harness.topics.by_id(topic_id))}
        return {(names[topic_id], number) for topic_id, numbers in self.owned.items() for number in numbers}


def assigned(answer: Any, before: dict[uuid.UUID, frozenset[int]]) -> dict[uuid.UUID, frozenset[int]]:
    """Return the assignment in a heartbeat's response, or ``before`` if the response contains none."""
    if "assignment" not in answer:
        return before
    return {part["topic_id"]: frozenset(part["partitions"]) for part in answer["assignment"]["topic_partitions"]}


def settle(*consumers: Consumer, rounds: int = 6) -> None:
    """Send heartbeats of all members until the group is stable. Fail if it is not after ``rounds``."""
    for _ in range(rounds):
        for consumer in consumers:
            assert consumer.beat() is ErrorCode.NONE
    assert consumers[0].harness.consumer.state is ConsumerGroupState.STABLE


def call_replying(replies: Replies, request: Callable[[], None]) -> None:
    """Pass an ApiError to the reply, as a request handler does."""
    try:
        request()
    except ApiError as error:
        replies({"error_code": error.code, "error_message": error.message})
