"""The name of a partition and of its directory. Source: Kafka's ``TopicPartition`` and ``Topic``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Self

from tidelog.model.errors import DirectoryError

_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NUMBER = re.compile(r"[0-9]{1,10}")
_INT = range(2**31)
"""The numbers of partitions. Kafka reads a directory's name with ``Integer.parseInt``."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    @classmethod
    def from_directory_name(cls, name: str) -> Self:
        """Parse ``topic-partition``. Raise DirectoryError if the name does not have that form."""
        topic, dash, number = name.rpartition("-")
        if not dash or _NUMBER.fullmatch(number) is None or int(number) not in _INT or not is_legal_topic(topic):
            raise DirectoryError(f"'{name}' is not a partition directory: its name should be TOPIC-PARTITION")
        return cls(topic, int(number))

    @property
    def directory_name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        return self.directory_name


def is_legal_topic(topic: str) -> bool:
    return topic not in (".", "..") and _LEGAL_TOPIC.fullmatch(topic) is not None


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return sorted topics with sorted partition numbers."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics
