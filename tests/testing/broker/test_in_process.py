"""The in-process broker: its life, its topics, and its files after each kind of end."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tidelog.model import ConfigError, StorageError, UnknownTopicOrPartitionError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.testing import Broker
from tidelog.testing.broker.loop_thread import PATIENCE_S

MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def produce(broker: Broker, *values: bytes, topic: str = "t") -> None:
    """Produce the values, and return when they are acknowledged."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _message: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert not failures


def values(broker: Broker, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def test_what_a_client_produces_is_in_its_records(broker: Broker) -> None:
    broker.create_topic("t", partitions=2, configs={"retention.ms": "12345"})
    produce(broker, b"one", b"two")
    assert sorted(record.value or b"" for record in broker.records("t")) == [b"one", b"two"]
    assert broker.call(lambda: broker.server.logs.config_of("t").retention_ms) == 12345


def test_a_topic_that_is_refused_is_an_error(broker: Broker) -> None:
    broker.create_topic("t")
    with pytest.raises(ApiError) as raised:
        broker.create_topic("t")
    assert raised.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    broker.delete_topic("t")
    with pytest.raises(ApiError):
        broker.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartitionError):
        broker.records("t")


def test_an_orderly_stop_leaves_the_marker_and_a_restart_the_records_and_the_address(broker: Broker) -> None:
    address = broker.bootstrap_servers
    broker.create_topic("t")
    produce(broker, b"one")
    broker.stop()
    assert (broker.directory / MARKER).exists()
    assert values(broker) == [b"one"], "not serving"
    broker.restart({"num.partitions": "3"})
    assert broker.bootstrap_servers == address
    produce(broker, b"two")
    assert values(broker) == [b"one", b"two"]
    assert broker.server.config.number("num.partitions") == 3


def test_a_kill_leaves_what_was_written_and_nothing_that_an_end_writes(broker: Broker) -> None:
    broker.create_topic("t")
    produce(broker, b"one")
    home = broker.directory / "t-0"
    before = {path.name: path.stat().st_size for path in home.iterdir()}
    broker.kill()
    assert not (broker.directory / MARKER).exists()
    assert {path.name: path.stat().st_size for path in home.iterdir()} == before, "nothing is trimmed or snapshot"
    broker.start()
    assert values(broker) == [b"one"]
    produce(broker, b"two")
    assert values(broker) == [b"one", b"two"]


def test_a_kill_and_a_stop_of_what_does_not_run_are_no_errors(broker: Broker) -> None:
    broker.kill()
    broker.kill()
    broker.stop()
    broker.start()
    broker.stop()
    broker.stop()


def fail_disk(broker: Broker) -> None:
    """Let every later write fail, like a disk that is gone."""
    error = StorageError("the disk is gone", path=broker.directory)
    error.__cause__ = OSError(errno.EIO, "Input/output error")
    logs = broker.server.logs

    def fail() -> None:
        logs._directories.note_failure(error)
        logs.handle_failures()

    broker.call(fail)


@pytest.mark.parametrize("manual_time", [False, True])
def test_a_broker_without_a_log_directory_ends_by_itself(*, manual_time: bool) -> None:
    with Broker(manual_time=manual_time) as broker:
        broker.create_topic("t")
        produce(broker, b"one")
        failures = [broker.failure]
        fail_disk(broker)
        broker.wait_for(lambda: not broker.is_running)
        failures.append(broker.failure)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", broker.own_port), timeout=PATIENCE_S)
        broker.stop()
        broker.start()
        assert broker.is_running
        assert [*failures, broker.failure] == [None, "every log directory has failed", None]
        produce(broker, b"two")
        assert values(broker) == [b"one", b"two"]


@pytest.mark.parametrize("end", [Broker.stop, Broker.kill])
def test_a_broker_that_ends_by_itself_ends_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[Broker], None]
) -> None:
    broker = Broker(tmp_path)
    broker.start()
    stop, stops = broker.server.stop, []

    async def counted(**options: bool) -> None:
        stops.append(options)
        await stop(**options)

    monkeypatch.setattr(broker.server, "stop", counted)
    fail_disk(broker)
    end(broker)
    assert stops == [{}]
    assert not broker.is_running
    broker.close()


def test_a_given_directory_stays_and_a_temporary_one_goes(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        assert (tmp_path / "data" / "meta.properties").exists()
    assert (tmp_path / "data" / MARKER).exists()
    with Broker() as broker:
        directory = broker.directory
    assert not directory.exists()


def test_a_mistake_in_the_settings_is_an_error_and_leaves_nothing() -> None:
    broker = Broker(configs={"process.roles": "controller"})
    with pytest.raises(ConfigError, match=r"process\.roles"), broker:
        pass
    assert not broker.directory.exists()


def test_time_that_is_not_held_cannot_be_moved(broker: Broker) -> None:
    with pytest.raises(RuntimeError, match="manual_time"):
        broker.advance(1)


def test_it_is_ready_without_what_it_takes_to_read_records_as_tables() -> None:
    script = """
import sys
import tidelog.testing.pytest_plugin
assert not {"numpy", "asyncio", "tidelog.server"} & set(sys.modules)
from tidelog.testing import Broker
with Broker():
    assert not {"pyarrow", "hypothesis", "pytest"} & set(sys.modules) - set(before)
"""
    script = script.replace("import sys\n", "import sys\nimport pytest\nbefore = list(sys.modules)\n", 1)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
