"""Changes of leaders and in-sync replicas, by starts and stops of brokers, reports and elections.

==========================  ==========================================================================
event                       effect on a partition
==========================  ==========================================================================
a broker stops              it leaves the in-sync replicas; another one leads, or there is no leader
it stopped uncleanly        it is not eligible either: it may have lost records
a broker starts             it leads partitions without a leader, if it is in sync, eligible or the
                            last known leader
a leader alters its ISR     applied if the leader's epochs are current
an election is requested    the preferred replica leads; in an unclean election any live replica
a directory fails           as if the broker had stopped, for the partitions in it
==========================  ==========================================================================

Pure: it converts the image to records. Source: Kafka's ``ReplicationControlManager``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.shortened_text import shortened
from tidelog.replication.registration_request import NO_BROKER_EPOCH
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision, allows_unclean_election, min_isr
from tidelog.server.metadata.controller.partition_change import (
    Election,
    ElectionRules,
    TargetReplicas,
    change_partition,
)
from tidelog.server.metadata.features import keeps_eligible_leaders, supports_directories
from tidelog.server.metadata.image import MetadataImage, Topic
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.requests import DONE, AlteredPartition, ElectionType, Outcome, PartitionAlteration
from tidelog.storage.checkpoint import uuid_to_text


class PartitionRef(NamedTuple):
    """A partition and its current state."""

    topic: Topic
    number: int
    state: PartitionState


def election_rules(
    image: MetadataImage,
    settings: ControllerSettings,
    place: PartitionRef,
    *,
    is_alive: Callable[[int], bool] | None = None,
    election: Election | None = None,
) -> ElectionRules:
    """Return the partition's rules. ``is_alive`` replaces the image's view of the brokers. ``election`` None follows
    the topic's configs."""
    alive = is_alive or image.is_active
    if election is None:
        unclean = allows_unclean_election(image, settings, place.topic.name)
        election = Election.UNCLEAN if unclean else Election.ONLINE
    return ElectionRules(
        min_isr=min_isr(image, settings, place.topic.name),
        may_lead=lambda broker: alive(broker) and image.is_directory_online(broker, place.state),
        default_directory=image.default_directory,
        keeps_eligible=keeps_eligible_leaders(image),
        metadata_version=image.metadata_version,
        election=election,
    )


def remove_broker(
    image: MetadataImage,
    settings: ControllerSettings,
    broker_id: int,
    places: Iterable[PartitionRef] | None = None,
    *,
    everywhere: bool = False,
) -> list[MetadataRecord]:
    """Remove a broker from the in-sync replicas of ``places``, or of all partitions. Other replicas lead if they can.

    ``everywhere`` includes partitions whose eligible leader it is, which may then have other ones.
    """

    def is_affected(state: PartitionState) -> bool:
        return broker_id in state.isr or (everywhere and broker_id in state.elr)

    return _update(
        image,
        settings,
        places if places is not None else (place for place in _places(image) if is_affected(place.state)),
        lambda place: TargetReplicas(isr=_without(place.state.isr, broker_id)),
        lambda broker: broker != broker_id and image.is_active(broker),
    )


def remove_unclean_broker(image: MetadataImage, settings: ControllerSettings, broker_id: int) -> list[MetadataRecord]:
    """Remove a broker after an unclean shutdown: it may not have all committed records."""
    return _update(
        image,
        settings,
        (place for place in _places(image) if broker_id in place.state.isr or broker_id in place.state.elr),
        lambda place: TargetReplicas(isr=_without(place.state.isr, broker_id), unclean=frozenset({broker_id})),
        lambda broker: broker != broker_id and image.is_active(broker),
    )


def add_broker(image: MetadataImage, settings: ControllerSettings, broker_id: int) -> list[MetadataRecord]:
    """Elect leaders for partitions without one, now that the broker takes part."""
    return _update(
        image,
        settings,
        (place for place in _places(image) if not place.state.has_leader),
        lambda _place: TargetReplicas(),
        lambda broker: broker == broker_id or image.is_active(broker),
    )


def alter_partitions(
    image: MetadataImage, settings: ControllerSettings, broker_id: int, alterations: Sequence[PartitionAlteration]
) -> Decision[list[AlteredPartition]]:
    """Apply the reports of the leader ``broker_id``. The outcome is NEW_LEADER_ELECTED if the change completes a
    reassignment and ends its leadership."""
    records, results = [], []
    for alteration in alterations:
        try:
            place = _place_of(image, alteration)
            _check_alteration(image, broker_id, place.state, alteration)
        except ApiError as error:
            results.append(AlteredPartition(Outcome.of(error), None))
            continue
        wanted = TargetReplicas(isr=tuple(alteration.isr), is_recovering=alteration.is_recovering)
        rules = election_rules(image, settings, place)
        record = change_partition(place.topic.id, place.number, place.state, wanted, rules)
        state = place.state
        if record is not None:
            records.append(record)
            state = state.changed(record.fields)
        if state.leader != broker_id:
            results.append(AlteredPartition(Outcome(ErrorCode.NEW_LEADER_ELECTED), None))
        else:
            results.append(AlteredPartition(DONE, state))
    return Decision(records, results)


def elect_leaders(
    image: MetadataImage,
    settings: ControllerSettings,
    kind: ElectionType,
    partitions: Sequence[TopicPartition] | None,
) -> Decision[dict[TopicPartition, Outcome]]:
    records: list[MetadataRecord] = []
    outcomes: dict[TopicPartition, Outcome] = {}
    everything = [TopicPartition(place.topic.name, place.number) for place in _places(image)]
    for name in everything if partitions is None else partitions:
        outcome = _elect_leader(image, settings, kind, name, records)
        if partitions is not None or outcome.error is not ErrorCode.ELECTION_NOT_NEEDED:
            outcomes[name] = outcome
    return Decision(records, outcomes)


def bump_leader_epoch(image: MetadataImage, name: TopicPartition) -> Decision[Outcome]:
    """Keep the leader and begin a new leader epoch."""
    topic = image.topics.get(name.topic)
    state = None if topic is None else topic.partitions.get(name.partition)
    if topic is None or state is None:
        return Decision((), Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}"))
    fields = {"partitionId": name.partition, "topicId": uuid_to_text(topic.id), "leader": state.leader}
    return Decision([MetadataRecord("PartitionChangeRecord", fields)], DONE)


def assign_directories(
    image: MetadataImage,
    settings: ControllerSettings,
    broker_id: int,
    directories: Mapping[tuple[uuid.UUID, int], uuid.UUID],
) -> Decision[dict[tuple[uuid.UUID, int], ErrorCode]]:
    """Record the log directories of a broker's replicas, and return each partition's error code.

    A replica in an offline directory is lost: it leaves the in-sync replicas, too. Raise
    ApiError(UNSUPPORTED_VERSION) before metadata.version 3.7-IV2.
    """
    if not supports_directories(image):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    records: list[MetadataRecord] = []
    codes: dict[tuple[uuid.UUID, int], ErrorCode] = {}
    lost: list[PartitionRef] = []
    for (topic_id, number), directory in directories.items():
        topic = image.topics_by_id.get(topic_id)
        state = None if topic is None else topic.partitions.get(number)
        codes[topic_id, number] = _assignment_error(topic, state, broker_id)
        if topic is None or state is None or codes[topic_id, number] is not ErrorCode.NONE:
            continue
        rules = election_rules(image, settings, PartitionRef(topic, number, state), election=Election.ONLINE)
        record = change_partition(topic_id, number, state, TargetReplicas(directories={broker_id: directory}), rules)
        if record is not None:
            records.append(record)
            state = state.changed(record.fields)
        if broker_id in state.isr and not image.is_directory_online(broker_id, state):
            lost.append(PartitionRef(topic, number, state))
    return Decision([*records, *remove_broker(image, settings, broker_id, lost)], codes)


def _assignment_error(topic: Topic | None, state: PartitionState | None, broker_id: int) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker_id in state.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- one partition ---


