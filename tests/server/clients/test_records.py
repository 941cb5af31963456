"""Records of real clients are received as they were sent, with every library and codec."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from server.clients.adapters import ADAPTERS, Adapter, Sent
from tidelog.testing import ApiKey, Broker

RECORDS = [
    Sent(b"value"),
    Sent(b"value", b"key"),
    Sent(None, b"key with nothing"),
    Sent(b"", b""),
    Sent(b"with headers", None, (("a", b"1"), ("a", b"2"), ("b", b""))),
    Sent(b"much " * 2000, timestamp=1_700_000_000_001),
]


def each_codec() -> list[Any]:
    return [
        pytest.param(adapter, codec, id=f"{adapter.name}-{codec}") for adapter in ADAPTERS for codec in adapter.codecs
    ]


def each_library() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)


@pytest.mark.parametrize(("adapter", "codec"), each_codec())
def test_records_come_back_as_they_were_sent(broker: Broker, topic: str, adapter: Adapter, codec: str) -> None:
    servers = broker.bootstrap_servers
    assert adapter.produce(servers, topic, RECORDS, compression_type=codec) == list(range(len(RECORDS)))
    for reader in ADAPTERS:
        if codec in reader.codecs:
            assert reader.consume(servers, topic, len(RECORDS)) == RECORDS, reader.name


@each_library()
def test_records_of_a_partition_keep_their_order(broker: Broker, topic: str, adapter: Adapter) -> None:
    sent = [Sent(b"%d" % number, partition=number % 2) for number in range(400)]
    adapter.produce(broker.bootstrap_servers, topic, sent)
    for partition in (0, 1):
        assert adapter.consume(broker.bootstrap_servers, topic, 200, partition) == sent[partition::2]
        assert adapter.consume(broker.bootstrap_servers, topic, 50, partition, 150) == sent[partition::2][150:]


@each_library()
def test_an_idempotent_producer_whose_answers_are_lost_doubles_nothing(
    broker: Broker, topic: str, adapter: Adapter
) -> None:
    idempotent = {"enable_idempotence": True, "retry_backoff_ms": 10}
    broker.lose_response(ApiKey.PRODUCE, times=2, topic=topic)
    sent = [Sent(b"%d" % number) for number in range(50)]
    assert adapter.produce(broker.bootstrap_servers, topic, sent, **idempotent) == list(range(50))
    assert not broker.has_faults
    assert [record.value for record in broker.records(topic)] == [one.value for one in sent]


@each_library()
def test_a_producer_goes_on_after_a_new_epoch_and_a_restart(broker: Broker, topic: str, adapter: Adapter) -> None:
    for number, between in enumerate((None, partial(broker.move_leader_epoch, topic), broker.restart)):
        if between is not None:
            between()
        assert adapter.produce(broker.bootstrap_servers, topic, [Sent(b"%d" % number)]) == [number]
    assert [one.value for one in adapter.consume(broker.bootstrap_servers, topic, 3)] == [b"0", b"1", b"2"]
