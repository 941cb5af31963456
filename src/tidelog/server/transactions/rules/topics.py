"""Partitions grouped by topic, as records and messages list them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.model import TopicPartition


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return sorted topics with sorted partition numbers."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics
