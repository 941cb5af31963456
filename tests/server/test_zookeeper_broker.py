"""``tidelog serve`` with a real ZooKeeper: its start, the id that ZooKeeper generates, and its clients' view."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from log_maker import plain
from real_kafka.zookeeper_cluster import ZooKeeperServer
from server.harness import WireClient
from server.server_process import ANY_PORT, ServerProcess, served, serving
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.security.password_encoder import decode_password
from tidelog.server.authorization.authorizer import ZOOKEEPER_AUTHORIZER
from tidelog.server.handlers.zookeeper_registry import ZOOKEEPER_APIS
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.kazoo_client import KazooReader
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
from tidelog.server.metadata.zookeeper.znodes import StateZnode, TopicZnode
from tidelog.storage.checkpoint import MetaProperties, uuid_to_text
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing.broker.loop_thread import PATIENCE_S
from web.harness import Served

pytestmark = pytest.mark.kafka

_CHROOT = "/new/chroot"
_PASSWORD = "listener.name.inside.ssl.keystore.password"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@contextmanager
def broker(
    zookeeper: ZooKeeperServer, directory: Path, *, chroot: str = _CHROOT, **settings: str
) -> Iterator[tuple[ServerProcess, WireClient]]:
    with served(directory, zookeeper_connect=zookeeper.address + chroot, **settings) as (process, client):
        yield process, client
        process.send_signal(signal.SIGTERM)
        assert process.ended()[0] == 0


def node_id_of(client: WireClient) -> int:
    (node,) = client.call(ApiKey.METADATA, topics=[]).brokers
    return int(node.node_id)


def test_zookeeper_generates_the_id_and_the_directory_keeps_it(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    with broker(zookeeper, tmp_path) as (_, client):
        first = node_id_of(client)
        cluster_id = client.call(ApiKey.METADATA, topics=[]).cluster_id
    assert first > 1000
    written = MetaProperties.parse((tmp_path / "tidelog-data" / "meta.properties").read_bytes())
    assert (written.version, written.node_id, written.cluster_id) == (0, first, cluster_id)
    with broker(zookeeper, tmp_path) as (_, client):
        assert node_id_of(client) == first
    (tmp_path / "other").mkdir()
    with broker(zookeeper, tmp_path / "other") as (_, client):
        assert node_id_of(client) == first + 1
        assert client.call(ApiKey.METADATA, topics=[]).cluster_id == cluster_id


def test_clients_see_the_apis_and_keys_of_a_broker_with_zookeeper(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    with broker(zookeeper, tmp_path, broker_id="7") as (_, client):
        versions = client.call(ApiKey.API_VERSIONS, 4, client_software_name="tests", client_software_version="1.0")
        assert {row.api_key for row in versions.api_keys} == set(ZOOKEEPER_APIS.groups)
        assert list(versions.finalized_features) == []
        resources = [{"resource_type": 4, "resource_name": "7", "configuration_keys": None}]
        (found,) = client.call(ApiKey.DESCRIBE_CONFIGS, resources=resources).results
        values = {config.name: config.value for config in found.configs}
        assert values["zookeeper.connect"] == zookeeper.address + _CHROOT
        assert values["broker.id"] == values["node.id"] == "7"


def test_zookeeper_has_passwords_encrypted(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    """A broker without the secret refuses them."""
    change = {"name": _PASSWORD, "config_operation": 0, "value": "swordfish"}

    def alter(client: WireClient) -> int:
        resources = [{"resource_type": 4, "resource_name": "7", "configs": [change]}]
        (result,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources, validate_only=False).responses
        return int(result.error_code)

    with broker(zookeeper, tmp_path, broker_id="7") as (_, client):
        assert alter(client) == ErrorCode.INVALID_CONFIG
    with broker(zookeeper, tmp_path, broker_id="7", password_encoder_secret="encoder-secret") as (_, client):
        assert alter(client) == ErrorCode.NONE
        settings = ZooKeeperSettings(address=ZooKeeperAddress.parse(zookeeper.address + _CHROOT))
        with KazooReader(settings) as reader:
            (znode,) = reader.read(["/config/brokers/7"])
    assert znode is not None
    stored = json.loads(znode.data)["config"]
    assert decode_password(stored[_PASSWORD], "encoder-secret") == "swordfish"


def test_a_directory_of_another_broker_is_refused(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    data = tmp_path / "tidelog-data"
    data.mkdir()
    (data / "meta.properties").write_text("version=0\nbroker.id=9\n")
    connect = f"zookeeper.connect={zookeeper.address}{_CHROOT}"
    process = ServerProcess(tmp_path, *_overrides(connect, "broker.id=8"))
    code, text = process.ended()
    assert code == 2
    assert "Stored node id 9 doesn't match previous node id 8" in text


def test_a_broker_that_is_to_stop_does_not_wait_for_zookeeper(tmp_path: Path) -> None:
    keys = ("zookeeper.connect=127.0.0.1:1", "zookeeper.connection.timeout.ms=50000", "broker.id=8")
    process = ServerProcess(tmp_path, *_overrides(*keys))
    deadline = time.monotonic() + PATIENCE_S
    while not any("Connecting to ZooKeeper at 127.0.0.1:1" in line for line in process.lines):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.ended()[0] == 0


def test_logs_that_are_older_than_topic_ids_are_served(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    """A broker before Kafka 2.8 left the records, and znodes without an id (KIP-516)."""
    data = tmp_path / "tidelog-data"
    request = OpenRequest(
        fs=LOCAL, directory=data / "old-0", clock=SYSTEM_CLOCK, config=LogConfig(), clean_shutdown=True
    )
    data.mkdir()
    (data / "meta.properties").write_text("version=0\nbroker.id=7\n")
    log = PartitionLog.open(request)
    log.append(bytearray(plain(0, 3)))
    log.close()
    assert not (data / "old-0" / "partition.metadata").exists()
    client = KazooClient(hosts=zookeeper.address)
    client.start()
    try:
        client.create("/old/brokers/topics/old", b'{"version":1,"partitions":{"0":[7]}}', makepath=True)
        state = StateZnode(leader=7, leader_epoch=0, controller_epoch=1, isr=(7,))
        client.create("/old/brokers/topics/old/partitions/0/state", state.encode(), makepath=True)
        with broker(zookeeper, tmp_path, chroot="/old", broker_id="7") as (_, wire):
            wanted = [{"name": "old", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
            (topic,) = wire.call(ApiKey.LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=wanted).topics
            assert (topic.partitions[0].error_code, topic.partitions[0].offset) == (ErrorCode.NONE, 3)
        found, _ = client.get("/old/brokers/topics/old")
    finally:
        client.stop()
        client.close()
    topic_id = TopicZnode.decode("", found).topic_id
    assert topic_id is not None
    assert f"topic_id: {uuid_to_text(topic_id)}" in (data / "old-0" / "partition.metadata").read_text()


def test_only_an_authorizer_makes_the_znodes_of_acls(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    def names() -> set[str]:
        with KazooReader(ZooKeeperSettings(address=ZooKeeperAddress.parse(zookeeper.address + chroot))) as reader:
            (found,) = reader.list_children(["/"])
        return set(found)

    chroot = "/acls"
    with broker(zookeeper, tmp_path, chroot=chroot, broker_id="7"):
        assert "kafka-acl" not in names()
    authorizer = {"authorizer_class_name": ZOOKEEPER_AUTHORIZER, "super_users": "User:ANONYMOUS"}
    with broker(zookeeper, tmp_path, chroot=chroot, broker_id="7", **authorizer):
        assert "kafka-acl" in names()


def test_zookeeper_is_away(tmp_path: Path) -> None:
    keys = ("zookeeper.connect=127.0.0.1:1", "zookeeper.connection.timeout.ms=100", "broker.id=8")
    process = ServerProcess(tmp_path, *_overrides(*keys))
    code, text = process.ended()
    assert code == 3
    assert "ZooKeeper at 127.0.0.1:1 did not accept a session within 0.1 s: is it running" in text
    assert not (tmp_path / "tidelog-data").exists()


def _overrides(*keys: str) -> list[str]:
    """Return the arguments that set keys of a broker at a free port."""
    return [word for key in ("listeners=PLAINTEXT://127.0.0.1:0", *keys) for word in ("--override", key)]


def test_the_pages_of_a_broker_with_zookeeper(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    settings = {"listeners": ANY_PORT, "zookeeper.connect": zookeeper.address + "/pages"}
    overrides = [word for key, text in settings.items() for word in ("--override", f"{key}={text}")]
    with serving(tmp_path, *overrides, "--web", "127.0.0.1:0") as process:
        pages = Served(process.line_with("pages").split()[1].rstrip("/"))
        with WireClient(process.port) as client:
            node_id = node_id_of(client)
            facts = pages.ready("/broker.json").json["facts"]
        assert (facts["metadata"], facts["roles"], facts["state"]) == ("ZooKeeper", ["broker"], "running")
        assert facts["controller_id"] == node_id
        assert facts["controller_epoch"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.ended()[0] == 0
