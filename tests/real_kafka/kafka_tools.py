"""A JVM in which Kafka's command line tools run, one after another (``Tools.java``)."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

from real_kafka.java import DUMP_LOG_SEGMENTS, OLDER, OLDER_DUMP_LOG_SEGMENTS, TOOLS, java_command

CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-dump-log": DUMP_LOG_SEGMENTS,
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}

WITHOUT_BROKER = frozenset({"kafka-dump-log", "kafka-storage"})
_PATIENCE_S = 120


class Run(NamedTuple):
    """The result of a tool's run."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The tool's output without empty lines."""
        return [line.strip() for line in self.out.splitlines() if line.strip()]


class KafkaTools:
    def __init__(self, bootstrap: str, *, release: str = TOOLS) -> None:
        self.bootstrap = bootstrap
        self.release = release

    def __enter__(self) -> KafkaTools:
        command = java_command("Tools", heap_mib=256, release=self.release)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def at(self, bootstrap: str) -> KafkaTools:
        """Return the tools for another broker, in the same process, which ends with the first context."""
        other = KafkaTools(bootstrap, release=self.release)
        other._process = self._process
        return other

    def run(self, tool: str, *arguments: str, standard_input: str = "") -> Run:
        """Run a tool as the shell would, with the broker's address added if the tool accepts it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        given = ["--bootstrap-server", self.bootstrap]
        whole = [*arguments, *given] if tool == "kafka-cluster" else [*given, *arguments]
        if tool in WITHOUT_BROKER:
            whole = [*arguments]
        if tool == "kafka-producer-perf-test":
            whole = [*arguments, "--producer-props", f"bootstrap.servers={self.bootstrap}"]
        is_older = self.release in OLDER and CLASSES[tool] == DUMP_LOG_SEGMENTS
        main_class = OLDER_DUMP_LOG_SEGMENTS if is_older else CLASSES[tool]
        request = {"tool": main_class, "arguments": whole, "input": standard_input}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Run(**json.loads(self._process.stdout.readline()))

    def told(self, tool: str, *arguments: str, standard_input: str = "") -> list[str]:
        """Run a tool that must succeed, and return its lines."""
        done = self.run(tool, *arguments, standard_input=standard_input)
        assert done.code == 0, done
        return done.lines

    def told_when(self, is_so: Callable[[list[str]], bool], tool: str, *arguments: str) -> list[str]:
        """Run a tool again until its lines are right, and return them.

        A controller responds to a change once it is committed. A broker's metadata has it a little later.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            done = self.run(tool, *arguments)
            if done.code == 0 and is_so(done.lines):
                return done.lines
            assert time.monotonic() < deadline, done
            time.sleep(0.05)
