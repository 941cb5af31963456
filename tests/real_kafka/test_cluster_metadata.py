"""The cluster metadata compared with a real Kafka's: equal formatting, takeover in both directions, equal records.

tidelog runs on a new directory, with snapshots and their cleaning. Then Kafka and tidelog each continue on a copy of it
and make the same changes. Both must append the same records: offsets, versions, fields.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from real_kafka.broker import Broker
from tidelog.config.broker_config import BrokerConfig
from tidelog.inspect.dump import dump_json
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.runtime import SYSTEM_CLOCK, ThreadScheduler
from tidelog.runtime.executor import Arguments, Result
from tidelog.server.configs.changes import ChangeKind, SettingChange
from tidelog.server.configs.resource_type import ResourceType as OwnType
from tidelog.server.metadata.image import ConfigResource as OwnResource
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata, ClusterMetadataSetup
from tidelog.server.metadata.requests import NewPartitions, NewTopic
from tidelog.storage.checkpoint import CleanShutdownFile, MetaProperties
from tidelog.storage.fs import LOCAL
from tidelog.testing.broker.kept_port import keep_port

pytestmark = pytest.mark.kafka

METADATA = "__cluster_metadata-0"
NO_SNAPSHOTS = {"metadata.max.idle.interval.ms": "0"}
"""No snapshots, and no records of an idle controller."""
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "1500",
    "metadata.max.retention.bytes": "3000",
    "internal.metadata.log.segment.bytes": "1500",
}
VARIES = frozenset(
    {"topicId", "incarnationId", "logDirs", "directories", "voterDirectoryId", "port", "lastContainedLogTimestamp"}
)
SETTINGS = {"retention.ms": "1000000", "cleanup.policy": "compact"}

Row = tuple[str, int, str]
"""The name, the version, and the fields in JSON."""


async def in_thread(function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    return await asyncio.to_thread(function, *args, **kwargs)


@dataclass(frozen=True, slots=True)
class OwnNode:
    """tidelog's metadata on a directory, without a broker around it."""

    directory: Path
    ports: tuple[int, ...]

    def live(
        self, work: Callable[[ClusterMetadata], Awaitable[None]], settings: Mapping[str, str] = NO_SNAPSHOTS
    ) -> None:
        """Start, do ``work``, and shut down cleanly."""
        listeners = f"PLAINTEXT://127.0.0.1:{self.ports[0]},CONTROLLER://127.0.0.1:{self.ports[1]}"
        config = BrokerConfig.load(
            overrides={
                "log.dirs": str(self.directory),
                "listeners": listeners,
                "controller.listener.names": "CONTROLLER",
                **settings,
            }
        )
        scheduler = ThreadScheduler(1)
        scheduler.startup()
        try:
            asyncio.run(self._live(config, scheduler, work))
        finally:
            scheduler.shutdown()

    async def _live(
        self, config: BrokerConfig, scheduler: ThreadScheduler, work: Callable[[ClusterMetadata], Awaitable[None]]
    ) -> None:
        metadata = ClusterMetadata(
            ClusterMetadataSetup(
                fs=LOCAL,
                config=config,
                node_id=1,
                directories=[self.directory],
                clock=SYSTEM_CLOCK,
                scheduler=scheduler,
                in_thread=in_thread,
                on_failure=lambda error: None,
            )
        )
        metadata.format()
        metadata.load()
        await metadata.start()
        properties = MetaProperties.read(LOCAL, self.directory / "meta.properties")
        assert properties is not None
        assert properties.directory_id is not None
        marker = CleanShutdownFile(LOCAL, self.directory)
        endpoint = BrokerEndpoint("PLAINTEXT", "127.0.0.1", self.ports[0])
        await metadata.register_broker([endpoint], [properties.directory_id], previous_epoch=marker.read())
        await work(metadata)
        await metadata.leave()
        marker.write(metadata.broker_epoch)
        await metadata.close()


async def begin(metadata: ClusterMetadata) -> None:
    """Create the state that Kafka starts from."""
    await metadata.create_topics(
        [NewTopic(name="plain", partitions=3), NewTopic(name="settled", partitions=1, configs=SETTINGS)]
    )
    for number in range(12):
        await metadata.create_topics([NewTopic(name="passing", partitions=number + 1)])
        await metadata.delete_topics(["passing"])
    await metadata.allocate_producer_ids()


async def change(metadata: ClusterMetadata) -> None:
    """Make the same changes as ``change_kafka``."""
    await metadata.create_topics(
        [NewTopic(name="more", partitions=2, replication_factor=1, configs={"retention.ms": "7"})]
    )
    await metadata.create_partitions([NewPartitions(topic="plain", total=4)])
    topic, broker = OwnResource(OwnType.TOPIC, "plain"), OwnResource(OwnType.BROKER, "1")
    await metadata.alter_configs({topic: [SettingChange("retention.ms", ChangeKind.SET, "5000")]})
    await metadata.alter_configs({topic: [SettingChange("cleanup.policy", ChangeKind.APPEND, "compact")]})
    await metadata.alter_configs({topic: [SettingChange("retention.ms", ChangeKind.DELETE, None)]})
    await metadata.alter_configs({broker: [SettingChange("log.cleaner.threads", ChangeKind.SET, "2")]})
    await metadata.allocate_producer_ids()
    await metadata.delete_topics(["settled"])


