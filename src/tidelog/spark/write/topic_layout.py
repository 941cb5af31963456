"""The layout of topics before a write: their partitions and settings in the log directory.

==============================================  =======================================================================
the topic                                       its number of partitions
==============================================  =======================================================================
is in the cluster metadata                      the number there; partitions of other brokers are not written to
has partitions in the directory                 up to the highest one there, at least the option ``numPartitions``
is new                                          the option ``numPartitions``
==============================================  =======================================================================

So the number does not decrease after a crash that leaves only some partitions of a new topic, and keys stay in their
partitions. Settings are those of the cluster metadata over Kafka's defaults, as for the commit.

The driver reads the layouts when a write is planned, and sends them to its tasks. Reading changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tidelog.model import ConfigError, TopicPartition, UnknownTopicOrPartitionError
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.model.topic_partition import is_legal_topic
from tidelog.spark.write.write_options import WriteOptions
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from tidelog.storage.fs import FileSystem
from tidelog.storage.index import TimeIndexReader
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.manager.metadata.topic_metadata import read_topic_metadata

T = TypeVar("T")

_LEAST_BATCH_BYTES = 68
"""The size of a batch with one empty record. A batch has at most one index entry, however small the interval is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLayout:
    partition_count: int
    config: LogConfig = field(default_factory=LogConfig)
    missing: frozenset[int] = frozenset()
    """The partitions created when the topic is written to: none for topics of the cluster metadata."""
    elsewhere: frozenset[int] = frozenset()
    """The partitions that only other brokers have, and not the broker of this directory."""

    @property
    def max_file_bytes(self) -> int:
        """The maximum size of a staged file with several batches, so that a segment and its indexes hold it."""
        entries = self.config.segment_index_bytes // TimeIndexReader.ENTRY_SIZE - 1  # one is for the segment's end
        return min(
            self.config.segment_bytes, max(entries, 1) * max(self.config.index_interval_bytes, _LEAST_BATCH_BYTES)
        )

    @property
    def max_batch_bytes(self) -> int:
        return min(self.config.max_message_bytes, self.config.segment_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLayouts:
    known: Mapping[str, TopicLayout]
    new: TopicLayout
    """The layout of every other topic."""

    @classmethod
    def read(cls, fs: FileSystem, options: WriteOptions) -> TopicLayouts:
        """Read the layout of the options' topic, or of all topics. Raise CheckpointError for an invalid
        ``meta.properties``."""
        metadata = read_topic_metadata(fs, options.log_dir)
        meta = MetaProperties.read(fs, options.log_dir / META_PROPERTIES_FILE)
        node_id = None if meta is None else meta.node_id
        replicas = _by_topic(metadata.replicas)
        there = _by_topic(dict.fromkeys(live_partitions(fs, options.log_dir)) if fs.exists(options.log_dir) else {})

        def layout_of(topic: str) -> TopicLayout:
            config = LogConfig.from_properties(metadata.settings_of(topic, node_id), ignore_unknown=True)
            if topic not in metadata.topic_ids:
                numbers = there.get(topic, {})
                count = max(options.num_partitions, max(numbers, default=-1) + 1)
                missing = frozenset(range(count)).difference(numbers)
                return TopicLayout(partition_count=count, missing=missing, config=config)
            brokers = replicas.get(topic, {})
            elsewhere = frozenset(
                number for number, ids in brokers.items() if node_id is not None and node_id not in ids
            )
            return TopicLayout(partition_count=len(brokers), elsewhere=elsewhere, config=config)

        topics = there.keys() | metadata.topic_ids.keys()
        same: dict[TopicLayout, TopicLayout] = {}  # many topics share few layouts, and each layout is pickled once
        known = {}
        for topic in topics if options.topic is None else topics & {options.topic}:
            layout = layout_of(topic)
            known[topic] = same.setdefault(layout, layout)
        return cls(known=known, new=layout_of(""))

    def of(self, topic: str) -> TopicLayout:
        """Return a topic's layout. Raise ConfigError for an illegal topic name or the cluster metadata's."""
        if not is_legal_topic(topic) or topic == CLUSTER_METADATA_TOPIC:
            raise ConfigError(f"{topic!r} is not a topic that accepts writes")
        return self.known.get(topic, self.new)

    def require(self, partition: TopicPartition) -> None:
        """Raise UnknownTopicOrPartitionError for a partition that the topic does not have, or not on this broker."""
        layout = self.of(partition.topic)
        if not 0 <= partition.partition < layout.partition_count:
            raise UnknownTopicOrPartitionError(
                f"partition {partition.partition} of topic {partition.topic}, which has {layout.partition_count} "
                "(numbered from 0; the option 'numPartitions' is for topics that the cluster metadata does not know)"
            )
        if partition.partition in layout.elsewhere:
            raise UnknownTopicOrPartitionError(
                f"the cluster has {partition} on other brokers than the one whose log directory this is"
            )


def _by_topic(partitions: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    found: dict[str, dict[int, T]] = {}
    for (topic, number), value in partitions.items():
        found.setdefault(topic, {})[number] = value
    return found
