"""Topics are deleted during produce requests, delayed fetches and slow reads."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from server.data.data_home import DataHome, records
from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.testing.broker.loop_thread import PATIENCE_S

GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER)
PARTITIONS = 3
MEBIBYTE = 1 << 20


class Busy(threading.Thread):
    """A client that repeats its step until ``finish``, which raises the step's failure."""

    def __init__(self, data: DataHome, name: str) -> None:
        super().__init__(name=name)
        self.failure: BaseException | None = None
        self.client = data.home.client()
        self.data = data
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                self.step()
        except BaseException as error:
            self.failure = error
        finally:
            self.client.close()

    def step(self) -> None:
        raise AssertionError(self.name)

    def finish(self) -> None:
        self.is_over.set()
        self.join(PATIENCE_S)
        assert not self.is_alive(), self.name
        if self.failure is not None:
            raise self.failure


class Producing(Busy):
    def step(self) -> None:
        for number in range(PARTITIONS):
            answer = self.data.produce(records(b"x" * 50_000), number=number, client=self.client)
            assert answer.error_code in (0, *GONE), answer


class Waiting(Busy):
    """Delayed fetches from partitions that are deleted meanwhile."""

    def step(self) -> None:
        offsets = {("t", number): 0 for number in range(PARTITIONS)}
        answer = self.data.fetch_many(offsets, client=self.client, max_wait=50, min_bytes=1 << 30, max_bytes=1 << 30)
        assert answer.error_code == 0
        for topic in answer.responses:
            for part in topic.partitions:
                assert part.error_code in (0, *GONE, ErrorCode.OFFSET_OUT_OF_RANGE), part


class InSession(Busy):
    """Fetches in a session that still contains deleted topics."""

    session_id = epoch = 0

    def step(self) -> None:
        offsets = {("t", number): 0 for number in range(PARTITIONS)} if self.epoch == 0 else {}
        answer = self.data.fetch_many(
            offsets, client=self.client, max_wait=20, session_id=self.session_id, session_epoch=self.epoch
        )
        assert answer.error_code == 0
        self.session_id, self.epoch = answer.session_id, self.epoch + 1 if answer.session_id else 0


class Asking(Busy):
    def step(self) -> None:
        parts = [{"partition_index": number, "timestamp": -1} for number in range(PARTITIONS)]
        answer = self.client.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": "t", "partitions": parts}])
        assert {part.error_code for part in answer.topics[0].partitions} <= {0, *GONE}
        cut = [{"partition_index": number, "offset": -1} for number in range(PARTITIONS)]
        answer = self.client.call(ApiKey.DELETE_RECORDS, topics=[{"name": "t", "partitions": cut}], timeout=1000)
        assert {part.error_code for part in answer.topics[0].partitions} <= {0, *GONE, ErrorCode.KAFKA_STORAGE_ERROR}


def delete_and_make_again(data: DataHome, rounds: int, caplog: pytest.LogCaptureFixture) -> None:
    data.create(partitions=PARTITIONS)
    busy = [kind(data, kind.__name__) for kind in (Producing, Waiting, InSession, Asking)]
    for one in busy:
        one.start()
    try:
        for _ in range(rounds):
            gone = data.client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t", "topic_id": None}], timeout=60_000)
            assert gone.responses[0].error_code == 0
            data.create(partitions=PARTITIONS)
            data.append(b"first")
    finally:
        for one in busy:
            one.is_over.set()
    for one in busy:
        one.finish()
    ours = [record for record in caplog.records if record.name.startswith("tidelog")]
    assert not [record for record in ours if record.levelno >= logging.ERROR]


def test_nobody_is_thrown_out_when_a_topic_goes(data: DataHome, caplog: pytest.LogCaptureFixture) -> None:
    delete_and_make_again(data, 10, caplog)


@pytest.mark.slow
def test_nobody_is_thrown_out_when_topics_go_for_long(data: DataHome, caplog: pytest.LogCaptureFixture) -> None:
    delete_and_make_again(data, 500, caplog)


def test_a_slow_reader_gets_all_of_a_topic_whose_files_are_removed_meanwhile(
    data: DataHome,
) -> None:
    """File descriptors are not reused while a response is sent from them."""
    data.create(max_message_bytes=str(32 * MEBIBYTE))
    content = os.urandom(16 * MEBIBYTE)
    data.append(content)
    log = data.home.call(lambda: data.partition().log)
    with WireClient(data.home.port) as slow:
        version, sent = data.send_fetch({("t", 0): 0}, client=slow, partition_max_bytes=1 << 30, max_bytes=1 << 30)
        data.home.wait_for(
            lambda: any(
                one.state == "writing" for listener in data.home.broker.listeners for one in listener.connections
            )
        )
        data.delete()
        log.delete()
        assert not log.directory.exists()
        answer = slow.receive(ApiKey.FETCH, version, sent)
    assert content in bytes(answer.responses[0].partitions[0].records)
