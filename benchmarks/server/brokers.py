"""The two brokers as processes on empty directories: Kafka's with its usual heap and collector, and tidelog serve.

Both have the settings of the test broker (one node, no delay for groups). All other settings have their defaults.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from real_kafka.broker import Broker
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.headers import write_request_header

KAFKA_THREADS = {"num.network.threads": "3", "num.io.threads": "8", "background.threads": "10"}
"""Kafka's defaults. The broker of the tests has fewer threads."""
SETTINGS = {"log.segment.delete.delay.ms": "1000", "group.initial.rebalance.delay.ms": "0"}
_NO_TOPIC = TopicMetadata()
_REQUEST = write_request_header(ApiKey.API_VERSIONS, 0, 1, None)
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""The variable is removed for our processes, because an installed tidelog has bytecode too."""
_PATIENCE_S = 60
_SERVING = re.compile(r"^serving +PLAINTEXT://([^\s,]+)(?:, SSL://(\S+))?$", re.MULTILINE)
_PAGES = re.compile(r"^pages +(\S+)/$", re.MULTILINE)


class Server(Protocol):
    """A running broker."""

    @property
    def bootstrap(self) -> str: ...
    @property
    def process_id(self) -> int: ...


class TidelogBroker:
    """``tidelog serve`` on ``directory``, with messages in ``directory``.log. Leaving the context ends it."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        more_listeners: str = "",
        arguments: Sequence[str] = (),
    ) -> None:
        """Keep the settings. ``more_listeners`` come after the open listener, ``arguments`` after the settings."""
        self.directory = directory
        self._arguments = arguments
        self._more_listeners = more_listeners
        self._settings = {**SETTINGS, "log.dirs": str(directory), **(settings or {})}
        self._log = directory.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""
        self.tls_bootstrap = ""
        """The address of the listener with TLS, if there is one."""
        self.pages = ""
        """The URL of the pages without a slash at the end, if there are some."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def launch(self, address: str = "127.0.0.1:0") -> None:
        """Start the process without waiting until it serves."""
        listeners = ",".join(filter(None, (f"PLAINTEXT://{address}", self._more_listeners)))
        settings = {**self._settings, "listeners": listeners}
        command = [str(Path(sys.executable).with_name("tidelog")), "serve"]
        for key, value in settings.items():
            command += ["--override", f"{key}={value}"]
        command += self._arguments
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=installed_environment()
            )
        self.bootstrap = address

    def start(self) -> None:
        """Start the process and return when it serves."""
        self.launch()
        deadline = time.monotonic() + _PATIENCE_S
        while (found := _SERVING.search(self._log.read_text())) is None:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker did not start:\n{self._log.read_text()}")
            time.sleep(0.01)
        self.bootstrap, self.tls_bootstrap = found[1], found[2] or ""
        pages = _PAGES.search(self._log.read_text())
        self.pages = "" if pages is None else pages[1]

    def stop(self) -> None:
        """Shut down cleanly, or kill the process after a timeout."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def installed_environment() -> dict[str, str]:
    """Return the environment of a process of tidelog, as if it was installed."""
    return {key: value for key, value in os.environ.items() if key != _NO_BYTECODE}


def kafka_broker(directory: Path, settings: Mapping[str, str] | None = None, *, more_listeners: str = "") -> Broker:
    """Format a broker without starting it. ``more_listeners`` come after the open listener."""
    broker = Broker(
        directory / "data",
        work=directory / "work",
        properties={**KAFKA_THREADS, **SETTINGS, **(settings or {})},
        heap_mib=1024,
        quick=False,
        more_listeners=more_listeners,
    )
    broker.format()
    return broker


def renew_topic(server: Server, topic: str, *, partitions: int = 1) -> None:
    """Replace the topic by an empty one. Return when clients can write to it."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 2})
    if topic in admin.list_topics(timeout=_PATIENCE_S).topics:
        admin.delete_topics([topic])[topic].result(_PATIENCE_S)
        while topic in admin.list_topics(timeout=_PATIENCE_S).topics:
            time.sleep(0.05)
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])[topic].result(_PATIENCE_S)
    while len(admin.list_topics(timeout=_PATIENCE_S).topics.get(topic, _NO_TOPIC).partitions) < partitions:
        time.sleep(0.05)


def is_answered(connection: socket.socket) -> bool:
    """Send ApiVersions, and return True if a response begins."""
    connection.sendall(length_prefix([_REQUEST]) + _REQUEST)
    return bool(connection.recv(4))


def free_address() -> str:
    """Return an address of this machine on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"
