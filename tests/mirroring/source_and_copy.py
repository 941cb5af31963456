"""A broker as the source, a mirror of it in this process, and the comparison of both directories byte for byte."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.model.address import parse_servers
from tidelog.kernel import scan_batches
from tidelog.mirroring.blocking import run_mirror
from tidelog.mirroring.planning.options import MirrorOptions
from tidelog.mirroring.run.mirror_run import RunEnvironment
from tidelog.mirroring.run.progress import MirrorProgress, MirrorResult
from tidelog.testing import Broker

PATIENCE_S = 60
KEEPING = {"log.retention.ms": "-1"}


def options(broker: Broker, copy: Path, **changes: Any) -> MirrorOptions:
    """Return options whose waits are short."""
    return MirrorOptions(
        **{
            "directory": copy,
            "source": ClientSettings(bootstrap=parse_servers("servers", [broker.bootstrap_servers])),
            "metadata_interval_ms": 200,
            "settings_interval_ms": 200,
            "retry_backoff_ms": 50,
            "fetch_max_wait_ms": 50,
            **changes,
        }
    )


def produce(
    broker: Broker,
    topic: str,
    values: Iterable[bytes],
    *,
    partition: int = 0,
    key: bytes | None = None,
    config: Mapping[str, str] | None = None,
) -> None:
    """Produce values and wait until they are stored."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **(config or {})})
    failures: list[object] = []

    def note(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    for value in values:
        producer.produce(topic, value, key=key, partition=partition, on_delivery=note)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert not failures


def batches(directory: Path, partition: str) -> dict[int, bytes]:
    """Return the batches of all segments by base offset."""
    found = {}
    for path in sorted((directory / partition).glob("*.log")):
        data = path.read_bytes()
        table = scan_batches(data, verify_crc=True)
        for position, size, base in zip(table.position, table.size, table.base_offset, strict=True):
            found[int(base)] = data[int(position) : int(position) + int(size)]
    return found


def assert_equal(source: Path, copy: Path, *partitions: str) -> None:
    """Compare all batches of the partitions."""
    for partition in partitions:
        expected, found = batches(source, partition), batches(copy, partition)
        assert list(found) == list(expected), partition
        assert found == expected, partition


class Following:
    """A mirror that follows in a background thread. Leaving the context stops it and keeps its ``result``."""

    def __init__(self, chosen: MirrorOptions, environment: RunEnvironment | None = None) -> None:
        self.events: list[str] = []
        self.progress: MirrorProgress | None = None
        self.result: MirrorResult | None = None
        self.error: BaseException | None = None
        self._chosen = chosen
        self._environment = environment
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the mirror did not stop"
        if error is None and self.error is not None:
            raise self.error

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Return when the condition holds. Raise the mirror's error if it ends before."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            if self.error is not None:
                raise self.error
            assert time.monotonic() < deadline, (self.events, self.progress)
            time.sleep(0.01)

    def wait_until_equal(self, source: Path, copy: Path, *partitions: str) -> None:
        """Return when the copy has all batches of each partition."""

        def is_equal() -> bool:
            try:
                return all(batches(copy, one) == batches(source, one) != {} for one in partitions)
            except FileNotFoundError:
                return False  # the directory was renamed while it was read

        self.wait(is_equal)

    def _run(self) -> None:
        def note(progress: MirrorProgress) -> None:
            self.progress = progress

        try:
            self.result = run_mirror(
                self._chosen,
                on_progress=note,
                on_event=self.events.append,
                stop=self._stop,
                environment=self._environment,
            )
        except BaseException as error:
            self.error = error
