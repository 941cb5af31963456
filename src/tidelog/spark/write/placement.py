"""The choice of each row's partition: the row's own, else its key's, else round robin.

================================  =====================================================================================
a row                             goes to
================================  =====================================================================================
with a ``partition``              that partition
with a key, even an empty one     the partition that the Java client's default partitioner chooses for the key (murmur2)
with neither                      the client fills one partition with ``batch.size`` bytes, then another one at random;
                                  a task here fills partition (task number) modulo (number of partitions), then the next
================================  =====================================================================================

So the same rows in the same tasks go to the same partitions. Each task has its own ``Placement``. Source: Kafka's
``BuiltInPartitioner`` (KIP-480, KIP-794).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog import kernel
from tidelog.kernel import RecordColumns
from tidelog.model import ConfigError, InvalidRecordError, TopicPartition
from tidelog.record.arrow import from_arrow
from tidelog.spark.write.topic_layout import TopicLayouts
from tidelog.spark.write.write_options import WriteOptions

_OF_RECORD = ("key", "value", "headers")


class Placement:
    """``task`` is the number of the task in its job."""

    def __init__(self, options: WriteOptions, layouts: TopicLayouts, task: int) -> None:
        self._options = options
        self._layouts = layouts
        self._task = task
        self._keyless_bytes: Counter[str] = Counter()

    def by_partition(self, rows: pa.Table) -> Iterator[tuple[TopicPartition, pa.Table]]:
        """Yield the records of each partition, at least one, in row sequence, with columns key, value and headers.

        Raise ConfigError for a row without a topic or with an illegal one. Raise UnknownTopicOrPartitionError, or
        InvalidRecordError for a record without a key in a compacted topic.
        """
        for topic, part in self._by_topic(rows):
            records = part.select([name for name in part.column_names if name in _OF_RECORD])
            numbers = self._partitions(topic, part)
            for number, chosen in _groups(numbers):
                partition = TopicPartition(topic, number)
                self._layouts.require(partition)
                yield partition, records if chosen is None else records.take(chosen)

    def _by_topic(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        if self._options.topic is not None:
            yield self._options.topic, rows
            return
        named = rows.column("topic").combine_chunks().dictionary_encode()
        if named.null_count:
            raise ConfigError("A row has no topic: name the topic of all rows with the option 'topic'")
        topics = named.dictionary.to_pylist()
        for number, chosen in _groups(named.indices.to_numpy(zero_copy_only=False)):
            yield topics[number], rows if chosen is None else rows.take(chosen)

    def _partitions(self, topic: str, rows: pa.Table) -> npt.NDArray[np.int32]:
        columns = from_arrow(rows.select([name for name in ("key", "value") if name in rows.column_names]))
        numbers = self._unless_given(topic, columns)
        if "partition" not in rows.column_names:
            return numbers
        given = rows.column("partition").combine_chunks()
        is_given = given.is_valid().to_numpy(zero_copy_only=False)
        return np.where(is_given, given.fill_null(0).to_numpy(zero_copy_only=False), numbers)

    def _unless_given(self, topic: str, columns: RecordColumns) -> npt.NDArray[np.int32]:
        layout = self._layouts.of(topic)
        has_key = np.zeros(len(columns), np.bool_) if columns.key_valid is None else columns.key_valid
        if layout.config.is_compacted and not has_key.all():
            raise InvalidRecordError(f"topic {topic} is compacted: it takes no record without a key")
        in_turn = self._in_turn(topic, columns, ~has_key)
        if columns.key_data is None or columns.key_offsets is None:
            return in_turn
        by_key = kernel.partition_keys(columns.key_data, columns.key_offsets, layout.partition_count)
        return np.where(has_key, by_key, in_turn)

    def _in_turn(self, topic: str, columns: RecordColumns, is_keyless: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
        """Return each row's partition in the task's rotation, by the bytes of keyless values so far."""
        assert columns.value_offsets is not None
        sizes = np.where(is_keyless, np.diff(columns.value_offsets), 0)
        ends = np.cumsum(sizes, dtype=np.int64) + self._keyless_bytes[topic]
        self._keyless_bytes[topic] = int(ends[-1])
        turns = (ends - sizes) // self._options.batch_bytes + self._task
        return (turns % self._layouts.of(topic).partition_count).astype(np.int32)


def _groups(numbers: npt.NDArray[np.int32]) -> Iterator[tuple[int, npt.NDArray[np.int64] | None]]:
    """Yield each number that occurs, with its places, or None for everywhere. There is at least one number."""
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), None
        return
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, starts[1:]), strict=True)
