"""``tidelog import --zookeeper``: a directory of a cluster with ZooKeeper keeps everything that the cluster had."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from cli.runner import rows, run
from golden_sets import EVERYTHING, ZOOKEEPER, captured_znodes, footprint
from real_kafka.zookeeper_cluster import COMMITTED, NODE_ID, RECORDS, TOPICS
from served_records import PATIENCE_S, served_entries
from server.harness import KEEPING, running_broker
from server.metadata.zookeeper.znode_trees import MappingReader, captured_tree
from tidelog.api import open_log
from tidelog.security.scram_credential import ScramMechanism
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.metadata_view import read_metadata
from tidelog.server.metadata.zookeeper import kazoo_client
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
from tidelog.server.metadata.zookeeper.znode_tree import Znode
from tidelog.storage.checkpoint import uuid_to_text
from tidelog.storage.fs import LOCAL

GoldenCopy = Callable[..., Path]
ADDRESS = ("--zookeeper", "localhost:2181/kafka")
ORDERS = "/brokers/topics/orders"


@pytest.fixture
def zookeeper(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return ``zookeeper(changes)``, which lets commands read the captured znodes with changed data by path."""

    def serve(changes: Mapping[str, Any] | None = None) -> None:
        class Reader(MappingReader):
            def __init__(self, settings: ZooKeeperSettings) -> None:
                assert str(settings.address) == "localhost:2181/kafka"
                super().__init__(captured_tree(changes).znodes)

            def __enter__(self) -> Reader:
                return self

            def __exit__(self, *_error: object) -> None:
                pass

        monkeypatch.setattr(kazoo_client, "KazooReader", Reader)

    serve()
    return serve


@pytest.fixture
def disks(golden_copy: GoldenCopy) -> tuple[Path, Path]:
    root = golden_copy(ZOOKEEPER, "clean")
    return root / "disk1", root / "disk2"


def image_of(directory: Path) -> MetadataImage:
    view = read_metadata(LOCAL, directory)
    assert view is not None
    return view.image


def state_of(isr: list[int]) -> dict[str, object]:
    return {"version": 1, "leader": isr[0], "leader_epoch": 4, "controller_epoch": 1, "isr": isr}


class TestPlan:
    def test_it_shows_everything_and_writes_nothing(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None]
    ) -> None:
        zookeeper({"/delegation_token/tokens/abc": b"", "/brokers/ids/9": json.loads(broker_json())})
        before = footprint(disks[0].parent)
        found = rows("import", *disks, *ADDRESS)
        assert footprint(disks[0].parent) == before
        kinds = [row["kind"] for row in found]
        assert {kind: kinds.count(kind) for kind in kinds} == {
            "topic": 7,
            "config": 3,
            "user": 4,
            "acl": 11,
            "quota": 10,
            "left_out": 3,
        }
        topics = {row["name"]: row["fields"] for row in found if row["kind"] == "topic"}
        assert {name: fields["topic_id"] for name, fields in topics.items()} == topic_ids()
        assert topics["orders"]["settings"] == TOPICS["orders"][1]
        assert topics["empty"]["settings"] == {}
        assert {(row["name"], row["fields"]["name"].split(" (")[0]) for row in found if row["kind"] == "left_out"} == {
            ("settings that Kafka 4 does not accept", "old-format message.format.version=0.10.2"),
            ("settings that Kafka 4 does not accept", "old-format message.downconversion.enable=false"),
            ("delegation tokens", "abc"),
        }
        text = run("import", *disks, *ADDRESS).output
        for word in (
            "alice",
            "SCRAM-SHA-512",
            "transactional-id",
            "client-id app one",
            "delegation tokens",
            "Brokers 9",
        ):
            assert word in text
        assert not any(secret in text for secret in ("stored_key", "1L/Yh807", "salt"))

    def test_a_running_broker_is_refused_by_apply(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None]
    ) -> None:
        zookeeper({"/brokers/ids/9": json.loads(broker_json())})
        before = footprint(disks[0].parent)
        assert "running brokers (9)" in run("import", *disks, *ADDRESS, "--apply", code=2).stderr
        after = {path: found for path, found in footprint(disks[0].parent).items() if not path.endswith(".lock")}
        assert {path: found for path, found in after.items() if path in before} == before


