"""The choice of a fetcher for a partition, and of the versions of requests between brokers."""

from __future__ import annotations

import pytest

from tidelog.model import TopicPartition
from tidelog.server.replicas.fetcher_manager import fetcher_number
from tidelog.server.replicas.request_versions import fetch_version, list_offsets_version


@pytest.mark.parametrize(
    ("topic", "partition", "expected"),
    [
        ("t", 0, 4),
        ("t", 7, 3),
        ("orders", 0, 5),
        ("orders", 7, 6),
        ("__consumer_offsets", 0, 7),
        ("__consumer_offsets", 7, 0),
        ("payments.eu-west-1", 0, 1),
        ("payments.eu-west-1", 7, 0),
        ("ünïcode", 0, 2),
        ("ünïcode", 7, 3),
        ("a-rather-long-topic-name-0123456789", 0, 1),
        ("a-rather-long-topic-name-0123456789", 7, 2),
    ],
)
def test_a_partition_has_kafkas_fetcher(topic: str, partition: int, expected: int) -> None:
    """The numbers are those of Java's hash, for 8 fetchers."""
    assert fetcher_number(TopicPartition(topic, partition), 8) == expected


def test_metadata_version_chooses_the_version_of_fetch() -> None:
    levels = {7: 13, 8: 13, 9: 14, 10: 15, 18: 15, 19: 16, 20: 16, 21: 17, 26: 17, 27: 18, 33: 18}
    assert {level: fetch_version(level) for level in levels} == levels


def test_metadata_version_chooses_the_version_of_list_offsets() -> None:
    levels = {7: 7, 8: 7, 9: 8, 20: 8, 21: 9, 24: 9, 25: 10, 28: 10, 29: 11, 33: 11}
    assert {level: list_offsets_version(level) for level in levels} == levels
