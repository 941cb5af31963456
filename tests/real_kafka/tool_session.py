"""A session of Kafka's command line tools on a cluster of three brokers, and its normalized output.

The same session runs on brokers of Kafka and on those of tidelog. Each step has a name and lines. Ports, directories,
ids, offsets of the metadata log and times are replaced by words, and runs of spaces by one.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Producer

from real_kafka.cluster import PATIENCE_S, Cluster
from real_kafka.cluster_node import Node, Program
from real_kafka.kafka_tools import KafkaTools, Run

Steps = dict[str, list[str]]
_RECORDS, _RECORD_BYTES = 40, 10_000
_ID = re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])")
_QUORUM_NUMBERS = re.compile(r"^(LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): .*")
_OBSERVERS = "CurrentObservers: "
_CLIENT = re.compile(r"adminclient-\d+")
_NOT_OF_THE_TOOL = re.compile(r"\s+at |.* WARN org\.apache\.kafka\.clients\.NetworkClient ")
"""Stack traces, and warnings that the first address of the list is that of a stopped broker."""
_SLOW, _FAST = "1", "100000000"
"""Throttles in bytes a second."""
_PROPERTIES = {
    "replication.quota.window.size.seconds": "3600",
    "alter.log.dirs.replication.quota.window.size.seconds": "3600",
    "replica.fetch.max.bytes": "10000",
}
"""The slow throttle ends a transfer after the first fetch, which has one batch."""


class TwoDiskCluster(Cluster):
    """Each broker has two log directories."""

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def disks(self, number: int) -> tuple[Path, Path]:
        directory = self.brokers[number].directory
        return directory, directory.with_name("disk2")

    def _node(self, number: int, role: str, properties: Mapping[str, str]) -> Node:
        node = super()._node(number, role, properties)
        if role == "broker":
            text, first = node.properties_file.read_text(), f"log.dirs={node.directory}"
            node.properties_file.write_text(text.replace(first, f"{first},{node.directory.with_name('disk2')}"))
        return node

    def _format(self) -> None:
        super()._format()
        for number in self.brokers:
            first, second = self.disks(number)
            lines = (first / "meta.properties").read_text().splitlines()
            own = f"directory.id={urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip('=')}"
            second.mkdir()
            kept = [line for line in lines if not line.startswith("directory.id=")]
            (second / "meta.properties").write_text("\n".join([*kept, own]) + "\n")


class ToolSession:
    def __init__(self, cluster: TwoDiskCluster, tools: KafkaTools, work: Path) -> None:
        """``work`` receives the files that the tools read."""
        self.steps: Steps = {}
        self._cluster = cluster
        self._tools = tools
        self._work = work
        self._names: dict[str, str] = {}
        for number in cluster.brokers:
            self._names |= {str(disk): f"<disk of {number}>" for disk in cluster.disks(number)}
            self._names[cluster.direct.split(",")[number - 1].rpartition(":")[2]] = f"<port of {number}>"
            self._names[cluster.links[number].address.rpartition(":")[2]] = f"<client port of {number}>"
        controller = re.search(r"voters=100@127\.0\.0\.1:(\d+)", cluster.controller.properties_file.read_text())
        assert controller is not None
        self._names[controller[1]] = "<port of 100>"

    # --- running ---

    def step(self, name: str, tool: str, *arguments: str) -> Run:
        """Run a tool, and keep its exit code and output under ``name``."""
        done = self._tools.run(tool, *arguments)
        lines = [f"exit code {done.code}", *self._normalized(done.out), *self._normalized(done.err)]
        self.steps[name] = lines
        return done

    def until(self, name: str, is_so: Callable[[list[str]], bool], tool: str, *arguments: str) -> None:
        """Repeat a step until its lines satisfy a condition."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.step(name, tool, *arguments)
            if is_so(self.steps[name]) or time.monotonic() > deadline:
                return
            time.sleep(0.2)

    def file(self, name: str, content: Any) -> str:
        path = self._work / name
        path.write_text(json.dumps(content))
        return str(path)

    def _normalized(self, text: str) -> list[str]:
        for found, name in self._names.items():
            text = re.sub(rf"(?<!\d){re.escape(found)}(?!\d)", name, text)
        lines = [line for line in text.splitlines() if not _NOT_OF_THE_TOOL.match(line)]
        lines = [re.sub(r"\s+", " ", line).strip() for line in lines]
        for pattern, word in (
            (_ID, "<id>"),
            (_QUORUM_NUMBERS, r"\1: <number>"),
            (_CLIENT, "adminclient"),
        ):
            lines = [pattern.sub(word, line) for line in lines]
        return [_with_sorted_observers(line) for line in lines if line]

    # --- the steps ---

    def run(self) -> Steps:
        self.describe_the_cluster()
        self.create_topics()
        self.describe_directories()
        self.reassign()
        self.elect()
        self.describe_while_a_broker_is_down()
        self.unregister()
        self.fail_a_directory()
        return self.steps

    def describe_the_cluster(self) -> None:
        self.step("cluster id", "kafka-cluster", "cluster-id")
        self.step("endpoints", "kafka-cluster", "list-endpoints")
        self.step("quorum status", "kafka-metadata-quorum", "describe", "--status")
        for name, more in (("quorum replication", []), ("quorum for people", ["--human-readable"])):
            self.step(name, "kafka-metadata-quorum", "describe", "--replication", *more)
            self.steps[name] = sorted(_without_progress(line) for line in self.steps[name])

    def create_topics(self) -> None:
        for topic, assignment, config in (
            ("a", "1:2,2:3,3:1", "min.insync.replicas=2"),
            ("b", "1:2:3,2:3:1,3:1:2", "min.insync.replicas=2"),
            ("c", "3,2", "retention.ms=7000000"),
        ):
            created = ["--create", "--topic", topic, "--replica-assignment", assignment, "--config", config]
            self.step(f"create {topic}", "kafka-topics", *created)
        producer = Producer({"bootstrap.servers": self._cluster.direct, "log_level": 2, "batch.num.messages": 1})
        for topic in "ab":
            for number in range(_RECORDS):
                producer.produce(topic, bytes(_RECORD_BYTES), partition=number % 3)
                producer.flush(PATIENCE_S)
        self.step("describe", "kafka-topics", "--describe")

    def describe_directories(self) -> None:
        self.log_dirs("log dirs", "--topic-list", "a,b")
        self.log_dirs("log dirs of two brokers", "--broker-list", "1,3", "--topic-list", "a")
        self.step("log dirs of an unknown broker", "kafka-log-dirs", "--describe", "--broker-list", "1,9")

    def log_dirs(self, name: str, *arguments: str) -> None:
        """Keep the replicas of each broker without their directories: a broker chooses between empty ones."""
        done = self.step(name, "kafka-log-dirs", "--describe", *arguments)
        *head, found = [line for line in done.out.splitlines() if line]
        brokers = []
        for broker in json.loads(found)["brokers"]:
            partitions = [one for directory in broker["logDirs"] for one in directory.pop("partitions")]
            directories = sorted(json.dumps(directory, sort_keys=True) for directory in broker["logDirs"])
            partitions.sort(key=lambda one: (str(one["partition"]), bool(one["isFuture"])))
            brokers += [f"broker {broker['broker']}", *directories, *map(json.dumps, partitions)]
        self.steps[name] = [f"exit code {done.code}", *self._normalized("\n".join([*head, *brokers]))]

    # --- reassignments ---

    def reassign(self) -> None:
        topics = self.file("topics.json", {"topics": [{"topic": "a"}], "version": 1})
        self.step("generate", *_REASSIGN, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2,3")
        # The proposal begins at a broker by chance.
        self.steps["generate"] = self.steps["generate"][:4]
        moves = self.file("moves.json", self.plan())
        slow = ["--throttle", _SLOW, "--replica-alter-log-dirs-throttle", _SLOW]
        execute = ["--execute", "--reassignment-json-file", moves]
        self.step("execute slowly", *_REASSIGN, *execute, *slow)
        self.step("execute again", *_REASSIGN, *execute)
        self.step("list", *_REASSIGN, "--list")
        self.step("verify in progress", *_REASSIGN, "--verify", "--reassignment-json-file", moves)
        self.configs("throttles", throttled=(1, 2, 3))
        self.log_dirs("log dirs while moving", "--broker-list", "2", "--topic-list", "a")
        self.steps["log dirs while moving"] = [
            re.sub(r'"(size|offsetLag)": \d+', r'"\1": <number>', line) for line in self.steps["log dirs while moving"]
        ]
        self.step("describe while reassigning", "kafka-topics", "--describe", "--topic", "a")
        self.step("cancel", *_REASSIGN, "--cancel", "--reassignment-json-file", moves, "--preserve-throttles")
        self.step("list after a cancellation", *_REASSIGN, "--list")
        self.configs("throttles after a cancellation", throttled=(1, 2, 3))
        self.step("cancel again", *_REASSIGN, "--cancel", "--reassignment-json-file", moves)
        self.configs("no throttles after a cancellation", throttled=())
        fast = ["--throttle", _FAST, "--replica-alter-log-dirs-throttle", _FAST]
        self.step("execute", *_REASSIGN, *execute, *fast)
        is_over = lambda lines: not any("still in progress" in line for line in lines)  # noqa: E731
        verify = ["--verify", "--reassignment-json-file", moves]
        self.until("verify", is_over, *_REASSIGN, *verify, "--preserve-throttles")
        self.configs("preserved throttles", throttled=(1, 2, 3))
        self.step("verify and remove throttles", *_REASSIGN, *verify)
        self.configs("no throttles", throttled=())
        self.step("describe moved", "kafka-topics", "--describe", "--topic", "a")
        self.log_dirs("log dirs after moves", "--topic-list", "a")
        invalid = self.file("invalid.json", {"version": 1, "partitions": [_move("a", 0, [1, 9]), _move("x", 0, [1])]})
        self.step("execute an invalid plan", *_REASSIGN, "--execute", "--reassignment-json-file", invalid)

    def plan(self) -> Any:
        """Return a plan: two partitions move to other brokers, and a replica of partition 1 to another directory."""
        other = next(disk for disk in self._cluster.disks(2) if not (disk / "a-1").exists())
        moves = [
            _move("a", 0, [3, 2]),
            _move("a", 1, [2, 3], [str(other), "any"]),
            _move("a", 2, [3, 2]),
        ]
        return {"version": 1, "partitions": moves}

    def configs(self, name: str, throttled: Collection[int]) -> None:
        """Keep the throttles of the topic and the brokers. A broker learns of a change a moment after the tool.

        The topic is throttled if some brokers are.
        """
        for of, arguments, is_throttled in (
            ("a", ("--topic", "a"), bool(throttled)),
            *((f"broker {number}", ("--broker", str(number)), number in throttled) for number in self._cluster.brokers),
        ):
            self.until(
                f"{name} of {of}",
                lambda lines, wanted=is_throttled: any(".throttled." in line for line in lines) is wanted,  # type: ignore[misc]
                "kafka-configs",
                "--describe",
                *arguments,
            )

    # --- elections ---

    def elect(self) -> None:
        cluster = self._cluster
        self.stop(1)
        cluster.restart(1)
        self.wait_until_in_sync("b")
        self.step("leaders after a restart", "kafka-topics", "--describe", "--topic", "b")
        preferred = ["--election-type", "preferred"]
        self.step("elect one", *_ELECT, *preferred, "--topic", "b", "--partition", "0")
        self.step("elect one again", *_ELECT, *preferred, "--topic", "b", "--partition", "0")
        self.step("elect an unknown one", *_ELECT, *preferred, "--topic", "b", "--partition", "7")
        self.stop(2)
        by_file = self.file(
            "elect.json", {"partitions": [{"topic": "b", "partition": 1}, {"topic": "a", "partition": 0}]}
        )
        self.step("elect one that is away", *_ELECT, *preferred, "--path-to-json-file", by_file)
        cluster.restart(2)
        self.wait_until_in_sync("b")
        self.step("elect by file", *_ELECT, *preferred, "--path-to-json-file", by_file)
        self.step("elect all", *_ELECT, *preferred, "--all-topic-partitions")
        self.step("leaders after elections", "kafka-topics", "--describe", "--topic", "b")
        self.elect_unclean()

    def elect_unclean(self) -> None:
        """Leave a partition without a living in-sync replica."""
        cluster, unclean = self._cluster, ["--election-type", "unclean"]
        cluster.create_topic("u", assignment=[[1, 2]])
        cluster.kill(2)
        cluster.wait("broker 1 alone is in sync", lambda: cluster.in_sync("u", 0) == {1})
        self.step("elect uncleanly although there is a leader", *_ELECT, *unclean, "--topic", "u", "--partition", "0")
        cluster.kill(1)
        cluster.wait("no leader", lambda: cluster.leader("u", 0) == -1)
        cluster.restart(2)
        self.step("without a leader", "kafka-topics", "--describe", "--unavailable-partitions", "--topic", "u")
        by_file = self.file("unclean.json", {"partitions": [{"topic": "u", "partition": 0}]})
        self.step("elect uncleanly", *_ELECT, *unclean, "--path-to-json-file", by_file)
        self.step("elect all uncleanly", *_ELECT, *unclean, "--all-topic-partitions")
        self.step("the unclean leader", "kafka-topics", "--describe", "--topic", "u")
        cluster.restart(1)
        for topic in "abu":
            self.wait_until_in_sync(topic)

    # --- a broker that is away ---

    def describe_while_a_broker_is_down(self) -> None:
        self.stop(3)
        for option in (
            "--under-replicated-partitions",
            "--under-min-isr-partitions",
            "--at-min-isr-partitions",
            "--unavailable-partitions",
        ):
            self.step(f"describe {option}", "kafka-topics", "--describe", option)
        self.step("endpoints without a broker", "kafka-cluster", "list-endpoints")
        self.step("endpoints with fenced ones", "kafka-cluster", "list-endpoints", "--include-fenced-brokers")

    def unregister(self) -> None:
        self.step("unregister", "kafka-cluster", "unregister", "--id", "3")
        self.step("unregister again", "kafka-cluster", "unregister", "--id", "3")
        self.step("endpoints after", "kafka-cluster", "list-endpoints", "--include-fenced-brokers")
        self.step("describe after", "kafka-topics", "--describe", "--topic", "b")
        self._cluster.restart(3)
        self.wait_until_in_sync("b")
        self.step("endpoints of the returned broker", "kafka-cluster", "list-endpoints")

    def fail_a_directory(self) -> None:
        """Put a file in the place of a log directory. The next write of a checkpoint fails."""
        disk = self._cluster.disks(1)[1]
        disk.rename(disk.with_name("unmounted"))
        disk.touch()
        name, arguments = "log dirs of a failed disk", ("--describe", "--broker-list", "1", "--topic-list", "b")
        self.until(
            name, lambda lines: any("KafkaStorageException" in line for line in lines), "kafka-log-dirs", *arguments
        )
        self.log_dirs(name, *arguments[1:])
        self.steps[name] = [line for line in self.steps[name] if '"partition"' not in line]

    def stop(self, number: int) -> None:
        """Stop a broker cleanly, and wait until others lead its partitions."""
        self._cluster.stop(number)
        self._cluster.wait(
            f"broker {number} is out of sync",
            lambda: all(number not in part.isrs for part in self._cluster.partitions("b").values()),
        )

    def wait_until_in_sync(self, topic: str) -> None:
        def is_in_sync() -> bool:
            return all(set(part.isrs) == set(part.replicas) for part in self._cluster.partitions(topic).values())

        self._cluster.wait(f"{topic} is in sync", is_in_sync)


_REASSIGN = ("kafka-reassign-partitions",)
_ELECT = ("kafka-leader-election",)


def _move(topic: str, partition: int, replicas: Sequence[int], log_dirs: Sequence[str] | None = None) -> Any:
    move: dict[str, Any] = {"topic": topic, "partition": partition, "replicas": replicas}
    return move if log_dirs is None else {**move, "log_dirs": log_dirs}


def _with_sorted_observers(line: str) -> str:
    """Sort the observers of the quorum's status, which come as in a hash table."""
    if not line.startswith(_OBSERVERS):
        return line
    return _OBSERVERS + json.dumps(sorted(json.loads(line.removeprefix(_OBSERVERS)), key=lambda one: one["id"]))


def _without_progress(line: str) -> str:
    """Return a row of the quorum's replicas without its offsets and times."""
    row = line.split(" ")
    if not row[0].isdigit():
        return line
    return f"{row[0]} {row[1]} <progress> {row[-1]}"


def run_session(root: Path, program: Program) -> Steps:
    """Run the session on a cluster whose nodes all have the program."""
    work = root / "work"
    work.mkdir()
    nodes = dict.fromkeys((100, 1, 2, 3), program)
    with TwoDiskCluster(root / "cluster", programs=nodes, properties=_PROPERTIES) as cluster:
        cluster.start()
        with KafkaTools(cluster.direct) as tools:
            return ToolSession(cluster, tools, work).run()
