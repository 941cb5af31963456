"""Reassignments of partitions to other replicas: how they begin, complete or are cancelled.

A reassignment completes at once if all its replicas are in sync.
During a reassignment the partition has the old and the new replicas. It completes with the ISR change that includes all
remaining replicas (``partition_change``). Pure. Source: Kafka's ``ReplicationControlManager``,
``PartitionReassignmentReplicas``, ``PartitionReassignmentRevert``; KIP-455, KIP-860.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.shortened_text import shortened
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision, allows_unclean_election
from tidelog.server.metadata.controller.leaders import PartitionRef, election_rules
from tidelog.server.metadata.controller.partition_change import Election, TargetReplicas, change_partition
from tidelog.server.metadata.controller.topics import check_assignment
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import DONE, Outcome, Reassignment


def alter_reassignments(
    image: MetadataImage,
    settings: ControllerSettings,
    reassignments: Sequence[Reassignment],
    *,
    may_change_factor: bool,
) -> Decision[list[Outcome]]:
    records, outcomes = [], []
    for wanted in reassignments:
        try:
            place = _place_of(image, wanted)
            if wanted.replicas is None:
                record = _cancel(image, settings, place)
            else:
                record = _begin(image, settings, place, tuple(wanted.replicas), may_change_factor)
        except ApiError as error:
            outcomes.append(Outcome.of(error))
            continue
        outcomes.append(DONE)
        if record is not None:
            records.append(record)
    return Decision(records, outcomes)


def _begin(
    image: MetadataImage,
    settings: ControllerSettings,
    place: PartitionRef,
    target: tuple[int, ...],
    may_change_factor: bool,
) -> MetadataRecord | None:
    check_assignment(image, target)
    state = place.state
    present = [broker for broker in state.replicas if broker not in state.adding]
    if not may_change_factor and len(present) != len(target):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(present)} to {len(target)}",
        )
    removing = tuple(sorted(set(state.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(state.replicas)))
    wanted = TargetReplicas(replicas=target + removing, removing=removing or None, adding=adding or None)
    rules = election_rules(image, settings, place, election=Election.ONLINE)
    return change_partition(place.topic.id, place.number, state, wanted, rules)


def _cancel(image: MetadataImage, settings: ControllerSettings, place: PartitionRef) -> MetadataRecord | None:
    state, topic = place.state, place.topic
    if not state.is_reassigning:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(broker for broker in state.replicas if broker not in state.adding)
    isr = tuple(broker for broker in state.isr if broker not in state.adding)
    if not isr and not allows_unclean_election(image, settings, topic.name):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{place.number} because it would require an"
            " unclean leader election.",
        )
    wanted = TargetReplicas(isr=isr or replicas[:1], replicas=replicas, removing=(), adding=())
    return change_partition(topic.id, place.number, state, wanted, election_rules(image, settings, place))


def _place_of(image: MetadataImage, wanted: Reassignment) -> PartitionRef:
    topic = image.topics.get(wanted.topic)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {shortened(wanted.topic)}.")
    state = topic.partitions.get(wanted.partition)
    if state is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {wanted.topic}:{wanted.partition}."
        )
    return PartitionRef(topic, wanted.partition, state)