def _elect_leader(
    image: MetadataImage,
    settings: ControllerSettings,
    kind: ElectionType,
    name: TopicPartition,
    records: list[MetadataRecord],
) -> Outcome:
    topic = image.topics.get(name.topic)
    if topic is None:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {shortened(name.topic)}")
    state = topic.partitions.get(name.partition)
    if state is None:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}")
    is_preferred = kind is ElectionType.PREFERRED
    if state.has_preferred_leader if is_preferred else state.has_leader:
        return Outcome(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    rules = election_rules(
        image,
        settings,
        PartitionRef(topic, name.partition, state),
        election=Election.PREFERRED if is_preferred else Election.UNCLEAN,
    )
    record = change_partition(topic.id, name.partition, state, TargetReplicas(), rules)
    if record is not None:
        records.append(record)
        return DONE
    if is_preferred:
        return Outcome(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return Outcome(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")


def _place_of(image: MetadataImage, alteration: PartitionAlteration) -> PartitionRef:
    topic = image.topics_by_id.get(alteration.topic_id)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    state = topic.partitions.get(alteration.partition)
    if state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return PartitionRef(topic, alteration.partition, state)


def _check_alteration(
    image: MetadataImage, broker_id: int, state: PartitionState, alteration: PartitionAlteration
) -> None:
    """Raise ApiError if the report is not valid. An older leader epoch gets FENCED_LEADER_EPOCH, and an older partition
    epoch INVALID_UPDATE_VERSION. A newer epoch gets NOT_CONTROLLER: this controller is behind."""
    leader_epoch, partition_epoch = alteration.leader_epoch, alteration.partition_epoch
    isr = alteration.isr
    checks = (
        (leader_epoch > state.leader_epoch or partition_epoch > state.partition_epoch, ErrorCode.NOT_CONTROLLER),
        (leader_epoch < state.leader_epoch, ErrorCode.FENCED_LEADER_EPOCH),
        (broker_id != state.leader, ErrorCode.INVALID_REQUEST),
        (partition_epoch < state.partition_epoch, ErrorCode.INVALID_UPDATE_VERSION),
        (not set(isr) <= set(state.replicas) or len(set(isr)) != len(isr), ErrorCode.INVALID_REQUEST),
        (state.leader not in isr, ErrorCode.INVALID_REQUEST),
        (alteration.is_recovering and len(isr) > 1, ErrorCode.INVALID_REQUEST),
        (alteration.is_recovering and not state.is_recovering, ErrorCode.INVALID_REQUEST),
        (not all(map(image.is_active, isr)), ErrorCode.INELIGIBLE_REPLICA),
        (not _has_current_epochs(image, alteration), ErrorCode.INELIGIBLE_REPLICA),
    )
    for is_refused, code in checks:
        if is_refused:
            raise ApiError(code)


def _has_current_epochs(image: MetadataImage, alteration: PartitionAlteration) -> bool:
    """Return True if each in-sync replica is the registered incarnation of its broker (KIP-903)."""
    members = zip(alteration.isr, alteration.broker_epochs, strict=False)
    known = image.brokers
    return all(epoch == NO_BROKER_EPOCH or (id_ in known and known[id_].epoch == epoch) for id_, epoch in members)


# --- many ---


def _update(
    image: MetadataImage,
    settings: ControllerSettings,
    places: Iterable[PartitionRef],
    wanted: Callable[[PartitionRef], TargetReplicas],
    is_alive: Callable[[int], bool],
) -> list[MetadataRecord]:
    records = []
    for place in places:
        rules = election_rules(image, settings, place, is_alive=is_alive)
        record = change_partition(place.topic.id, place.number, place.state, wanted(place), rules)
        if record is not None:
            records.append(record)
    return records


def _places(image: MetadataImage) -> Iterable[PartitionRef]:
    return (PartitionRef(*found) for found in image.partitions())


def _without(brokers: tuple[int, ...], gone: int) -> tuple[int, ...]:
    return tuple(broker for broker in brokers if broker != gone)
