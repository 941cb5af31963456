"""A broker in the test's own process, which real clients reach at ``bootstrap_servers``.

It is its own controller. Its directory is temporary unless one is given. ``InProcessNode`` has its life, and the faults
of its requests. After ``close`` it cannot start again. Thread rule: any one thread except the loop's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final, Self
from uuid import UUID

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import Isolation, Record, TopicPartition
from tidelog.protocol.errors import ApiError
from tidelog.server.broker import Broker as Server
from tidelog.server.dispatcher import ControllerDispatcher, Dispatcher
from tidelog.server.metadata.requests import NewTopic
from tidelog.server.start_settings import EMBEDDED_SETTINGS
from tidelog.testing.broker.faults import Faults
from tidelog.testing.broker.loop_thread import LoopThread
from tidelog.testing.broker.manual_time import MANUAL_TIME_CONFIGS, ClientTimers, ManualTime, WatchedPool
from tidelog.testing.broker.node import InProcessNode
from tidelog.testing.broker.topics import accepted, stored_records
from tidelog.testing.manual_scheduler import ManualScheduler

QUICK_CONFIGS: Final = {
    # A test has few groups and producers, and each partition costs time for its files.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    # A test would have to wait for each assignment of a consumer group.
    "group.consumer.assignment.interval.ms": "0",
}
"""Settings that save time in every test."""


class Broker(InProcessNode):
    server: Server
    base_configs: ClassVar[Mapping[str, str]] = {**EMBEDDED_SETTINGS, **QUICK_CONFIGS}
    """The settings below ``configs``."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        configs: Mapping[str, str] | None = None,
        manual_time: bool = False,
    ) -> None:
        """``configs`` are a broker's settings by Kafka's keys. With ``manual_time``, only ``advance`` moves time."""
        self._temporary: TemporaryDirectory[str] | None = None
        if directory is None:
            self._temporary = TemporaryDirectory(prefix="tidelog-")
            directory = Path(self._temporary.name)
        super().__init__(directory, configs or {}, LoopThread())
        self._time = ManualTime() if manual_time else None
        self._timers: ClientTimers | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, the same after every start."""
        return self.address

    # --- its life ---

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stop(self) -> None:
        """Shut down cleanly. Idempotent."""
        super().stop()
        self._end_timers()

    def kill(self) -> None:
        """End the broker like ``kill -9`` ends a process; see ``InProcessNode``."""
        super().kill()
        self._end_timers()

    def close(self) -> None:
        """Stop for good and remove a temporary directory."""
        try:
            super().close()
        finally:
            self._thread.stop()
            if self._temporary is not None:
                self._temporary.cleanup()

    # --- topics ---

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> UUID:
        """Create a topic for immediate use and return its id. Raise ApiError if it is refused."""
        new = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=configs or {})
        (result,) = self.run(lambda: self.server.controller.create_topics([new]))
        topic_id = accepted(result).topic_id
        assert topic_id is not None, "what was made has an id"
        return topic_id

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raise ApiError if there is none."""
        (result,) = self.run(lambda: self.server.controller.delete_topics([name]))
        accepted(result)

    def records(self, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[Record]:
        """Return all records of a topic, partition by partition, also while the broker is not running.

        Raise UnknownTopicOrPartitionError if there is no topic of that name.
        """
        return stored_records(self._data, topic, isolation)

    def move_leader_epoch(self, topic: str, partition: int = 0) -> None:
        """Raise the leader epoch like an election, so that clients with the old epoch must refresh their metadata.

        Raise ApiError if the partition does not exist.
        """
        outcome = self.run(lambda: self.server.controller.bump_leader_epoch(TopicPartition(topic, partition)))
        if outcome.is_failure:
            raise ApiError(outcome.error, outcome.message or "")

    # --- time ---

    def advance(self, ms: int) -> None:
        """Let ``ms`` pass, with all due work (retention, timeouts). Raise RuntimeError without ``manual_time``."""
        time, pool = self._time, self.server.pool
        if time is None or not isinstance(pool, WatchedPool):
            raise RuntimeError("this broker goes by the machine's time: make it with manual_time=True")
        self.run(lambda: time.advance(ms, pool))

    # --- inside ---

    @property
    def _data(self) -> Path:
        return Path(BrokerConfig.load(overrides=self._settings).log_dirs[0])

    @property
    def _settings(self) -> dict[str, str]:
        own = {"listeners": f"PLAINTEXT://{self.bootstrap_servers}", "log.dirs": str(self.directory)}
        return {**self.base_configs, **own, **(MANUAL_TIME_CONFIGS if self._time else {}), **self.configs}

    def _made(self) -> Server:
        config = BrokerConfig.load(overrides=self._settings)
        if self._time is None:
            server = Server(config, self._dispatcher, controller_service=ControllerDispatcher, fs=self._files)
        else:
            self._end_timers()  # The earlier broker may have ended by itself.
            clock = self._time.clock
            self._timers = ClientTimers(clock, self._thread.loop)
            server = Server(
                config,
                self._dispatcher,
                controller_service=ControllerDispatcher,
                clock=clock,
                scheduler=ManualScheduler(clock),
                timers=self._timers,
                fs=self._files,
            )
            server.pool = WatchedPool(config.number("num.io.threads"))
        return server

    def _dispatcher(self, server: Server) -> Dispatcher:
        self._faults = Faults(server)
        return Dispatcher(server, self._faults)

    def _end_timers(self) -> None:
        if self._timers is not None:
            self._timers.shutdown()
