"""The broker's event loop never waits for a disk, because everything else would wait too.

Clients do a little of everything, and each wait is recorded with its thread.
"""

from __future__ import annotations

import threading
import traceback
from pathlib import Path
from typing import Any

import pytest

from server.data.data_home import DataHome, records
from server.groups.group_broker import GroupBroker, group_broker
from server.harness import BrokerHome
from tidelog.protocol.api_key import ApiKey
from tidelog.storage.fs.local import LocalFileSystem
from tidelog.storage.fs.local_file import LocalFile


class Waits:
    """The waits on the event loop, each with its stack."""

    def __init__(self, home: BrokerHome, monkeypatch: pytest.MonkeyPatch) -> None:
        self._loop = home.call(threading.get_ident)
        self.elsewhere = 0
        self.on_the_loop: list[str] = []
        for owner, name in ((LocalFile, "sync"), (LocalFileSystem, "sync_dir")):
            monkeypatch.setattr(owner, name, self._watched(getattr(owner, name)))

    def _watched(self, wait: Any) -> Any:
        def watched(*args: Any) -> Any:
            if threading.get_ident() == self._loop:
                self.on_the_loop.append("".join(traceback.format_stack(limit=12)))
            else:
                self.elsewhere += 1
            return wait(*args)

        return watched


def topics_come_and_go(data: DataHome) -> None:
    topic = {"name": "u", "num_partitions": 5, "replication_factor": 1}
    made = data.client.call(ApiKey.CREATE_TOPICS, topics=[topic], timeout=60_000)
    assert made.topics[0].error_code == 0
    change = {"name": "retention.ms", "config_operation": 0, "value": "1000000"}
    resource = {"resource_type": 2, "resource_name": "u", "configs": [change]}
    altered = data.client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource])
    assert altered.responses[0].error_code == 0
    more = {"name": "u", "count": 7, "assignments": None}
    assert data.client.call(ApiKey.CREATE_PARTITIONS, topics=[more], timeout=60_000).results[0].error_code == 0
    gone = data.client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "u", "topic_id": None}], timeout=60_000)
    assert gone.responses[0].error_code == 0


def records_come_and_go(data: DataHome) -> None:
    data.create("t", 2, segment_bytes="1048576")
    data.create("forced", flush_messages="1")
    for number in (0, 1):
        for _ in range(3):
            data.append(b"x" * 600_000, topic="t", number=number)
    assert data.produce(records(b"a" * 100), acks=1).error_code == 0
    data.append(b"b", topic="forced")
    assert data.fetch("t", 1).error_code == 0
    data.home.run(lambda: data.home.broker.controller.bump_leader_epoch(data.partition().topic_partition))
    data.append(b"in the next epoch")
    part = {"partition_index": 0, "offset": -1}
    deleted = data.client.call(ApiKey.DELETE_RECORDS, topics=[{"name": "t", "partitions": [part]}], timeout=60_000)
    assert deleted.topics[0].partitions[0].error_code == 0


def groups_and_transactions(data: DataHome, groups: GroupBroker) -> None:
    groups.stable_member()
    assert groups.commit(1, group_id="alone") == 0
    found = data.client.call(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=["x"]).coordinators[0]
    assert found.error_code == 0
    given = data.client.call(ApiKey.INIT_PRODUCER_ID, transactional_id="x", transaction_timeout=60_000)
    assert given.error_code == 0
    producer = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    batch = records(b"in it", attributes=0x10, sequence=0, **producer)
    assert data.produce(batch, transactional_id="x", version=12).error_code == 0
    ended = data.client.call(ApiKey.END_TXN, transactional_id="x", committed=True, **producer)
    assert ended.error_code == 0


def test_nothing_on_the_loop_waits_for_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with group_broker(tmp_path) as groups:
        data = DataHome(groups.harness, groups.client)
        waits = Waits(groups.harness, monkeypatch)
        topics_come_and_go(data)
        records_come_and_go(data)
        groups_and_transactions(data, groups)
        assert waits.elsewhere
        assert not waits.on_the_loop, "\n".join(waits.on_the_loop)
