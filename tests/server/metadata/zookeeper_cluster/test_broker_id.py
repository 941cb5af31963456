"""Broker ids from log directories and from ZooKeeper's sequence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from real_kafka.zookeeper_cluster import ZooKeeperServer
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ZooKeeperError
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.operations import Create, Operation, ReadZnode, SetData, ZnodeConflictError
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
from tidelog.server.metadata.zookeeper_cluster.broker_id import find_broker_id, next_in_sequence
from tidelog.storage.fs import LOCAL

SEQUENCE = "/brokers/seqid"


class Znodes:
    """Znodes with versions. ``others`` change ``/brokers/seqid`` so often between a read and the commit after it."""

    def __init__(self, versions: dict[str, int], others: int = 0) -> None:
        self.versions = versions
        self._others = others

    async def read(self, paths: Sequence[str]) -> list[ReadZnode | None]:
        found = [self.versions.get(path) for path in paths]
        if self._others:
            self._others -= 1
            self.versions |= {"/brokers": 0, SEQUENCE: self.versions.get(SEQUENCE, -1) + 1}
        return [None if version is None else ReadZnode(b"", version, 0, 0, 0) for version in found]

    async def commit(self, operations: Sequence[Operation]) -> list[str | None]:
        for operation in operations:
            if isinstance(operation, Create):
                if operation.path in self.versions:
                    raise ZnodeConflictError(operation, "NodeExistsError")
                self.versions[operation.path] = 0
            else:
                assert isinstance(operation, SetData)
                if self.versions[operation.path] != operation.version:
                    raise ZnodeConflictError(operation, "BadVersionError")
                self.versions[operation.path] += 1
        return [None] * len(operations)


@pytest.mark.parametrize(
    ("versions", "others", "expected"),
    [
        ({}, 0, 1),
        ({"/brokers": 0}, 0, 1),
        ({"/brokers": 0, SEQUENCE: 0}, 0, 1),
        ({"/brokers": 0, SEQUENCE: 4}, 0, 5),
        ({"/brokers": 0, SEQUENCE: 4}, 3, 8),
        ({}, 3, 3),
    ],
)
def test_the_sequence_goes_on(versions: dict[str, int], others: int, expected: int) -> None:
    znodes = Znodes(versions, others)
    assert asyncio.run(next_in_sequence(znodes)) == expected
    assert znodes.versions[SEQUENCE] == expected


def test_a_stored_id_needs_no_zookeeper(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1003\n")
    settings = ZooKeeperSettings(address=ZooKeeperAddress.parse("127.0.0.1:1"))
    assert found_id(tmp_path, settings) == 1003


def test_zookeeper_is_away(tmp_path: Path) -> None:
    settings = ZooKeeperSettings(address=ZooKeeperAddress.parse("127.0.0.1:1"), timeout_ms=100)
    with pytest.raises(ZooKeeperError, match="did not accept a session"):
        found_id(tmp_path, settings)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.mark.kafka
def test_zookeeper_generates_ids(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    settings = ZooKeeperSettings(address=ZooKeeperAddress.parse(f"{zookeeper.address}/new/chroot"), timeout_ms=60_000)
    assert [found_id(tmp_path, settings) for _ in range(3)] == [1001, 1002, 1003]


def found_id(directory: Path, settings: ZooKeeperSettings) -> int:
    keys = {"zookeeper.connect": str(settings.address), "log.dirs": str(directory)}
    return asyncio.run(find_broker_id(BrokerConfig.load(overrides=keys), settings, LOCAL))
