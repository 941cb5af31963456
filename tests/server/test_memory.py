"""A broker's memory while clients read nothing, or announce much and send little, and another client is served.

200 clients request far more than their sockets can buffer, and do not read. 50 clients announce 100 MB and send them
byte by byte. ``make soak`` runs this for five minutes.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from log_maker import BASE_TIME, batch
from server.harness import WireClient
from server.server_process import ServerProcess, served
from tidelog.protocol.api_key import ApiKey

MEBIBYTE = 1 << 20
MOST_BYTES = 256 * MEBIBYTE
READERS, ANNOUNCERS, ASKED_AHEAD = 200, 50, 20
BATCHES, BATCH_BYTES = 40, 900_000
LAST_BY_NAME = 12
"""The last version of Produce and Fetch that contains topic names."""


def produce(client: WireClient, data: bytes) -> int:
    """Return the first record's offset."""
    topics = [{"name": "t", "partition_data": [{"index": 0, "records": data}]}]
    answer = client.call(ApiKey.PRODUCE, LAST_BY_NAME, acks=-1, timeout=60_000, topic_data=topics)
    part = answer.responses[0].partition_responses[0]
    assert part.error_code == 0
    offset: int = part.base_offset
    return offset


def ask(client: WireClient, offset: int, most_bytes: int) -> int:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": most_bytes}
    topics = [{"topic": "t", "partitions": [partition]}]
    values = {"max_wait": 0, "min_bytes": 1, "max_bytes": most_bytes, "session_epoch": -1, "topics": topics}
    return client.send(ApiKey.FETCH, LAST_BY_NAME, **values)


def fetch(client: WireClient, offset: int) -> bytes:
    """Return the batch at an offset and the data after it."""
    answer = client.receive(ApiKey.FETCH, LAST_BY_NAME, ask(client, offset, MEBIBYTE))
    data: bytes = answer.responses[0].partitions[0].records
    return data


def hold_out(process: ServerProcess, client: WireClient, seconds: float) -> int:
    """Return the broker's highest memory usage during this time, in bytes."""
    new = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    assert client.call(ApiKey.CREATE_TOPICS, topics=[new], timeout=60_000).topics[0].error_code == 0
    first = batch(0, [b"x" * BATCH_BYTES], timestamp=BASE_TIME)
    for _ in range(BATCHES):
        produce(client, first)
    readers = [WireClient(client.port) for _ in range(READERS)]
    announcers = [WireClient(client.port) for _ in range(ANNOUNCERS)]
    try:
        for reader in readers:
            for _ in range(ASKED_AHEAD):
                ask(reader, 0, BATCHES * MEBIBYTE)
        for announcer in announcers:
            announcer.socket.sendall(struct.pack(">i", 100_000_000))
        most, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            for announcer in announcers:
                announcer.socket.sendall(b"\0")
            assert len(fetch(client, produce(client, first))) >= BATCH_BYTES
            most = max(most, process.memory_bytes)
        return most
    finally:
        for one in (*readers, *announcers):
            one.close()


def test_readers_that_do_not_read_and_sizes_that_are_not_kept(tmp_path: Path) -> None:
    with served(tmp_path) as (process, client):
        assert hold_out(process, client, seconds=1) < MOST_BYTES


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_readers_that_do_not_read_for_five_minutes(tmp_path: Path) -> None:
    settings = {
        "log_segment_bytes": "67108864",
        "log_retention_ms": "-1",
        "log_retention_bytes": "134217728",
        "log_retention_check_interval_ms": "1000",
        "log_segment_delete_delay_ms": "1000",
    }
    with served(tmp_path, **settings) as (process, client):
        assert hold_out(process, client, seconds=300) < MOST_BYTES
