"""A stream's position: the next offset of every partition, in the JSON of Spark's Kafka source.

An example is ``{"flights":{"0":23,"1":0},"gates":{"0":5}}``. Topics and partitions are sorted, because Spark compares
offsets as texts. PySpark puts a blank after each colon and comma. A checkpoint that Spark's Kafka source wrote is read
as well. The functions are pure. Source: Spark's ``JsonUtils`` and ``KafkaSourceOffset``.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model import ConfigError, TopicPartition
from tidelog.spark.read.option_text import shown

Offsets = Mapping[TopicPartition, int]
"""The offset of the first record that a stream has not returned yet, by partition."""


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return the object that Spark writes as JSON into its offset log."""
    result: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        result.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return result


def from_json(value: object) -> dict[TopicPartition, int]:
    """Parse the object that Spark passes back. Raise ConfigError if it has another form, as in another source's
    checkpoint."""
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