class TestApply:
    def test_the_metadata_is_that_of_zookeeper(self, disks: tuple[Path, Path], zookeeper: Callable[..., None]) -> None:
        state = Znode(json.dumps(state_of([NODE_ID])).encode(), version=9)
        zookeeper({f"{ORDERS}/partitions/0/state": state})
        run("import", *disks, *ADDRESS, "--apply")
        image = image_of(disks[0])
        assert {name: uuid_to_text(topic.id) for name, topic in image.topics.items()} == topic_ids()
        orders = image.topics["orders"].partitions
        assert len(orders) == 20
        assert (orders[0].leader_epoch, orders[0].partition_epoch) == (4, 9)
        assert (orders[1].leader_epoch, orders[1].partition_epoch) == (0, 0)
        assert {one.replicas for one in orders.values()} == {(NODE_ID,)}
        assert image.settings_of(ResourceType.TOPIC, "orders") == TOPICS["orders"][1]
        assert image.settings_of(ResourceType.BROKER, "")["log.retention.ms"] == "864000000"
        assert image.next_producer_id == 1000
        assert len(image.acls) == 11
        assert len(image.client_quotas) == 9
        assert image.scram_credentials[ScramMechanism.SHA_512]["alice"].iterations == 5000

    def test_the_broker_serves_records_and_committed_offsets(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None]
    ) -> None:
        run("import", *disks, *ADDRESS, "--apply")
        settings = {**{key.replace(".", "_"): value for key, value in KEEPING.items()}, "node_id": str(NODE_ID)}
        with running_broker(disks[0], log_dirs=f"{disks[0]},{disks[1]}", **settings) as home:
            assert not home.call(lambda: home.broker.logs.strays)
            served = served_entries(home.bootstrap, [f"orders-{number}" for number in range(20)])
            assert sum(entry["count"] for entry in served.values()) == RECORDS
            for group, offsets in COMMITTED.items():
                consumer = Consumer({"bootstrap.servers": home.bootstrap, "group.id": group})
                found = consumer.committed([KafkaPartition(*one) for one in offsets], timeout=PATIENCE_S)
                assert {(one.topic, one.partition): one.offset for one in found} == offsets
                consumer.close()

    def test_given_settings_win(self, disks: tuple[Path, Path], zookeeper: Callable[..., None]) -> None:
        run("import", *disks, *ADDRESS, "--topic-config", "orders:retention.ms=5", "--apply")
        assert image_of(disks[0]).settings_of(ResourceType.TOPIC, "orders")["retention.ms"] == "5"
        assert image_of(disks[0]).settings_of(ResourceType.TOPIC, "orders")["compression.type"] == "zstd"

    def test_a_topic_without_an_id_gets_one(self, disks: tuple[Path, Path], zookeeper: Callable[..., None]) -> None:
        zookeeper({"/brokers/topics/empty": {"version": 1, "partitions": {"0": [NODE_ID]}}, "/cluster/id": None})
        (disks[0] / "empty-0" / "partition.metadata").unlink()
        run("import", *disks, *ADDRESS, "--apply")
        assert "topic_id: " in (disks[0] / "empty-0" / "partition.metadata").read_text()


class TestOtherBrokers:
    def test_what_other_brokers_have_is_named(self, disks: tuple[Path, Path], zookeeper: Callable[..., None]) -> None:
        zookeeper(
            {
                "/brokers/topics/far": {"version": 1, "partitions": {"0": [1, 2]}},
                "/brokers/topics/empty": {
                    "version": 3,
                    "partitions": {"0": [NODE_ID, 2]},
                    "adding_replicas": {"0": [2]},
                },
                "/admin/delete_topics/customers": b"",
            }
        )
        shutil.copytree(disks[0] / "empty-0", disks[1] / "gone-0")
        found = rows("import", *disks, *ADDRESS)
        left = {(row["name"], row["fields"]["name"]) for row in found if row["kind"] == "left_out"}
        assert {one for one in left if not one[0].startswith("settings")} == {
            ("topics of other brokers", "far"),
            ("replicas on other brokers", "empty-0 (brokers 2)"),
            ("reassignments under way", "empty-0"),
            ("topics whose deletion is under way", "customers"),
            ("directories that ZooKeeper does not assign to this broker", "gone-0"),
        }
        assert "customers" not in {row["name"] for row in found if row["kind"] == "topic"}

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            (
                {
                    ORDERS: {"version": 3, "partitions": {"0": [NODE_ID], "1": [2, 3]}},
                    f"{ORDERS}/partitions/1/state": state_of([2, 3]),
                },
                "partitions on other brokers only: orders-1 (brokers 2, 3) (while the cluster runs, reassign them",
            ),
            (
                {
                    ORDERS: {"version": 3, "partitions": {"0": [NODE_ID, 2]}},
                    f"{ORDERS}/partitions/0/state": state_of([2]),
                },
                "replicas that are not in sync: orders-0 (in sync: 2) (start the brokers, wait",
            ),
            (
                {ORDERS: {"version": 3, "partitions": {str(number): [NODE_ID] for number in range(27)}}},
                "replicas without a directory: orders-20, orders-21, orders-22, orders-23, orders-24 and 2 more (name",
            ),
            (
                {ORDERS: {"version": 3, "partitions": {"0": [NODE_ID]}, "topic_id": "t-NbPES1R0GOsSfXdqywng"}},
                "directories with another topic id: orders",
            ),
            (
                {"/config/topics/orders": {"version": 1, "config": {"remote.storage.enable": "true"}}},
                "tiered topics: orders",
            ),
        ],
    )
    def test_a_loss_of_records_is_refused(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None], changes: dict[str, Any], words: str
    ) -> None:
        if "t-NbPES1R0GOsSfXdqywng" in str(changes):
            changes = {"/brokers/topics/empty": None, "/brokers/topics/empty/partitions/0/state": None, **changes}
        zookeeper(changes)
        before = footprint(disks[0].parent)
        assert words in run("import", *disks, *ADDRESS, "--apply", code=3).stderr
        assert footprint(disks[0].parent) == before