def change_kafka(broker: Broker) -> None:
    """Make the same changes as ``change``."""
    broker.create_topic("more", partitions=2, config={"retention.ms": "7"})
    broker.add_partitions("plain", 4)
    alter(broker, ResourceType.TOPIC, "plain", "retention.ms", "5000", AlterConfigOpType.SET)
    alter(broker, ResourceType.TOPIC, "plain", "cleanup.policy", "compact", AlterConfigOpType.APPEND)
    alter(broker, ResourceType.TOPIC, "plain", "retention.ms", None, AlterConfigOpType.DELETE)
    alter(broker, ResourceType.BROKER, "1", "log.cleaner.threads", "2", AlterConfigOpType.SET)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    producer.produce("plain", b"value")
    assert producer.flush(60) == 0
    broker.admin.delete_topics(["settled"])["settled"].result(60)


def alter(
    broker: Broker, kind: ResourceType, name: str, key: str, value: str | None, operation: AlterConfigOpType
) -> None:
    entry = ConfigEntry(key, value, incremental_operation=operation)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    broker.admin.incremental_alter_configs([resource])[resource].result(60)


def rows(files: Iterable[Path]) -> list[Row]:
    """Return the records of log files or snapshots, without fields that differ in each run.

    Consecutive records of a kind are sorted, because Java's hash tables have their own order.
    """
    found = []
    for row in dump_json(sorted(files)):
        assert row["type"] == "record", row
        value = row.get("control") or row["value"]
        fields = json.dumps(settled(value["fields"]), sort_keys=True)
        found.append((value["name"], value.get("version", 0), fields))
    return [row for _, alike in groupby(found, key=itemgetter(0)) for row in sorted(alike)]


def tells_cordoned(row: Row) -> bool:
    """Return True if the record only lists the cordoned log directories."""
    name, _, fields = row
    return name == "BrokerRegistrationChangeRecord" and "cordonedLogDirs" in fields


def settled(fields: Any) -> Any:
    """Remove ids, ports and times, and sort features by name."""
    if isinstance(fields, list):
        return [settled(one) for one in fields]
    if not isinstance(fields, dict):
        return fields
    kept = {key: settled(value) for key, value in fields.items() if key not in VARIES}
    if "features" in kept:
        kept["features"].sort(key=lambda feature: feature["name"])
    return kept


def log_files(directory: Path) -> list[Path]:
    return list((directory / METADATA).glob("*.log"))


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Reserve ports of broker and controller for both servers in turn."""
    with keep_port() as one, keep_port() as other:
        yield one.getsockname()[1], other.getsockname()[1]


@pytest.mark.parametrize("voters_in_log", [False, True])
def test_new_directories_are_formatted_alike(tmp_path: Path, ports: tuple[int, int], voters_in_log: bool) -> None:
    kafka = Broker(tmp_path / "kafka", work=tmp_path / "work", ports=ports, voters_in_log=voters_in_log)
    kafka.format()
    own = OwnNode(tmp_path / "own", ports)
    static = {} if voters_in_log else {"controller.quorum.voters": f"1@127.0.0.1:{ports[1]}"}
    own.live(begin, static)

    name = f"{METADATA}/{0:020}-{0:010}.checkpoint"
    checkpoints = [directory / name for directory in (kafka.directory, own.directory)]
    assert rows(checkpoints[:1]) == rows(checkpoints[1:])
    assert checkpoints[0].stat().st_size == checkpoints[1].stat().st_size
    written = {path.relative_to(kafka.directory).as_posix() for path in kafka.directory.rglob("*") if path.is_file()}
    assert written == {"meta.properties", name}
    theirs, ours = (
        MetaProperties.read(LOCAL, directory / "meta.properties") for directory in (kafka.directory, own.directory)
    )
    assert theirs is not None
    assert ours is not None
    assert (theirs.version, theirs.node_id) == (ours.version, ours.node_id) == (1, 1)


def test_kafka_and_tidelog_go_on_alike_with_what_tidelog_wrote(tmp_path: Path, ports: tuple[int, int]) -> None:
    own = OwnNode(tmp_path / "own", ports)
    own.live(begin, SNAPSHOTS)
    assert min(int(path.stem) for path in log_files(own.directory)) > 0, "the log has to begin with a snapshot"
    before = rows(log_files(own.directory))
    shutil.copytree(own.directory, tmp_path / "kafka")

    broker = Broker(
        tmp_path / "kafka",
        work=tmp_path / "work",
        properties=NO_SNAPSHOTS,
        ports=ports,
        voters_in_log=True,
    )
    with broker:
        broker.start()
        topics = broker.admin.list_topics(timeout=60).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"plain": 3, "settled": 1}
        resource = ConfigResource(ResourceType.TOPIC, "settled")
        configs = broker.admin.describe_configs([resource])[resource].result(60)
        assert {key: configs[key].value for key in SETTINGS} == SETTINGS
        change_kafka(broker)
        broker.stop()
    own.live(change)

    theirs, ours = (rows(log_files(directory)) for directory in (broker.directory, own.directory))
    assert len(ours) > len(before) + 20
    theirs_cordoned, ours_cordoned = (list(filter(tells_cordoned, found)) for found in (theirs, ours))
    assert [json.loads(fields)["cordonedLogDirs"] for _, _, fields in theirs_cordoned] == [[]], "nothing is cordoned"
    assert theirs_cordoned == ours_cordoned
    # Kafka's broker sends this record with the first heartbeat after it has the metadata, so its position varies.
    theirs, ours = ([row for row in found if not tells_cordoned(row)] for found in (theirs, ours))
    assert theirs == ours

    async def look(metadata: ClusterMetadata) -> None:
        partitions = {name: len(topic.partitions) for name, topic in metadata.image.topics.items()}
        assert partitions == {"plain": 4, "more": 2}
        assert all(state.leader == 1 and not state.is_recovering for _, _, state in metadata.image.partitions())
        assert metadata.image.next_producer_id == 2000
        assert metadata.image.configs[OwnResource(OwnType.TOPIC, "plain")] == {"cleanup.policy": "delete,compact"}

    OwnNode(broker.directory, ports).live(look)
