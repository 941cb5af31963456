"""A random story of some brokers on one tree: administrators, leaders, faults and other programs, step by step.

Time is virtual and the steps depend on the seed alone, so a story can be repeated. After some of the steps the faults
end, and the brokers have a minute to keep ``settled_rules``. ``TreeMonitor`` checks each commit. A change that returned
must be in the tree, and in the image of its broker; a refused one must not. A change may fail only if its broker was
disconnected or stopped.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from server.metadata.metadata_harness import setting, topic_resource
from server.metadata.zookeeper_cluster.metadata_cluster import MetadataCluster, ModelBroker
from server.metadata.zookeeper_cluster.settled_rules import unsettled
from server.metadata.zookeeper_cluster.story_monitor import UNCLEAN, TreeMonitor
from server.metadata.zookeeper_cluster.virtual_loop import run_virtually
from tidelog.model import TopicPartition, ZnodeError, ZooKeeperError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.security.scram_credential import ScramMechanism
from tidelog.server.authorization.acl import Acl, AclFilter, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.broker_metadata import StartGivenUpError
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.requests import (
    ElectionType,
    NewPartitions,
    NewTopic,
    Outcome,
    PartitionAlteration,
    QuotaChange,
    Reassignment,
    ScramUpsertion,
)
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.session import SessionState
from tidelog.server.metadata.zookeeper.znodes import ConfigZnode, TopicZnode

STEPS: Final = 60
SETTLING_MS: Final = 60_000
_TOPICS: Final = ("a", "b", "c", f"{UNCLEAN}-d", f"{UNCLEAN}-e")
_JUNK: Final = b'{"version":1,'


@dataclass(slots=True)
class StoryResult:
    seed: int
    steps: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    commits: list[list[str]] = field(default_factory=list)
    """The changed paths of each commit."""

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}", *self.steps, *self.problems])


def run_story(seed: int) -> StoryResult:
    result = StoryResult(seed)
    try:
        run_virtually(lambda: _Story(seed, result).run())
    except AssertionError as error:
        result.problems.append(f"at the end: {error}")
    return result


class _Story:
    def __init__(self, seed: int, result: StoryResult) -> None:
        self._random = Random(seed)
        self._result = result
        authorizer = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
        self._cluster = MetadataCluster(authorizer, random=self._random)
        self._monitor = TreeMonitor(self._cluster.zookeeper)
        self._cluster.zookeeper.on_commit.append(self._monitor.note)
        self._cluster.on_start = self._monitor.first_sessions.add
        self._changes: set[asyncio.Task[None]] = set()
        self._refused: list[tuple[str, str]] = []
        self._blocks: set[int] = set()
        self._junk: dict[str, tuple[bytes, int]] = {}
        """The data that other hands have damaged, and the version of the damage."""
        self._has_junk = False
        """True once another hand has damaged a znode."""
        self._tokens = 1000

    async def run(self) -> None:
        random = self._random
        ids = range(1, random.choice([4, 5]))
        for node_id in ids:
            self._begin_start(node_id)
        await self._settle()
        try:
            for _ in range(STEPS):
                name, step, _ = random.choices(_STEPS, [one[2] for one in _STEPS])[0]
                told = step(self)
                if told is not None:
                    self._log(f"{name} {told}")
                for _ in range(random.choice([0, 0, 3, 10, 30, 100])):
                    await asyncio.sleep(0)
                if random.random() < 0.15:
                    await asyncio.sleep(random.choice([0.01, 0.2, 1, 5, 20]))
                if random.random() < 0.06:
                    await self._settle()
                if self._result.problems or self._monitor.problems:
                    break
            else:
                for node_id in ids:
                    if not self._cluster.brokers[node_id].is_up:
                        self._begin_start(node_id)
                await self._settle()
        finally:
            await self._end()

    # --- the frame ---

    def _log(self, step: str) -> None:
        self._result.steps.append(f"{self._cluster.clock.monotonic_ms() / 1000:8.2f} s {step}")

    def _problem(self, problem: str) -> None:
        self._log("problem")
        self._result.problems.append(problem)

    async def _settle(self) -> None:
        """End the faults, and wait until the rules are kept."""
        self._log("settle")
        for broker in self._cluster.brokers.values():
            if broker.is_up:
                broker.session.is_lagging = False
                broker.session.note_commit()
                self._reconnect(broker)
        self._repair_all()
        deadline_ms = self._cluster.clock.monotonic_ms() + SETTLING_MS
        while (found := self._unsettled()) and self._cluster.clock.monotonic_ms() < deadline_ms:
            await asyncio.sleep(0.1)
        for problem in found[:3]:
            self._problem(problem)

    def _unsettled(self) -> list[str]:
        if self._changes:
            return ["a change has not ended"]
        try:
            return list(unsettled(self._cluster))
        except ZnodeError as error:
            return [f"the tree is not valid: {error}"]

    async def _end(self) -> None:
        for broker in list(self._cluster.brokers.values()):
            if broker.has_joined and self._random.random() < 0.5:
                await broker.stop()
        await self._cluster.stop()
        await asyncio.sleep(60)
        for task in self._changes:
            task.cancel()
            self._result.problems.append("a change never ended")
        self._result.problems += self._monitor.problems[:3]
        self._result.problems += self._cluster.failures
        self._result.problems += [
            f"refused, but it is in the tree: {told}" for told, token in self._refused if self._monitor.has(token)
        ]
        self._result.commits = [[step.event.path for step in steps] for steps in self._cluster.zookeeper.commits]

    def _token(self) -> str:
        self._tokens += 1
        return str(self._tokens)

    def _live(self) -> list[ModelBroker]:
        return [broker for broker in self._cluster.brokers.values() if broker.has_joined]

    def _any_live(self) -> ModelBroker | None:
        live = self._live()
        return self._random.choice(live) if live else None

    def _begin_start(self, node_id: int) -> None:
        broker = self._cluster.broker(node_id)
        broker.is_up = True
        if self._random.random() < 0.3:
            broker.metadata.subscribe(lambda _: None, self._slow)
        self._begin(self._start(broker))

    async def _start(self, broker: ModelBroker) -> None:
        try:
            await broker.start()
        except StartGivenUpError:
            self._log(f"broker {broker.node_id} was stopped before it had started")
        except (ZooKeeperError, ZnodeError) as error:  # the process would be started again
            self._log(f"broker {broker.node_id} did not start: {error}")
        except ApiError as error:
            if error.code != ErrorCode.NOT_CONTROLLER:
                self._problem(f"broker {broker.node_id} did not start: {error}")

    async def _slow(self, _change: object) -> None:
        """Prepare for a change slowly."""
        await asyncio.sleep(self._random.choice([0, 0, 0.01, 0.1]))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._changes.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._changes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._problem(f"{type(error).__name__}: {error}")

    # --- changes ---

    def _change(
        self,
        told: str,
        token: str,
        change: Callable[[ModelBroker], Coroutine[Any, Any, Sequence[Outcome]]],
        shows: Callable[[ModelBroker], bool] = lambda _: True,
    ) -> str | None:
        """Begin a change at any broker. ``shows`` is True for a broker whose image has it."""
        broker = self._any_live()
        if broker is None:
            return None
        self._begin(self._judge(f"broker {broker.node_id}: {told}", token, broker, change, shows))
        return f"{broker.node_id}: {told}"

    async def _judge(
        self,
        told: str,
        token: str,
        broker: ModelBroker,
        change: Callable[[ModelBroker], Coroutine[Any, Any, Sequence[Outcome]]],
        shows: Callable[[ModelBroker], bool],
    ) -> None:
        faults = broker.faults if broker.session.state is SessionState.CONNECTED else -1
        commits = len(self._cluster.zookeeper.commits)
        try:
            outcomes = await change(broker)
        except ApiError as error:
            is_fault = broker.faults > faults or not broker.is_up
            if error.code not in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER) or not is_fault:
                self._problem(f"{told}: {error!r}")
            return
        except asyncio.CancelledError:
            if broker.has_joined:
                self._problem(f"{told}: cancelled")
            return
        except ZnodeError as error:
            if not self._has_junk:
                self._problem(f"{told}: {error}")
            return
        if any(one.is_failure for one in outcomes):
            self._refused.append((f"{told}: {outcomes}", token))
        elif not self._monitor.has(token):
            self._problem(f"{told}: acknowledged, but it is not in the tree")
        elif len(self._cluster.zookeeper.commits) == commits + 1 and not shows(broker):
            self._problem(f"{told}: acknowledged, but it is not in the image")

    def _create(self) -> str | None:
        name, token, random = self._random.choice(_TOPICS), self._token(), self._random
        live = [broker.node_id for broker in self._live()]
        if not live:
            return None
        factor = random.randint(1, min(3, len(live)))
        assignments = [(number, random.sample(live, factor)) for number in range(random.randint(1, 3))]
        configs = {"retention.ms": token}
        if name.startswith(UNCLEAN):
            configs["unclean.leader.election.enable"] = "true"

        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            wanted = NewTopic(name=name, assignments=assignments, configs=configs)
            (made,) = await broker.metadata.create_topics([wanted])
            return [Outcome(made.error, made.message)]

        return self._change(
            f"create {name} {assignments}",
            f'"retention.ms":"{token}"',
            change,
            lambda broker: self._has_setting(broker, name, "retention.ms", token),
        )

    def _has_setting(self, broker: ModelBroker, topic: str, key: str, value: str) -> bool:
        is_doomed = self._cluster.zookeeper.read(f"{paths.DELETED_TOPICS}/{topic}") is not None
        return is_doomed or broker.image.settings_of(*topic_resource(topic)).get(key) == value

    def _delete(self) -> str | None:
        name = self._random.choice(_TOPICS)

        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            await broker.metadata.delete_topics([name], timeout_ms=self._random.choice([2000, 10_000]))
            return []

        return self._change(f"delete {name}", "", change)

    def _grow(self) -> str | None:
        name, total = self._random.choice(_TOPICS), self._random.randint(2, 5)

        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            await broker.metadata.create_partitions([NewPartitions(topic=name, total=total)])
            return []

        return self._change(f"grow {name} to {total}", "", change)

    def _configure(self) -> str | None:
        name, token = self._random.choice(_TOPICS), self._token()
        key = self._random.choice(["retention.ms", "flush.ms", "flush.messages"])

        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            found = await broker.metadata.alter_configs({topic_resource(name): [setting(key, token)]})
            return list(found.values())

        return self._change(
            f"set {key} of {name} to {token}",
            f'"{key}":"{token}"',
            change,
            lambda broker: self._has_setting(broker, name, key, token),
        )

    def _configure_brokers(self) -> str | None:
        token, resource = self._token(), ConfigResource(ResourceType.BROKER, "")
        key = self._random.choice(["log.retention.ms", "log.flush.interval.ms"])

        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            found = await broker.metadata.alter_configs({resource: [setting(key, token)]})
            return list(found.values())

        return self._change(
            f"set {key} to {token}",
            f'"{key}":"{token}"',
            change,
            lambda broker: broker.image.settings_of(*resource).get(key) == token,
        )

    def _quota(self) -> str | None:
        token, user = self._token(), self._random.choice(("u", "v"))
        entity = (("user", user),)

        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            return await broker.metadata.alter_client_quotas(
                [QuotaChange(entity, [("request_percentage", float(token))])]
            )

        return self._change(
            f"quota {token} of {user}",
            f'"request_percentage":"{token}.0"',
            change,
            lambda broker: broker.image.client_quotas.get(entity, {}).get("request_percentage") == float(token),
        )

    def _scram(self) -> str | None:
        user = self._random.choice(("u", "v"))

        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            wanted = ScramUpsertion(user, int(ScramMechanism.SHA_256), 4096, b"salt", self._token().encode())
            return list((await broker.metadata.alter_scram_users([], [wanted])).values())

        return self._change(f"password of {user}", "", change)

    def _allow(self) -> str | None:
        token = self._token()
        acl = Acl(
            pattern=Pattern(
                AclResourceType.TOPIC,
                self._random.choice(("x", "y")),
                self._random.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            ),
            principal=f"User:{token}",
            host="*",
            operation=Operation.READ,
            permission=Permission.ALLOW,
        )

        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            return await broker.metadata.create_acls([acl])

        return self._change(
            f"ACL of {token}", f'"User:{token}"', change, lambda broker: acl in broker.image.acls.values()
        )

    def _forbid(self) -> str | None:
        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            await broker.metadata.delete_acls([AclFilter(operation=Operation.ANY)])
            return []

        return self._change("delete all ACLs", "", change)

    def _take_producer_ids(self) -> str | None:
        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            block = await broker.metadata.allocate_producer_ids()
            if block.start in self._blocks:
                self._problem(f"the producer ids from {block.start} are given twice")
            self._blocks.add(block.start)
            return []

        return self._change("take producer ids", "", change)

    def _reassign(self) -> str | None:
        name, ids = self._random.choice(_TOPICS), list(self._cluster.brokers)
        target = self._random.choice([None, self._random.sample(ids, self._random.randint(1, len(ids)))])

        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            await broker.metadata.alter_reassignments([Reassignment(name, 0, target)])
            return []

        return self._change(f"reassign {name} to {target}", "", change)

    def _elect(self) -> str | None:
        is_unclean = self._random.random() < 0.3
        name = f"{UNCLEAN}-d" if is_unclean else self._random.choice(_TOPICS)
        kind = ElectionType.UNCLEAN if is_unclean else ElectionType.PREFERRED

        async def change(broker: ModelBroker) -> Sequence[Outcome]:
            await broker.metadata.elect_leaders(kind, [TopicPartition(name, 0)])
            return []

        return self._change(f"elect {kind.name} {name}", "", change)

    def _alter(self) -> str | None:
        """Let a leader change the in-sync replicas, as its own image has them."""
        broker = self._any_live()
        led = [
            (topic, number, state)
            for topic, number, state in (() if broker is None else broker.image.partitions())
            if broker is not None and state.leader == broker.node_id
        ]
        if broker is None or not led:
            return None
        topic, number, state = self._random.choice(led)
        isr = [one for one in state.replicas if one == state.leader or self._random.random() < 0.7]
        alteration = PartitionAlteration(
            topic_id=topic.id,
            partition=number,
            isr=isr,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            broker_epochs=[broker.image.brokers[one].epoch if one in broker.image.brokers else -1 for one in isr],
        )
        self._begin(self._judge_alteration(broker, alteration))
        return f"{broker.node_id}: the ISR of {topic.name}-{number} to {isr}"

    async def _judge_alteration(self, broker: ModelBroker, alteration: PartitionAlteration) -> None:
        faults = broker.faults if broker.session.state is SessionState.CONNECTED else -1
        try:
            (altered,) = await broker.metadata.alter_partitions([alteration])
        except ApiError as error:
            if broker.faults == faults and broker.is_up and broker.metadata.broker_epoch != -1:
                self._problem(f"broker {broker.node_id}: {error!r}")
            return
        except asyncio.CancelledError:
            return
        if altered.state is not None and not self._has_junk:
            found = broker.image.topics_by_id.get(alteration.topic_id)
            state = None if found is None else found.partitions[alteration.partition]
            if state is not None and state.partition_epoch < altered.state.partition_epoch:
                self._problem(f"broker {broker.node_id} has {state} after {altered.state}")

    def _race(self) -> str | None:
        """Let brokers change the same things at once, one of them with an old image."""
        self._lag()
        kinds = self._random.choice(
            [
                [_Story._configure],
                [_Story._configure_brokers],
                [_Story._take_producer_ids],
                [_Story._alter, _Story._elect, _Story._reassign],
                [_Story._alter, _Story._elect, _Story._reassign],
            ]
        )
        return "; ".join(told for _ in range(4) if (told := self._random.choice(kinds)(self)) is not None)

    # --- faults ---

    def _kill(self) -> str | None:
        broker = self._any_live()
        if broker is None or (len(self._live()) == 1 and self._random.random() < 0.7):
            return None
        broker.has_joined = False
        self._begin(broker.kill(self._random.choice([0, 0, 1, 3])))
        return str(broker.node_id)

    def _stop(self) -> str | None:
        broker = self._any_live()
        if broker is None or (len(self._live()) == 1 and self._random.random() < 0.7):
            return None
        broker.has_joined = False
        self._begin(broker.stop())
        return str(broker.node_id)

    def _start_any(self) -> str | None:
        down = [node_id for node_id, broker in self._cluster.brokers.items() if broker.is_closed]
        if not down:
            return None
        node_id = self._random.choice(down)
        self._begin_start(node_id)
        return str(node_id)

    def _up(self) -> ModelBroker | None:
        up = [
            broker
            for broker in self._cluster.brokers.values()
            if broker.is_up and broker.session.state is SessionState.CONNECTED
        ]
        return self._random.choice(up) if up else None

    def _cut(self) -> str | None:
        broker = self._up()
        if broker is None:
            return None
        executed = self._random.choice([0, 1, 1, 2, 5])
        broker.faults += 1
        broker.session.cut(executed)
        return self._reconnect_later(broker)

    def _cut_commit(self) -> str | None:
        """Begin changes, and lose the connection of one broker while its next commit has no response."""
        broker = self._up()
        if broker is None:
            return None
        kind = self._random.choice([_Story._create, _Story._configure, _Story._allow, _Story._quota])
        changes = [told for _ in range(3) if (told := kind(self)) is not None]
        self._begin(self._cut_next_commit(broker))
        return f"of {broker.node_id}; {'; '.join(changes)}"

    async def _cut_next_commit(self, broker: ModelBroker) -> None:
        for _ in range(100):
            if broker.session.state is not SessionState.CONNECTED:
                return
            if any(broker.session.requests):
                broker.faults += 1
                broker.session.cut(self._random.choice([0, len(broker.session.requests)]))
                self._reconnect_later(broker)
                return
            await asyncio.sleep(0)

    def _expire(self) -> str | None:
        broker = self._up()
        if broker is None:
            return None
        broker.faults += 1
        broker.session.end()
        return self._reconnect_later(broker)

    def _reconnect_later(self, broker: ModelBroker) -> str:
        delay_s = self._random.choice([0, 0, 0.001, 0.1, 1, 10])
        asyncio.get_running_loop().call_later(delay_s, self._reconnect, broker)
        return f"{broker.node_id} for {delay_s} s"

    def _reconnect(self, broker: ModelBroker) -> None:
        if broker.is_up and broker.session.state is SessionState.DISCONNECTED:
            broker.faults += 1
            broker.session.reconnect()

    def _lag(self) -> str | None:
        broker = self._up()
        if broker is None:
            return None
        broker.session.is_lagging = True
        return str(broker.node_id)

    def _catch_up(self) -> str | None:
        lagging = [one for one in self._cluster.brokers.values() if one.is_up and one.session.is_lagging]
        for broker in lagging:
            if broker.session.state is SessionState.CONNECTED:
                broker.session.catch_up(self._random.choice([1, 2, 5, None]))
                broker.session.is_lagging = self._random.random() < 0.6
        return None

    # --- other hands ---

    def _write_topic(self) -> str | None:
        name = self._random.choice(_TOPICS)
        if self._cluster.data(paths.topic(name)) is not None:
            return None
        ids = list(self._cluster.brokers)
        replicas = {number: tuple(self._random.sample(ids, 2)) for number in range(self._random.randint(1, 2))}
        topic_id = self._random.choice([None, uuid.UUID(int=self._random.getrandbits(100))])
        self._cluster.write(paths.topic(name), TopicZnode(topic_id=topic_id, replicas=replicas).encode())
        return f"{name} {replicas} {topic_id}"

    def _write_settings(self) -> str | None:
        name, token = self._random.choice(_TOPICS), self._token()
        path = f"{paths.TOPIC_CONFIGS}/{name}"
        data = self._cluster.data(path)
        if data is None or path in self._junk:
            return None
        settings = {**ConfigZnode.decode(path, data).settings, "segment.ms": token}
        self._cluster.write(path, ConfigZnode(settings).encode())
        return f"{name} {token}"

    def _mark(self) -> str | None:
        name = self._random.choice(_TOPICS)
        self._cluster.write(f"{paths.DELETED_TOPICS}/{name}", b"")
        return name

    def _request(self) -> str | None:
        name, ids = self._random.choice(_TOPICS), list(self._cluster.brokers)
        path = self._random.choice([paths.REASSIGNMENT, paths.PREFERRED_ELECTION])
        replicas = self._random.sample(ids, self._random.randint(1, len(ids)))
        parts = [{"topic": name, "partition": 0, "replicas": replicas}]
        data = json.dumps({"version": 1, "partitions": parts}).encode()
        self._cluster.write(path, self._random.choice([data, data, _JUNK]))
        return f"{path} {name} {replicas}"

    def _end_controller(self) -> str | None:
        if self._random.random() < 0.5:
            self._cluster.write(paths.CONTROLLER, None)
            return "deleted"
        if (data := self._cluster.data(paths.CONTROLLER_EPOCH)) is not None:
            self._cluster.write(paths.CONTROLLER_EPOCH, str(int(data) + 1).encode())
        return "epoch"

    def _damage(self) -> str | None:
        name = self._random.choice(_TOPICS)
        path = self._random.choice(
            [
                paths.topic(name),
                paths.state(name, 0),
                f"{paths.TOPIC_CONFIGS}/{name}",
                f"{paths.USER_CONFIGS}/u",
                f"{paths.LITERAL_ACLS}/Topic/x",
                paths.PRODUCER_IDS,
            ]
        )
        found = self._cluster.zookeeper.read(path)
        if found is None or path in self._junk:
            return None
        self._cluster.write(path, _JUNK)
        self._has_junk = True
        self._junk[path] = (found.data, found.version + 1)
        return path

    def _repair_all(self) -> None:
        for path, (data, version) in self._junk.items():
            found = self._cluster.zookeeper.read(path)
            if found is not None and found.version == version and found.data == _JUNK:
                self._cluster.write(path, data)
        self._junk.clear()


_STEPS: Final = [
    ("create", _Story._create, 10),
    ("delete", _Story._delete, 5),
    ("grow", _Story._grow, 3),
    ("configure", _Story._configure, 8),
    ("configure brokers", _Story._configure_brokers, 4),
    ("quota", _Story._quota, 3),
    ("scram", _Story._scram, 2),
    ("allow", _Story._allow, 3),
    ("forbid", _Story._forbid, 1),
    ("take producer ids", _Story._take_producer_ids, 3),
    ("reassign", _Story._reassign, 4),
    ("elect", _Story._elect, 3),
    ("alter", _Story._alter, 14),
    ("race", _Story._race, 4),
    ("kill", _Story._kill, 4),
    ("stop", _Story._stop, 3),
    ("start", _Story._start_any, 8),
    ("cut", _Story._cut, 6),
    ("cut a commit", _Story._cut_commit, 4),
    ("expire", _Story._expire, 4),
    ("lag", _Story._lag, 3),
    ("catch up", _Story._catch_up, 6),
    ("write topic", _Story._write_topic, 3),
    ("write settings", _Story._write_settings, 2),
    ("mark", _Story._mark, 2),
    ("request", _Story._request, 3),
    ("end controller", _Story._end_controller, 2),
    ("damage", _Story._damage, 2),
]
"""The steps with their weights."""
