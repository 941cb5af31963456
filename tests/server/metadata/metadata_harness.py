"""The embedded metadata of one node on a simulated disk with a manual clock, for tests that restart it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import TidelogError
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.server.configs.changes import ChangeKind, SettingChange
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata, ClusterMetadataSetup
from tidelog.server.metadata.requests import NewTopic
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from tidelog.storage.fs import FileSystem
from tidelog.testing import ManualClock, ManualScheduler, SimulatedDisk

Arguments = ParamSpec("Arguments")
T = TypeVar("T")
DATA = Path("/data")
NOW_MS = 1_700_000_000_000
METADATA = DATA / "__cluster_metadata-0"


class MetadataHarness:
    """``settings`` contains Kafka's keys."""

    def __init__(
        self, fs: FileSystem | None = None, settings: dict[str, str] | None = None, *, node_id: int = 1
    ) -> None:
        self.fs = SimulatedDisk() if fs is None else fs
        self.node_id = node_id
        self.settings = {"log.dirs": str(DATA), **(settings or {})}
        self.clock = ManualClock(NOW_MS)
        self.scheduler = ManualScheduler(self.clock)
        self.scheduler.startup()
        self.failures: list[TidelogError] = []
        self.epoch: int | None = None
        """The broker epoch of the last run with a clean shutdown."""

    def made(self) -> ClusterMetadata:
        return ClusterMetadata(
            ClusterMetadataSetup(
                fs=self.fs,
                config=BrokerConfig.load(overrides=self.settings),
                node_id=self.node_id,
                directories=[Path(path) for path in self.settings["log.dirs"].split(",")],
                clock=self.clock,
                scheduler=self.scheduler,
                in_thread=at_once,
                on_failure=self.failures.append,
            )
        )

    async def started(self) -> ClusterMetadata:
        """Start the metadata up to the broker's registration."""
        metadata = self.made()
        metadata.format()
        metadata.load()
        await metadata.start()
        return metadata

    async def joined(self) -> ClusterMetadata:
        """Start the metadata and register the broker."""
        metadata = await self.started()
        await self.register(metadata)
        return metadata

    async def register(self, metadata: ClusterMetadata) -> None:
        directories = [self.directory_id(Path(path)) for path in self.settings["log.dirs"].split(",")]
        await metadata.register_broker(
            [BrokerEndpoint("PLAINTEXT", "localhost", 9092)], directories, previous_epoch=self.epoch
        )
        self.epoch = None

    def directory_id(self, path: Path = DATA) -> Any:
        properties = MetaProperties.read(self.fs, path / META_PROPERTIES_FILE)
        assert properties is not None
        return properties.directory_id

    async def stop(self, metadata: ClusterMetadata) -> None:
        """Stop with a clean shutdown."""
        await metadata.leave()
        self.epoch = metadata.broker_epoch
        await metadata.close()


def at_once(function: Callable[Arguments, T], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Awaitable[T]:
    """Run the function immediately instead of in a background thread."""
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    try:
        done.set_result(function(*args, **kwargs))
    except BaseException as error:
        done.set_exception(error)
    return done


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on a new event loop."""
    return asyncio.run(work())


async def create(metadata: ClusterMetadata, *names: str, partitions: int = 1) -> None:
    results = await metadata.create_topics([NewTopic(name=name, partitions=partitions) for name in names])
    assert [result.error for result in results] == [ErrorCode.NONE] * len(names), results


def setting(key: str, value: str | None) -> SettingChange:
    return SettingChange(key, ChangeKind.DELETE if value is None else ChangeKind.SET, value)


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)
