"""A broker in the test's own process, which real clients reach at ``bootstrap_servers``.

It runs on an event loop in a background thread. It keeps one port for its life. Its directory is temporary unless one
is given. States::

    new -> start (or ``with``) -> serving -> stop, or kill -> start again, on its old data -> ... -> close

=========  ==========================================================================================================
end        state on disk
=========  ==========================================================================================================
stop       a clean shutdown: logs are flushed and closed, and the marker is written; the next start loads them as they
           are
kill       the state after ``kill -9``: written data is there, but nothing is flushed, closed, trimmed or marked. The
           next start recovers it. Connections end without a response
=========  ==========================================================================================================

Thread rule: any one thread except the loop's. ``call`` and ``run`` reach the loop.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import ClassVar, Self, TypeVar
from uuid import UUID

from tidelog.api import open_directory
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import Isolation, Record, TidelogError, TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.broker_state import BrokerState
from tidelog.server.broker import Broker as Server
from tidelog.server.dispatcher import Dispatcher
from tidelog.server.metadata.requests import NewTopic, Outcome, TopicResult
from tidelog.server.start_settings import EMBEDDED_SETTINGS
from tidelog.testing.broker.faults import Fault, Faults
from tidelog.testing.broker.killable_files import KillableFiles
from tidelog.testing.broker.loop_thread import LoopThread
from tidelog.testing.broker.manual_time import MANUAL_TIME_CONFIGS, ClientTimers, ManualTime, WatchedPool
from tidelog.testing.manual_scheduler import ManualScheduler

_HOST = "127.0.0.1"
_FEW_PARTITIONS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
"""A test has few groups and producers, and each partition costs time for its files."""
_AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}
"""A test would have to wait for each assignment of a consumer group."""

Result = TypeVar("Result")


class Broker:
    _faults: Faults
    server: Server
    """The running broker. Only its loop may look at its state."""
    base_configs: ClassVar[Mapping[str, str]] = {**EMBEDDED_SETTINGS, **_FEW_PARTITIONS, **_AT_ONCE}
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
        self.directory = directory
        self.configs = dict(configs or {})
        self._time = ManualTime() if manual_time else None
        self._place = keep_port()
        self._thread = LoopThread()
        self._files = KillableFiles()
        self._timers: ClientTimers | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, the same after every start."""
        return f"{_HOST}:{self._place.getsockname()[1]}"

    # --- its life ---

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Return when clients are served. Raise ConfigError, or an error from loading the logs."""
        self._files = KillableFiles()
        self.server = self._made()
        self._thread.run(self.server.start)

    def stop(self) -> None:
        """Shut down cleanly. Idempotent."""
        if self._is_running:
            self._thread.run(self.server.stop)
        self._end_timers()

    def kill(self) -> None:
        """End the broker like ``kill -9`` ends a process; see the module."""

        def die() -> None:
            self._files.kill()
            for listener in self.server.listeners:
                listener.close()

        self._thread.call(die)
        with contextlib.suppress(TidelogError):
            self._thread.run(self.server.stop)
        self._end_timers()

    def restart(self, configs: Mapping[str, str] | None = None) -> None:
        """Shut down cleanly and start, with ``configs`` added to the earlier ones."""
        self.stop()
        self.configs |= configs or {}
        self.start()

    def close(self) -> None:
        """Stop for good and remove a temporary directory."""
        try:
            self.stop()
        finally:
            self._thread.stop()
            self._place.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    # --- topics ---

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> UUID:
        """Create a topic for immediate use and return its id. Raise ApiError if it is refused."""
        new = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=configs or {})
        (result,) = self.run(lambda: self.server.metadata.create_topics([new]))
        topic_id = _accepted(result).topic_id
        assert topic_id is not None, "what was made has an id"
        return topic_id

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raise ApiError if there is none."""
        (result,) = self.run(lambda: self.server.metadata.delete_topics([name]))
        _accepted(result)

    def records(self, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[Record]:
        """Return all records of a topic, partition by partition, also while the broker is not running.

        Raise UnknownTopicOrPartitionError if there is no topic of that name.
        """
        with open_directory(self._data, read_only=True) as logs:
            return [
                record
                for partition in logs.partitions(topic)
                for record in logs.log(topic, partition.partition).records(isolation=isolation, until="log_end")
            ]

    # --- faults ---

    def fail_next(self, api: ApiKey, *, error: ErrorCode, times: int = 1, topic: str | None = None) -> None:
        """Fail the next requests of an API, or of an API on a topic, with an error. They are not carried out."""
        self._plan(Fault(api=api, topic=topic, times=times, error=error))

    def delay_next(self, api: ApiKey, *, ms: int, times: int = 1, topic: str | None = None) -> None:
        """Delay the next requests by ``ms`` of the broker's time."""
        self._plan(Fault(api=api, topic=topic, times=times, delay_ms=ms))

    def lose_response(self, api: ApiKey, *, times: int = 1, topic: str | None = None) -> None:
        """Carry out the next requests, and close the connection instead of a response."""
        self._plan(Fault(api=api, topic=topic, times=times, loses_response=True))

    def forget_faults(self) -> None:
        """Drop the faults that no request has met yet."""
        self.call(self._faults.forget)

    @property
    def has_faults(self) -> bool:
        """True if some faults were not met yet."""
        return self._faults.are_planned

    def drop_connections(self, client_id: str | None = None) -> int:
        """Close a client's connections, or all, and return their number."""
        return self.call(lambda: self._faults.drop_connections(client_id))

    def move_leader_epoch(self, topic: str, partition: int = 0) -> None:
        """Raise the leader epoch like an election, so that clients with the old epoch must refresh their metadata.

        Raise ApiError if the partition does not exist.
        """
        outcome = self.run(lambda: self.server.metadata.bump_leader_epoch(TopicPartition(topic, partition)))
        if outcome.is_failure:
            raise ApiError(outcome.error, outcome.message or "")

    # --- time ---

    def advance(self, ms: int) -> None:
        """Let ``ms`` pass, with all due work (retention, timeouts). Raise RuntimeError without ``manual_time``."""
        time, pool = self._time, self.server.pool
        if time is None or not isinstance(pool, WatchedPool):
            raise RuntimeError("this broker goes by the machine's time: make it with manual_time=True")
        self.run(lambda: time.advance(ms, pool))

    # --- its loop ---

    def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """See ``LoopThread.run``."""
        return self._thread.run(work)

    def call(self, function: Callable[[], Result]) -> Result:
        """See ``LoopThread.call``."""
        return self._thread.call(function)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """See ``LoopThread.wait_for``."""
        self._thread.wait_for(is_so)

    # --- inside ---

    @property
    def _is_running(self) -> bool:
        return hasattr(self, "server") and self.server.state is not BrokerState.NOT_RUNNING

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
            server = Server(config, self._dispatcher, fs=self._files)
        else:
            clock = self._time.clock
            self._timers = ClientTimers(clock, self._thread.loop)
            server = Server(
                config,
                self._dispatcher,
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

    def _plan(self, fault: Fault) -> None:
        self.call(lambda: self._faults.plan(fault))

    def _end_timers(self) -> None:
        if self._timers is not None:
            self._timers.shutdown()


def keep_port() -> socket.socket:
    """Reserve a free port on which a broker can listen: the socket is bound and never listens itself."""
    place = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind((_HOST, 0))
    return place


def _accepted(result: TopicResult) -> TopicResult:
    outcome = Outcome(result.error, result.message)
    if outcome.is_failure:
        raise ApiError(outcome.error, outcome.message or "")
    return result
