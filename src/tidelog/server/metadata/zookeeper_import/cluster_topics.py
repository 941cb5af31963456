"""The topics that one broker's log directories have of a cluster with ZooKeeper. Nothing is written.

The imported cluster has this broker alone, so each partition gets it as the only replica. That loses no record if the
replica was in sync.

======================================  ================================================================================
a topic, or a directory                 is
======================================  ================================================================================
all partitions in sync on this broker   imported, with the id, the settings and the epochs in ZooKeeper
no partition on this broker             left out: it stays with the other brokers
a deletion under way                    left out
a directory that ZooKeeper does not     left out: its topic was deleted, or its partition was moved, while the broker
assign to this broker                   was away
some partitions on other brokers only   a problem: the topic would lose them
a replica that is not in sync           a problem: it may lack records
a replica without a directory           a problem: a log directory is missing among the arguments
another topic id in the directory       a problem: the directory belongs to a deleted topic of that name
records in remote storage               a problem: tiered topics are not served
======================================  ================================================================================

Problems are an error that names all of them. Everything left out is listed by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tidelog.config.topic_settings import parse_topic_settings
from tidelog.model import ConfigError, DirectoryError, TopicPartition
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.zookeeper.translation import Untranslated, ZooKeeperCluster, ZooKeeperTopic
from tidelog.server.metadata.zookeeper_import.found_topics import FoundTopic, find_topic
from tidelog.storage.fs import FileSystem

SHOWN: Final = 5
"""The most names in an error message."""
_TIERED: Final = "remote.storage.enable"
_ADVICE: Final[Mapping[str, str]] = {
    "partitions on other brokers only": (
        "while the cluster runs, reassign them to this broker too (kafka-reassign-partitions), or delete the topics"
    ),
    "replicas that are not in sync": (
        "start the brokers, wait until these replicas are in sync, and stop this broker last"
    ),
    "replicas without a directory": "name all log directories of the broker",
    "directories with another topic id": "they belong to deleted topics: move them away",
    "tiered topics": "with Kafka, disable remote.storage.enable for them, or delete them",
}
"""The remedies by problem."""


@dataclass(slots=True, kw_only=True)
class ClusterTopics:
    topics: list[FoundTopic] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The names of everything left out, by a description."""
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def untranslated(self) -> Iterator[Untranslated]:
        for what, names in self.left_out.items():
            yield Untranslated(what, names)


def find_cluster_topics(
    fs: FileSystem,
    found: Mapping[TopicPartition, Path],
    cluster: ZooKeeperCluster,
    node_id: int,
    given: Mapping[str, Mapping[str, str]],
) -> ClusterTopics:
    """Return the topics for the import. ``found`` are log directories by partition, ``given`` settings by topic, which
    win over those in ZooKeeper. Raise DirectoryError with all problems, and CheckpointError for a damaged file."""
    here: dict[str, dict[int, Path]] = defaultdict(dict)
    for partition, path in found.items():
        here[partition.topic][partition.partition] = path
    result = ClusterTopics()
    settings = cluster.settings_of(ResourceType.TOPIC)
    for name in sorted(here.keys() | cluster.topics.keys()):
        _add_topic(fs, result, cluster, node_id, name, here.get(name, {}), settings.get(name, {}), given.get(name, {}))
    for name in given:
        if name not in {topic.name for topic in result.topics}:
            raise ConfigError(f"--topic-config: there is no topic {name} to import")
    if here and not (result.topics or result.problems):
        raise ConfigError("ZooKeeper assigns no topic in the directories to this broker: is the chroot right?")
    if result.problems:
        raise DirectoryError("; ".join(_problem(what, names) for what, names in result.problems.items()))
    return result


def _add_topic(
    fs: FileSystem,
    result: ClusterTopics,
    cluster: ZooKeeperCluster,
    node_id: int,
    name: str,
    here: Mapping[int, Path],
    settings: Mapping[str, str],
    given: Mapping[str, str],
) -> None:
    topic = cluster.topics.get(name)
    if name in cluster.deleted_topics:
        result.left_out["topics whose deletion is under way"].append(name)
        return
    own = {} if topic is None else {n: one for n, one in topic.partitions.items() if node_id in one.replicas}
    strays = [f"{name}-{number}" for number in here if number not in own]
    if strays:
        result.left_out["directories that ZooKeeper does not assign to this broker"] += strays
    if topic is None:
        return
    if not own:
        result.left_out["topics of other brokers"].append(name)
        return
    _check_replicas(result, name, topic, here, node_id)
    if settings.get(_TIERED, "").lower() == "true":
        result.problems["tiered topics"].append(name)
    places = {number: path for number, path in here.items() if number in own}
    usable, unusable = usable_settings(settings, given)
    if unusable:
        result.left_out["settings that Kafka 4 does not accept"] += (f"{name} {one}" for one in unusable)
    if places:
        found = find_topic(fs, name, places, usable)
        if topic.topic_id is not None and found.topic_id not in (None, topic.topic_id):
            result.problems["directories with another topic id"].append(name)
        result.topics.append(_with_state(found, topic))


def usable_settings(
    settings: Mapping[str, str], given: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return a topic's settings that Kafka 4 knows and accepts, below the ``given`` ones, and the others with their
    reasons."""
    usable, unusable = {}, []
    for key, value in settings.items():
        if key in (given or {}):
            continue
        try:
            parse_topic_settings({key: value})
        except ConfigError as error:
            unusable.append(f"{key}={value} ({error.message})")
        else:
            usable[key] = value
    return {**usable, **(given or {})}, unusable


def _check_replicas(
    result: ClusterTopics,
    name: str,
    topic: ZooKeeperTopic,
    here: Mapping[int, Path],
    node_id: int,
) -> None:
    for number, state in topic.partitions.items():
        brokers = ", ".join(map(str, state.isr or state.replicas))
        if node_id not in state.replicas:
            result.problems["partitions on other brokers only"].append(f"{name}-{number} (brokers {brokers})")
        elif node_id not in state.isr:
            result.problems["replicas that are not in sync"].append(f"{name}-{number} (in sync: {brokers or 'none'})")
        elif number not in here:
            result.problems["replicas without a directory"].append(f"{name}-{number}")
        if state.is_reassigning:
            result.left_out["reassignments under way"].append(f"{name}-{number}")
        if others := [str(broker) for broker in state.replicas if broker != node_id]:
            result.left_out["replicas on other brokers"].append(f"{name}-{number} (brokers {', '.join(others)})")


def _with_state(found: FoundTopic, topic: ZooKeeperTopic) -> FoundTopic:
    """Return the topic with the id and the epochs that ZooKeeper has. The log may know a later leader epoch."""
    partitions = {
        number: replace(
            partition,
            leader_epoch=max(partition.leader_epoch, topic.partitions[number].leader_epoch),
            partition_epoch=topic.partitions[number].partition_epoch,
            is_recovering=topic.partitions[number].is_recovering,
        )
        for number, partition in found.partitions.items()
    }
    return replace(found, topic_id=topic.topic_id or found.topic_id, partitions=partitions)


def _problem(what: str, names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return f"{what}: {', '.join(names[:SHOWN])}{more} ({_ADVICE[what]})"
