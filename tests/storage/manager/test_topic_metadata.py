"""Leaders and in-sync replicas in the engine's reading of the metadata are those of the broker's image."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_maker import change_of, state_of, write_metadata
from conftest import GoldenFactory
from golden_sets import KRAFT_SETS
from log_maker import batch
from tidelog.kernel import crc32c
from tidelog.model import TopicPartition
from tidelog.server.metadata.kraft.metadata_view import read_metadata
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.metadata.topic_metadata import read_topic_metadata

CHANGES = [
    change_of("t", 0, leader=2),
    change_of("t", 0, isr=[2, 3]),
    change_of("t", 1, leader=-1, isr=[]),
    change_of("t", 2, replicas=[3, 2], isr=[3]),
]


def check(path: Path) -> int:
    """Compare both readings, and return the number of partitions."""
    view, found = read_metadata(LOCAL, path), read_topic_metadata(LOCAL, path)
    assert view is not None
    states = {TopicPartition(topic.name, number): state for topic, number, state in view.image.partitions()}
    assert found.replicas == {partition: state.replicas for partition, state in states.items()}
    assert found.in_sync == {partition: state.isr for partition, state in states.items()}
    assert found.leaders == {partition: state.leader for partition, state in states.items() if state.has_leader}
    assert (found.end_offset, found.epoch) == (view.end_offset, view.epoch)
    return len(states)


@pytest.mark.parametrize("count", range(len(CHANGES) + 1))
def test_changes_of_partitions(tmp_path: Path, count: int) -> None:
    topics = {"t": {number: state_of(1, 2, 3) for number in range(3)}, "u": {0: state_of(1, leader=-1)}}
    write_metadata(tmp_path, topics, CHANGES[:count])
    assert check(tmp_path) == 4


@pytest.mark.parametrize("name", KRAFT_SETS)
@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_real_brokers_metadata(golden: GoldenFactory, name: str, kind: str) -> None:
    assert check(golden(name, kind)) > 10


def test_records_that_cannot_be_read_end_the_reading(tmp_path: Path) -> None:
    """The CRC of their batch is valid."""
    write_metadata(tmp_path, {"t": {0: state_of(1)}})
    log = tmp_path / "__cluster_metadata-0" / f"{0:020}.log"
    end = read_topic_metadata(LOCAL, tmp_path).end_offset
    added = bytearray(batch(end, [b"value"]))
    added[61] = 0x7E  # the record claims more bytes than there are
    added[17:21] = crc32c(bytes(added[21:])).to_bytes(4, "big")
    log.write_bytes(log.read_bytes() + added)
    found = read_topic_metadata(LOCAL, tmp_path)
    assert list(found.replicas) == [TopicPartition("t", 0)]
    assert found.end_offset == end + 1
