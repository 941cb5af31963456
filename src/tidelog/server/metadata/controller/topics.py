"""Creation and deletion of topics, and additional partitions.

====================================================  =================================================
request                                               error
====================================================  =================================================
a name that is not valid or collides with another     INVALID_TOPIC_EXCEPTION
a name that exists                                    TOPIC_ALREADY_EXISTS
configs that are not valid                            INVALID_CONFIG
assignments together with counts, a duplicate name    INVALID_REQUEST
assignments to unknown or duplicate brokers, …        INVALID_REPLICA_ASSIGNMENT
a partition count that is not positive, or no         INVALID_PARTITIONS
increase
more replicas than brokers                            INVALID_REPLICATION_FACTOR
more than 10,000 new partitions in one creation of    POLICY_VIOLATION for the complete request
topics; a topic counts as at least one
more than 10,000 records in one request               POLICY_VIOLATION for the topics above the limit
an unknown topic                                      UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID
====================================================  =================================================

It is pure, but for random ids and placement. Source: Kafka's ``ReplicationControlManager``, ``QuorumController``.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.topic_name import check_topic_name, metric_name
from tidelog.server.configs.resource_rules import check_resource
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.decision import MAX_RECORDS, ControllerSettings, Decision, require_bounded
from tidelog.server.metadata.controller.placement import place_replicas
from tidelog.server.metadata.image import MetadataImage, Topic
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.requests import DEFAULT, NewPartitions, NewTopic, Outcome, TopicResult
from tidelog.storage.checkpoint import random_uuid, uuid_to_text

_TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."


def create_topics(
    image: MetadataImage, settings: ControllerSettings, topics: Sequence[NewTopic]
) -> Decision[list[TopicResult]]:
    """Create topics. Raise ApiError(POLICY_VIOLATION) for more new partitions than one change may have."""
    default = settings.config.number("num.partitions")
    if sum(max(1, _partitions_wanted(topic, default)) for topic in topics) > MAX_RECORDS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, _TOO_MANY_PARTITIONS)
    records: list[MetadataRecord] = []
    results = []
    named = Counter(topic.name for topic in topics)
    metric_names = _metric_names(image) if any(map(_may_collide, named)) else {}
    for topic in topics:
        try:
            _require_once(topic.name, named)
            made, result = _create_topic(image, settings, topic, metric_names)
            require_bounded(len(records) + len(made))
        except TidelogError as error:
            results.append(TopicResult(name=topic.name, error=error_code_of(error), message=error.message))
        else:
            records += made
            results.append(result)
    return Decision(records, results)


def delete_topics(image: MetadataImage, topics: Sequence[str | uuid.UUID]) -> Decision[list[TopicResult]]:
    """Delete topics by name or id. The second mention of a topic gets the error for an unknown topic."""
    records, results = [], []
    deleted: set[uuid.UUID] = set()
    for wanted in topics:
        try:
            topic = _find(image, wanted)
            if topic.id in deleted:
                raise _unknown(wanted)
        except ApiError as error:
            name, topic_id = (wanted, None) if isinstance(wanted, str) else (None, wanted)
            results.append(TopicResult(name=name, topic_id=topic_id, error=error.code, message=error.message))
            continue
        deleted.add(topic.id)
        records.append(MetadataRecord("RemoveTopicRecord", {"topicId": uuid_to_text(topic.id)}))
        results.append(TopicResult(name=topic.name, topic_id=topic.id))
    return Decision(records, results)


def create_partitions(
    image: MetadataImage, settings: ControllerSettings, requests: Sequence[NewPartitions]
) -> Decision[list[TopicResult]]:
    records: list[MetadataRecord] = []
    results = []
    named = Counter(request.topic for request in requests)
    for request in requests:
        try:
            _require_once(request.topic, named)
            topic = image.topics.get(request.topic)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            _check_count(topic, request, len(records))
            made = _partition_records(image, topic.id, _added(image, settings, topic, request), len(topic.partitions))
        except ApiError as error:
            refused = Outcome.of(error)
            results.append(TopicResult(name=request.topic, error=refused.error, message=refused.message))
        else:
            records += made
            results.append(TopicResult(name=request.topic, topic_id=topic.id, partitions=request.total))
    return Decision(records, results)


def check_assignment(image: MetadataImage, brokers: Sequence[int], replicas: int | None = None) -> None:
    """Raise ApiError(INVALID_REPLICA_ASSIGNMENT) with Kafka's message if the brokers are not valid. ``replicas``: the
    number of replicas of the other partitions."""
    if not brokers:
        raise _bad_assignment("The manual partition assignment includes an empty replica list.")
    seen: set[int] = set()
    for broker in sorted(brokers):
        if broker not in image.brokers:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if not image.brokers[broker].takes_partitions:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {broker}, but all its log directories are cordoned."
            )
        if broker in seen:
            raise _bad_assignment(f"The manual partition assignment includes the broker {broker} more than once.")
        seen.add(broker)
    if replicas is not None and len(brokers) != replicas:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(brokers)} replica(s), but this is not"
            f" consistent with previous partitions, which have {replicas} replica(s)."
        )


# --- one topic ---


def _create_topic(
    image: MetadataImage, settings: ControllerSettings, topic: NewTopic, metric_names: Mapping[str, str]
) -> tuple[list[MetadataRecord], TopicResult]:
    check_topic_name(topic.name)
    if topic.name in image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    if _may_collide(topic.name) and (other := metric_names.get(metric_name(topic.name))) is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with existing topic: {other}")
    configs = _configs(settings, topic)
    partitions = _assigned(image, topic) if topic.assignments else _placed(image, settings, topic)
    topic_id = random_uuid()
    id_text = uuid_to_text(topic_id)
    records = [
        MetadataRecord("TopicRecord", {"name": topic.name, "topicId": id_text}),
        *(
            MetadataRecord(
                "ConfigRecord",
                {"resourceType": int(ResourceType.TOPIC), "resourceName": topic.name, "name": key, "value": value},
            )
            for key, value in configs.items()
        ),
        *_partition_records(image, topic_id, partitions, 0),
    ]
    result = TopicResult(
        name=topic.name,
        topic_id=topic_id,
        partitions=len(partitions),
        replication_factor=len(partitions[0]),
        configs=configs,
    )
    return records, result


def _configs(settings: ControllerSettings, topic: NewTopic) -> dict[str, str]:
    missing = [key for key, value in topic.configs.items() if value is None]
    if missing:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}")
    configs = {key: value for key, value in topic.configs.items() if value is not None}
    check_resource(ResourceType.TOPIC, topic.name, configs, before={}, broker=settings.config)
    return configs


def _metric_names(image: MetadataImage) -> dict[str, str]:
    """Return the topics that may collide by their metric names, which metrics could not distinguish."""
    return {metric_name(name): name for name in image.topics if _may_collide(name)}


def _may_collide(name: str) -> bool:
    return "." in name or "_" in name


def _assigned(image: MetadataImage, topic: NewTopic) -> list[tuple[int, ...]]:
    if topic.replication_factor != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.partitions != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    found: dict[int, tuple[int, ...]] = {}
    replicas = None
    for number, brokers in topic.assignments:
        if number in found:
            raise _bad_assignment(f"Found multiple manual partition assignments for partition {number}")
        check_assignment(image, brokers, replicas)
        replicas = len(brokers)
        _require_active(image, brokers, number)
        found[number] = tuple(brokers)
    if sorted(found) != list(range(len(found))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [found[number] for number in range(len(found))]


def _placed(image: MetadataImage, settings: ControllerSettings, topic: NewTopic) -> list[tuple[int, ...]]:
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partitions < DEFAULT or topic.partitions == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    partitions = _partitions_wanted(topic, settings.config.number("num.partitions"))
    replicas = topic.replication_factor
    if replicas == DEFAULT:
        replicas = settings.config.number("default.replication.factor")
    try:
        return place_replicas(image.brokers.values(), partitions, replicas, settings.random)
    except ApiError as error:
        raise ApiError(error.code, f"Unable to replicate the partition {replicas} time(s): {error.message}") from None


def _partitions_wanted(topic: NewTopic, default: int) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return default if topic.partitions == DEFAULT else topic.partitions


# --- more partitions ---


def _check_count(topic: Topic, request: NewPartitions, records: int) -> None:
    """Raise ApiError if the total is not valid; ``records`` is the number of records of the request so far."""
    present = len(topic.partitions)
    if request.total == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if request.total < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {request.total} would not be an increase.",
        )
    if request.total - present > MAX_RECORDS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, _TOO_MANY_PARTITIONS)
    require_bounded(records + request.total - present)


def _added(
    image: MetadataImage, settings: ControllerSettings, topic: Topic, request: NewPartitions
) -> list[tuple[int, ...]]:
    present = len(topic.partitions)
    added, replicas = request.total - present, len(topic.partitions[0].replicas)
    if request.assignments is None:
        return place_replicas(image.brokers.values(), added, replicas, settings.random)
    if len(request.assignments) != added:
        raise _bad_assignment(
            f"Attempted to add {added} additional partition(s), but only {len(request.assignments)} assignment(s) were"
            " specified."
        )
    for number, brokers in enumerate(request.assignments, present):
        check_assignment(image, brokers, replicas)
        _require_active(image, brokers, number)
    return [tuple(brokers) for brokers in request.assignments]


# --- shared ---


def _partition_records(
    image: MetadataImage, topic_id: uuid.UUID, assignments: Iterable[tuple[int, ...]], first: int
) -> list[MetadataRecord]:
    return [
        MetadataRecord(
            "PartitionRecord",
            {
                "partitionId": number,
                "topicId": uuid_to_text(topic_id),
                **_new_partition(image, brokers).fields(),
            },
        )
        for number, brokers in enumerate(assignments, first)
    ]


def _new_partition(image: MetadataImage, brokers: tuple[int, ...]) -> PartitionState:
    isr, directories = tuple(filter(image.is_active, brokers)), tuple(map(image.default_directory, brokers))
    return PartitionState(replicas=brokers, isr=isr, leader=isr[0], directories=directories)


def _require_once(name: str, named: Counter[str]) -> None:
    """Raise ApiError(INVALID_REQUEST) if the request names the topic twice: its intent is ambiguous."""
    if named[name] > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def _find(image: MetadataImage, wanted: str | uuid.UUID) -> Topic:
    topic = image.topics.get(wanted) if isinstance(wanted, str) else image.topics_by_id.get(wanted)
    if topic is None:
        raise _unknown(wanted)
    return topic


def _unknown(wanted: str | uuid.UUID) -> ApiError:
    if isinstance(wanted, str):
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")


def _require_active(image: MetadataImage, brokers: Iterable[int], number: int) -> None:
    if not any(map(image.is_active, brokers)):
        raise _bad_assignment(
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in"
            " controlled shutdown."
        )


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
