"""A broker is killed right after it created many topics: the next start finds their logs and serves them.

Each round creates topics in the same directory. The kill comes after the response, or while the logs are created: some
directories then lack their ``partition.metadata``, or do not exist yet.
"""

from __future__ import annotations

import signal
import time
import uuid
from pathlib import Path

import pytest

from server.harness import WireClient
from server.server_process import ANY_PORT, ServerProcess, serving
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.fs import LOCAL
from tidelog.testing.broker.loop_thread import PATIENCE_S

LISTENS = ("--override", f"listeners={ANY_PORT}")


@pytest.mark.parametrize("waits", [True, False], ids=["answered", "under way"])
@pytest.mark.parametrize(
    ("topics", "rounds"), [(100, 2), pytest.param(1000, 10, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_no_log_is_set_aside_or_made_anew(tmp_path: Path, topics: int, rounds: int, waits: bool) -> None:
    data = tmp_path / "tidelog-data"
    made: set[str] = set()
    for number in range(rounds):
        with serving(tmp_path, *LISTENS) as process:
            check_start(process, data, made)
            create(process, data, [f"round-{number}-{index}" for index in range(topics)], waits=waits)
            process.kill()
        made = {path.name for path in data.glob("round-*")}
    with serving(tmp_path, *LISTENS) as process:
        ids = check_start(process, data, made)
        process.send_signal(signal.SIGTERM)
        assert process.ended()[0] == 0
    assert len(ids) == topics * rounds
    written = {name: PartitionMetadata.read(LOCAL, data / f"{name}-0" / PARTITION_METADATA_FILE) for name in ids}
    assert {name: found and found.topic_id for name, found in written.items()} == ids


def test_ids_of_empty_logs_are_written_soon(tmp_path: Path) -> None:
    data = tmp_path / "tidelog-data"
    with serving(tmp_path, *LISTENS) as process:
        create(process, data, [f"round-0-{index}" for index in range(20)], waits=True)
        deadline = time.monotonic() + PATIENCE_S
        while len(list(data.glob(f"round-*/{PARTITION_METADATA_FILE}"))) < 20:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def check_start(process: ServerProcess, data: Path, made: set[str]) -> dict[str, uuid.UUID]:
    """Return the ids of all topics by name. ``made`` contains the log directories that the last process left."""
    with WireClient(process.port) as client:
        topics = client.call(ApiKey.METADATA, topics=None).topics
        names = {f"{topic.name}-0" for topic in topics}
        asked = [
            {"name": topic.name, "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]}
            for topic in topics
        ]
        answered = client.call(ApiKey.LIST_OFFSETS, 5, replica_id=-1, isolation_level=0, topics=asked).topics
    assert {(part.error_code, part.offset) for topic in answered for part in topic.partitions} <= {(0, 0)}
    assert {path.name for path in data.glob("round-*")} == names >= made
    assert [line for line in process.lines if " INFO " not in line and " tidelog." in line] == []
    anew = [line for line in process.lines if "Created log for partition" in line]
    assert len(anew) == len(names - made)
    return {topic.name: topic.topic_id for topic in topics}


def create(process: ServerProcess, data: Path, names: list[str], *, waits: bool) -> None:
    """Create topics and return when all exist. If not ``waits``, a third of the directories is enough."""
    version = VERSIONS[ApiKey.CREATE_TOPICS].latest
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []} for name in names
    ]
    with WireClient(process.port) as client:
        before = len(list(data.glob("round-*")))
        sent = client.send(ApiKey.CREATE_TOPICS, version, topics=topics, timeout=60_000, validate_only=False)
        if waits:
            answered = client.receive(ApiKey.CREATE_TOPICS, version, sent).topics
            assert {topic.error_code for topic in answered} == {0}
            return
        deadline = time.monotonic() + PATIENCE_S
        while len(list(data.glob("round-*"))) < before + len(names) // 3:
            assert time.monotonic() < deadline
            time.sleep(0.001)
