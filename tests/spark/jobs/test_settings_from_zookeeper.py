"""Spark's commands take the settings of topics from ZooKeeper, like the commands of one process."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from cli.runner import rows, run
from golden_sets import ZOOKEEPER
from server.metadata.zookeeper.znode_trees import MappingReader, captured_mapping
from tidelog.api import open_log
from tidelog.server.metadata.zookeeper import kazoo_client
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ADDRESS = ("--zookeeper", "localhost:2181/kafka")
ZSTD = b"\x28\xb5\x2f\xfd"
"""The first bytes of a zstd frame. ``orders`` has the setting ``compression.type=zstd``."""


class CapturedReader(MappingReader):
    """A reader of the golden znodes."""

    def __init__(self, _settings: ZooKeeperSettings) -> None:
        super().__init__(captured_mapping())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass


@pytest.fixture(autouse=True)
def zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kazoo_client, "KazooReader", CapturedReader)


@pytest.fixture
def disk(golden_copy: Callable[..., Path]) -> Path:
    return golden_copy(ZOOKEEPER, "clean") / "disk1"


def test_compact(spark: SparkSession, disk: Path) -> None:
    def reason(*options: str) -> str:
        found = rows("spark", "compact", disk, "--topic", "customers", "--no-check", *options)
        return str(found[0]["reason"])

    assert reason() == "cleanup.policy has no compact"
    assert "cleanup.policy" not in reason(*ADDRESS)


def test_recover(spark: SparkSession, disk: Path) -> None:
    """``orders`` has a smaller ``index.interval.bytes``, and so more index entries."""
    sizes = {}
    for topic in ("orders-1", "customers-0"):
        with open_log(disk / topic) as log:
            for _ in range(20):
                log.append(bytes(1000), key=b"k")
    (disk / ".kafka_cleanshutdown").unlink()
    run("spark", "recover", disk, "--apply", *ADDRESS)
    for topic in ("orders-1", "customers-0"):
        sizes[topic] = (disk / topic / f"{0:020}.index").stat().st_size
    assert sizes["orders-1"] > 2 * sizes["customers-0"] > 0


@pytest.mark.parametrize(("options", "is_compressed"), [((), False), (ADDRESS, True)])
def test_restore(spark: SparkSession, tmp_path: Path, options: tuple[str, ...], is_compressed: bool) -> None:
    now = datetime.datetime(2026, 1, 1)  # noqa: DTZ001 - Spark's own time zone
    schema = "topic string, partition int, offset long, timestamp timestamp, value binary"
    records = [("orders", 0, offset, now, bytearray(1000)) for offset in range(50)]
    spark.createDataFrame(records, schema).write.parquet(str(tmp_path / "table"))
    run("spark", "restore", tmp_path / "table", tmp_path / "data", "--apply", *options)
    data = (tmp_path / "data" / "orders-0" / f"{0:020}.log").read_bytes()
    assert (ZSTD in data) == is_compressed
