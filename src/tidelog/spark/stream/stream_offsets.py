"""Where a stream is: the next offset of every partition, in the JSON of Spark's Kafka source.

``{"flights":{"0":23,"1":0},"gates":{"0":5}}``: topics and partitions in order, so that equal offsets are equal texts,
by which Spark compares them. (PySpark puts a blank behind each colon and comma; a checkpoint that Spark's Kafka source
wrote is read as well.) Pure. Called by: the stream reader. Source: Spark's ``JsonUtils`` and ``KafkaSourceOffset``.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model import ConfigError, TopicPartition
from tidelog.spark.read.option_text import shown

Offsets = Mapping[TopicPartition, int]
"""The offset of the first record that a stream has not given yet, by partition."""


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """What Spark is handed: it writes the object as JSON into its offset log."""
    result: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        result.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return result


def from_json(value: object) -> dict[TopicPartition, int]:
    """What Spark hands back; ConfigError where that is no such object: the checkpoint is of another source."""
    if not isinstance(value, dict):
        raise _foreign(value)
    result: dict[TopicPartition, int] = {}
    for topic, numbers in value.items():
        if not isinstance(numbers, dict):
            raise _foreign(value)
        for partition, offset in numbers.items():
            is_number = isinstance(partition, str) and partition.isascii() and partition.isdecimal()
            if not is_number or not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
                raise _foreign(value)
            result[TopicPartition(topic, int(partition))] = offset
    return result


def _foreign(value: object) -> ConfigError:
    return ConfigError(f'The checkpoint\'s offsets are not like {{"topicA":{{"0":23}}}}: {shown(value)}')
