"""A short test with Kafka 4.1.0: its tools on our broker, and a directory that both servers serve in turns.

The cluster keeps the features of 4.1, so no server may write data that only a later release reads.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from real_kafka.broker import PATIENCE_S, Broker
from real_kafka.java import OLDER
from real_kafka.kafka_tools import KafkaTools
from served_records import served_entries
from server.server_process import serving
from tidelog.testing.broker.kept_port import keep_port

pytestmark = pytest.mark.kafka

RELEASE = OLDER[1]
METADATA_VERSION = "4.1-IV1"
SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
RECORDS = 30
"""The number of plain records a turn. A committed and an aborted transaction each have as many."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Make Kafka's broker without starting it. Its properties file starts our server too."""
    with ExitStack() as places:
        one, other = (places.enter_context(keep_port()).getsockname()[1] for _ in range(2))
        made = Broker(
            tmp_path / "data", work=tmp_path / "work", properties=SETTINGS, ports=(one, other), release=RELEASE
        )
        with made:
            yield made


@contextmanager
def kafka(broker: Broker) -> Iterator[str]:
    broker.start()
    yield broker.bootstrap
    broker.stop()


@contextmanager
def ours(broker: Broker) -> Iterator[str]:
    with serving(broker.work, str(broker.write_properties())) as process:
        process.line_with("serving")
        yield broker.bootstrap
        process.send_signal(signal.SIGTERM)
        code, words = process.ended()
        assert code == 0, words


@pytest.mark.parametrize(
    "order",
    [
        pytest.param((kafka, ours, kafka), id="kafka first"),
        pytest.param((ours, kafka, ours), id="ours first", marks=pytest.mark.slow),
    ],
)
def test_one_directory_is_served_in_turns(broker: Broker, order: tuple[object, ...]) -> None:
    broker.format()
    for turn, server in enumerate(order):
        with server(broker) as bootstrap, KafkaTools(bootstrap, release=RELEASE) as tools:  # type: ignore[operator]
            assert METADATA_VERSION in "".join(tools.told("kafka-features", "describe"))
            if turn == 0:
                tools.told("kafka-topics", "--create", "--topic", "t", "--partitions", "1")
            write(bootstrap, turn)
            for protocol in ("classic", "consumer"):
                values = consumed(tools, protocol)
                assert values == [f"{kind} {turn} {number}" for kind in ("plain", "kept") for number in range(RECORDS)]
            entry = served_entries(bootstrap, ["t-0"], isolation="read_committed")["t-0"]
            assert entry["count"] == (turn + 1) * 2 * RECORDS


def write(bootstrap: str, turn: int) -> None:
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True}
    producer = Producer(settings)
    for number in range(RECORDS):
        producer.produce("t", f"plain {turn} {number}".encode())
    assert producer.flush(PATIENCE_S) == 0
    producer = Producer({**settings, "transactional.id": "writer"})
    producer.init_transactions(PATIENCE_S)
    for kind in ("kept", "dropped"):
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce("t", f"{kind} {turn} {number}".encode())
        assert producer.flush(PATIENCE_S) == 0
        (producer.commit_transaction if kind == "kept" else producer.abort_transaction)(PATIENCE_S)


def consumed(tools: KafkaTools, protocol: str) -> list[str]:
    """Return the records that a group of this protocol has not read yet, with Kafka's console consumer."""
    return tools.told(
        "kafka-console-consumer",
        *("--topic", "t", "--group", protocol, "--from-beginning", "--max-messages", str(2 * RECORDS)),
        *("--timeout-ms", "120000", "--consumer-property", f"group.protocol={protocol}"),
        *("--consumer-property", "isolation.level=read_committed"),
    )