class TestSource:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"/cluster/id": {"version": "1", "id": "another"}}, "ZooKeeper has the cluster another"),
            ({"/migration": {"version": 0}}, "/migration shows that a migration to KRaft has begun"),
            ({f"/brokers/ids/{NODE_ID}": {}}, f"ZooKeeper has broker {NODE_ID} as running: stop it"),
        ],
    )
    def test_it_must_be_the_directories_own(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None], changes: dict[str, Any], words: str
    ) -> None:
        zookeeper({path: json.loads(broker_json()) if "ids" in path else data for path, data in changes.items()})
        assert words in run("import", *disks, *ADDRESS, code=2).stderr

    def test_an_empty_chroot(self, disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
        class Empty(MappingReader):
            def __init__(self, _settings: ZooKeeperSettings) -> None:
                super().__init__({})

            def __enter__(self) -> Empty:
                return self

            def __exit__(self, *_error: object) -> None:
                pass

        monkeypatch.setattr(kazoo_client, "KazooReader", Empty)
        assert "neither topics nor a cluster id" in run("import", *disks, *ADDRESS, code=2).stderr

    def test_a_chroot_of_other_topics(self, disks: tuple[Path, Path], zookeeper: Callable[..., None]) -> None:
        """A cluster of Kafka before 0.10.1 has no id, so only the topics can tell."""
        for path in disks:
            (path / "meta.properties").write_text(f"version=0\nbroker.id={NODE_ID}\n")
        others = {path: None for path in captured_znodes() if path.startswith(("/brokers/topics/", "/cluster/id"))}
        zookeeper({**others, "/brokers/topics/other": {"version": 1, "partitions": {"0": [1]}}})
        assert "assigns no topic in the directories" in run("import", *disks, *ADDRESS, code=2).stderr

    def test_a_znode_that_is_not_valid(self, disks: tuple[Path, Path], zookeeper: Callable[..., None]) -> None:
        zookeeper({"/kafka-acl/Topic/orders": b"{"})
        assert "znode /kafka-acl/Topic/orders has no valid JSON" in run("import", *disks, *ADDRESS, code=3).stderr

    def test_broker_settings_that_cannot_come_along(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None]
    ) -> None:
        settings = {
            "listener.name.external.ssl.keystore.password": "keyFactory:x,encryptedPassword:secret-bytes",
            "log.message.format.version": "2.0",
            "log.cleaner.threads": "no number",
            "num.io.threads": "3",
            "min.insync.replicas": "2",
        }
        zookeeper({f"/config/brokers/{NODE_ID}": {"version": 1, "config": settings}})
        text = run("import", *disks, *ADDRESS, "--apply").output
        assert "secret-bytes" not in text
        assert "broker 7 listener.name.external.ssl.keystore.password" in text
        assert "broker 7 min.insync.replicas (KIP-966" in text
        assert image_of(disks[0]).settings_of(ResourceType.BROKER, "7") == {"num.io.threads": "3"}

    def test_topics_that_need_more_replicas_are_named(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None]
    ) -> None:
        settings = {"version": 1, "config": {"min.insync.replicas": "2"}}
        zookeeper({"/config/topics/orders": settings})
        assert "acks=all to orders will fail" in run("import", *disks, *ADDRESS).output
        zookeeper({"/config/brokers/<default>": settings})
        assert "empty, old-format, orders, with.dots" in run("import", *disks, *ADDRESS).output
        zookeeper()
        assert "acks=all" not in run("import", *disks, *ADDRESS).output

    def test_the_config_needs_an_address(self, disks: tuple[Path, Path], tmp_path: Path) -> None:
        (tmp_path / "c").write_text("")
        assert "needs --zookeeper" in run("import", *disks, "--zookeeper-config", tmp_path / "c", code=2).stderr


