"""The topics of a test: the outcome of a change, and the records that brokers have stored."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tidelog.api import open_directory
from tidelog.model import Isolation, Record
from tidelog.protocol.errors import ApiError
from tidelog.server.metadata.requests import Outcome, TopicResult


def accepted(result: TopicResult) -> TopicResult:
    """Return the result of a change of a topic. Raise ApiError if the controller has refused it."""
    outcome = Outcome(result.error, result.message)
    if outcome.is_failure:
        raise ApiError(outcome.error, outcome.message or "")
    return result


def stored_records(
    directory: Path, topic: str, isolation: Isolation, partitions: Collection[int] | None = None
) -> list[Record]:
    """Return the records of a topic in a log directory, partition by partition, up to the log ends.

    ``partitions`` bounds the partitions. Raise UnknownTopicOrPartitionError if the directory has none of the topic.
    """
    with open_directory(directory, read_only=True) as logs:
        return [
            record
            for partition in logs.partitions(topic)
            if partitions is None or partition.partition in partitions
            for record in logs.log(topic, partition.partition).records(isolation=isolation, until="log_end")
        ]
