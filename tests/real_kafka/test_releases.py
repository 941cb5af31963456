"""Log directories of several Kafka releases at every door of tidelog. Each has an example of everything.

A broker of the release runs the steps of ``release_directory``, which keeps its log directories after a kill and after
a clean shutdown. The data that tidelog finds and serves must equal the data of this Kafka, and Kafka must continue
afterwards. Spark reads golden sets made by the same steps (``spark/test_manifest.py``).
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from cli.runner import rows, run
from real_kafka.broker import PATIENCE_S, Broker
from real_kafka.copy_comparison import acls_of
from real_kafka.directories import differences
from real_kafka.java import NEWEST, OLDER, TOOLS
from real_kafka.kafka_tools import KafkaTools
from real_kafka.release_directory import (
    COMMITTED,
    PARTITIONS,
    PROPERTIES,
    SHARED_READ,
    SHARED_RECORDS,
    USERS,
    Left,
    leave_directories,
    read_in_share_group,
)
from served_records import served_entries
from server.server_process import serving
from tidelog.storage.manager.recovery.directory_recovery import recover
from tidelog.testing.broker.kept_port import keep_port

pytestmark = pytest.mark.kafka

RELEASES = [NEWEST, *(pytest.param(release, marks=pytest.mark.slow) for release in (TOOLS, OLDER[0]))]
KINDS = ("clean", "unclean")
LEVELS = ("read_uncommitted", "read_committed")
RESTING = {**PROPERTIES, "log.cleaner.enable": "false"}
"""Properties of brokers that only serve: the cleaner is off."""
IN_A_SHARE_GROUP = 10


@dataclass(frozen=True, slots=True)
class Made:
    """The log directories that a broker of ``release`` left, and the place for copies of them."""

    release: str
    left: Left
    ports: tuple[int, int]
    root: Path

    def copy(self, kind: str, name: str) -> tuple[Path, ...]:
        """Return a copy of the ``clean`` or ``unclean`` log directories."""
        directories = self.left.clean if kind == "clean" else self.left.unclean
        return tuple(Path(shutil.copytree(path, self.root / name / path.name)) for path in directories)

    def kafka(self, directories: Sequence[Path], *, now_ms: int | None = None) -> Broker:
        """Return a broker of the release that is not started yet."""
        return Broker(
            directories[0],
            more_directories=directories[1:],
            work=directories[0].parent / "work",
            properties=RESTING,
            ports=self.ports,
            release=self.release,
            now_ms=now_ms,
        )


@pytest.fixture(scope="module", params=RELEASES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    root = tmp_path_factory.mktemp("release")
    with ExitStack() as places:
        one, other = (places.enter_context(keep_port()).getsockname()[1] for _ in range(2))
        broker = Broker(
            root / "made" / "one",
            more_directories=[root / "made" / "two"],
            work=root / "made" / "work",
            properties=PROPERTIES,
            ports=(one, other),
            release=request.param,
        )
        with broker:
            left = leave_directories(broker, root)
        yield Made(request.param, left, (one, other), root)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_found_in_them(made: Made, kind: str) -> None:
    """``verify`` reports only notes about normal results of a kill."""
    directories = made.left.clean if kind == "clean" else made.left.unclean
    found = [row for row in rows("verify", *directories) if row["kind"] == "finding"]
    assert [row for row in found if row["severity"] != "note"] == []


def test_recovery_gives_the_bytes_of_a_restart(made: Made) -> None:
    ours, reference = made.copy("unclean", "recovered"), made.copy("unclean", "restarted")
    with made.kafka(reference, now_ms=made.left.written_ms) as broker:
        broker.start()
        broker.stop()
    for path, restarted in zip(ours, reference, strict=True):
        recover(path, now_ms=made.left.written_ms, sibling_directories=ours)
        assert differences(path, restarted) == []


@pytest.mark.parametrize("kind", KINDS)
def test_tidelog_counts_and_serves_what_kafka_serves_and_kafka_goes_on(made: Made, kind: str) -> None:
    with made.kafka(made.copy(kind, f"{kind}-kafka")) as broker:
        broker.start()
        theirs = everything(broker.bootstrap)
        broker.stop()
        counted = {f"{row['topic']}-{row['partition']}": row for row in rows("count", *broker.directories)}
    for level, column in zip(LEVELS, ("records", "committed"), strict=True):
        served = {name: entry["count"] for name, entry in theirs[level].items()}
        assert {name: counted[name][column] for name in PARTITIONS} == served

    broker = made.kafka(made.copy(kind, f"{kind}-tidelog"))
    with serving(broker.work, str(broker.write_properties())) as process:
        process.line_with("serving")
        assert everything(broker.bootstrap) == theirs
        process.send_signal(signal.SIGTERM)
        code, words = process.ended()
        assert code == 0, words
    run("verify", *broker.directories)

    with broker:
        broker.start()
        assert everything(broker.bootstrap) == theirs
        with KafkaTools(broker.bootstrap) as tools:
            assert read_in_share_group(tools, IN_A_SHARE_GROUP) == shared_values(broker.bootstrap)
        broker.stop()


def everything(bootstrap: str) -> dict[str, Any]:
    """Return all data that clients get from a server: records, offsets, settings, users, access control entries."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    found: dict[str, Any] = {level: served_entries(bootstrap, PARTITIONS, isolation=level) for level in LEVELS}
    for group, places in COMMITTED.items():
        asked = ConsumerGroupTopicPartitions(group)
        told = admin.list_consumer_group_offsets([asked])[group].result(PATIENCE_S).topic_partitions
        found[group] = {(place.topic, place.partition): place.offset for place in told}
        assert found[group] == places
    users = admin.describe_user_scram_credentials(sorted(USERS))
    assert isinstance(users, dict)
    found["users"] = {
        name: sorted(
            (str(one.mechanism), one.iterations) for one in users[name].result(PATIENCE_S).scram_credential_infos
        )
        for name in USERS
    }
    found["acls"] = acls_of(admin)
    found["settings"] = {kind.name: set_in(admin, kind, name) for kind, name in SET}
    return found


SET = ((ResourceType.TOPIC, "empty"), (ResourceType.BROKER, "1"))


def set_in(admin: AdminClient, kind: ResourceType, name: str) -> Mapping[str, str]:
    """Return the settings that were made at run time."""
    resource = ConfigResource(kind, name)
    told = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    return {key: entry.value for key, entry in told.items() if entry.source in DYNAMIC}


DYNAMIC = {1, 2}
"""Kafka's numbers for the sources of a topic's own settings and of one broker's."""


def shared_values(bootstrap: str) -> list[str]:
    """Return the values that come next for the share group, as the console shows them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "shared-values", "enable.auto.commit": False})
    try:
        consumer.assign([KafkaPartition("shared", 0, 0)])
        values: list[str] = []
        while len(values) < SHARED_RECORDS:
            for message in consumer.consume(SHARED_RECORDS, timeout=0.5):
                assert message.error() is None
                value = message.value()
                values.append("null" if value is None else value.decode())
    finally:
        consumer.close()
    return [value.strip() for value in values[SHARED_READ : SHARED_READ + IN_A_SHARE_GROUP]]