def topic_ids() -> dict[str, str]:
    return {
        path.rpartition("/")[2]: json.loads(one["data"])["topic_id"]
        for path, one in captured_znodes().items()
        if path.startswith("/brokers/topics/") and path.count("/") == 3
    }


def broker_json() -> str:
    return '{"version":2,"timestamp":"1","endpoints":["PLAINTEXT://h:1"]}'


class TestSettingsOfOtherCommands:
    def test_a_plan_of_compaction_has_the_topics_settings(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None]
    ) -> None:
        def compacted(*options: str) -> set[str]:
            found = rows("compact", *disks, "--no-check", *options)
            return {row["topic"] for row in found if row["settings_from"]["cleanup.policy"] == "topic"}

        assert compacted() == set()
        assert compacted(*ADDRESS) == {"customers", "__consumer_offsets", "__transaction_state"}
        assert "cluster metadata in ZooKeeper" in run("compact", *disks, *ADDRESS, "--no-check").output

    def test_retention_has_the_topics_settings(self, disks: tuple[Path, Path], zookeeper: Callable[..., None]) -> None:
        found = {row["topic"]: row for row in rows("retention", disks[0], "orders-1", "customers-0", *ADDRESS)}
        assert found["orders"]["settings_from"]["retention.ms"] == "topic"
        assert (found["customers"]["retention_ms"], found["customers"]["cleanup_policy"]) == (864000000, ["compact"])
        assert "cluster metadata in ZooKeeper" in run("retention", *disks, *ADDRESS).output

    def test_recovery_writes_the_indexes_of_the_topics_settings(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None]
    ) -> None:
        """A smaller ``index.interval.bytes`` makes more entries."""
        with open_log(disks[0] / "orders-1") as log:
            for _ in range(20):
                log.append(bytes(1000))
        for path in disks:
            (path / ".kafka_cleanshutdown").unlink()
        shutil.copytree(disks[0], disks[0].with_name("other"))
        run("recover", *disks, *ADDRESS, "--apply")
        run("recover", disks[0].with_name("other"), "--apply")
        both = disks[0], disks[0].with_name("other")
        sizes = [(path / "orders-1" / f"{0:020}.index").stat().st_size for path in both]
        assert sizes[0] > 2 * sizes[1] > 0

    def test_roles_of_several_brokers_replicas(self, disks: tuple[Path, Path], zookeeper: Callable[..., None]) -> None:
        other = disks[1].with_name("other")
        shutil.copytree(disks[0], other)
        (other / "meta.properties").write_text((other / "meta.properties").read_text().replace("id=7", "id=8"))
        zookeeper(
            {
                ORDERS: {"version": 1, "partitions": {str(number): [7, 8] for number in range(20)}},
                f"{ORDERS}/partitions/1/state": state_of([8, 7]),
                f"{ORDERS}/partitions/3/state": state_of([7]),
            }
        )
        found = rows("info", disks[0], other, *ADDRESS)
        roles = {(row["node_id"], row["partition"]): row["role"] for row in found if row["topic"] == "orders"}
        assert [roles[node, number] for number in (1, 3) for node in (7, 8)] == [
            "in sync",
            "leader",
            "leader",
            "out of sync",
        ]
        assert "those of ZooKeeper" in run("info", disks[0], other, *ADDRESS).output

    def test_a_warning_names_settings_without_effect(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None]
    ) -> None:
        assert "old-format: message.format.version=0.10.2" in run("recover", *disks, *ADDRESS).stderr

    def test_a_directory_of_another_cluster_is_refused(
        self, disks: tuple[Path, Path], zookeeper: Callable[..., None]
    ) -> None:
        zookeeper({"/cluster/id": {"version": "1", "id": "another"}})
        assert "ZooKeeper has another" in run("recover", *disks, *ADDRESS, code=2).stderr

    def test_a_directory_with_metadata_of_its_own_is_refused(
        self, golden_copy: GoldenCopy, zookeeper: Callable[..., None]
    ) -> None:
        directory = golden_copy(EVERYTHING["4.4"], "clean")
        assert "has cluster metadata of its own" in run("compact", directory, *ADDRESS, code=2).stderr
