"""Brokers register, are fenced and shut down; leaders are elected; directories fail: the effects on partitions."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest

from server.metadata.images import TOPIC_ID, directory_of, image_of, partition_of, settings, with_topic
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.server.metadata.controller.brokers import (
    NewRegistration,
    begin_shutdown,
    cordon_directories,
    fence_broker,
    register_broker,
    register_controller,
    take_directories_offline,
    unfence_broker,
)
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.controller.leaders import (
    alter_partitions,
    assign_directories,
    bump_leader_epoch,
    elect_leaders,
)
from tidelog.server.metadata.controller.periodic_elections import balance_leaders
from tidelog.server.metadata.controller.reassignments import alter_reassignments
from tidelog.server.metadata.controller.topics import delete_topics
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import LOST, MIGRATING, UNASSIGNED, PartitionState
from tidelog.server.metadata.requests import ElectionType, Outcome, PartitionAlteration, Reassignment
from tidelog.storage.checkpoint import uuid_to_text

SETTINGS = settings()


def applied(image: MetadataImage, records: Sequence[MetadataRecord], number: int = 0) -> PartitionState:
    """Apply the records and return the partition."""
    for record in records:
        image.apply(record)
    return image.topics["t"].partitions[number]


def registration(broker_id: int = 1, **fields: object) -> NewRegistration:
    values = {
        "broker_id": broker_id,
        "incarnation_id": uuid.UUID(int=77),
        "endpoints": [BrokerEndpoint("PLAINTEXT", "localhost", 9092)],
        "directories": [directory_of(broker_id)],
        "rack": "r",
        "previous_epoch": None,
    }
    return NewRegistration(**{**values, **fields})  # type: ignore[arg-type]


class TestRegistration:
    def test_is_fenced_and_has_the_offset_as_epoch(self) -> None:
        image = image_of(())
        decision = register_broker(image, SETTINGS, registration(), 42)
        assert decision.result == 42
        image.apply(decision.records[0])
        broker = image.brokers[1]
        assert (broker.epoch, broker.is_fenced, broker.rack) == (42, True, "r")
        assert not image.is_active(1)

    @pytest.mark.parametrize(
        ("directories", "reason"),
        [
            ([], "No directories specified in request"),
            ([UNASSIGNED], "Reserved directory ID in request"),
            ([uuid.UUID(int=99)], "Reserved directory ID in request"),
            ([directory_of(1)] * 2, "Duplicate directory ID in request"),
            ([directory_of(2)], f"Broker 2 is already registered with directory {uuid_to_text(directory_of(2))}"),
        ],
    )
    def test_of_directories_that_cannot_be(self, directories: list[uuid.UUID], reason: str) -> None:
        with pytest.raises(ApiError) as refused:
            register_broker(image_of((2,)), SETTINGS, registration(directories=directories), 1)
        assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REGISTRATION, reason)

    @pytest.mark.parametrize("state", ["active", "fenced", "shutting down"])
    def test_of_the_same_incarnation_amends_the_registration(self, state: str) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1, 2)))
        image.apply(register_broker(image, SETTINGS, registration(), 42).records[-1])
        if state != "fenced":
            image.apply(unfence_broker(image, SETTINGS, 1).records[0])
        if state == "shutting down":
            image.apply(begin_shutdown(image, SETTINGS, 1).records[0])
        before = image.brokers[1]
        more = [directory_of(1), directory_of(3)]
        decision = register_broker(image, SETTINGS, registration(directories=more, rack="r2"), 99)
        assert (decision.result, len(decision.records)) == (42, 1), "the broker's partitions do not change"
        image.apply(decision.records[0])
        assert image.brokers[1] == replace(before, rack="r2", log_dirs=frozenset(more))

    def test_of_another_incarnation_has_a_new_epoch_and_leaves_its_partitions(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1, 2)))
        image.apply(register_broker(image, SETTINGS, registration(), 42).records[-1])
        decision = register_broker(image, SETTINGS, registration(incarnation_id=uuid.UUID(int=78)), 99)
        after = applied(image, decision.records)
        assert (decision.result, after.leader, after.isr) == (99, 2, (2,))
        assert (image.brokers[1].epoch, image.brokers[1].is_fenced) == (99, True)

    @pytest.mark.parametrize(("level", "is_allowed"), [(14, False), (15, True)])
    def test_of_a_controller_needs_kafka_3_7(self, level: int, *, is_allowed: bool) -> None:
        image = image_of(())
        image.apply(feature_record("metadata.version", level))
        if is_allowed:
            (record,) = register_controller(image, 5, uuid.UUID(int=5), []).records
            assert record.name == "RegisterControllerRecord"
            return
        with pytest.raises(ApiError) as refused:
            register_controller(image, 5, uuid.UUID(int=5), [])
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION

    def test_of_a_record_takes_the_brokers_state_from_it(self) -> None:
        image = image_of(())
        record = register_broker(image, SETTINGS, registration(), 42).records[0]
        states = [(True, True), (True, False), (False, False)]
        for is_fenced, shuts_down in states:
            fields = {**record.fields, "fenced": is_fenced, "inControlledShutdown": shuts_down}
            image.apply(MetadataRecord("RegisterBrokerRecord", fields))
            broker = image.brokers[1]
            assert (broker.is_fenced, broker.in_controlled_shutdown) == (is_fenced, shuts_down)
        image.apply(begin_shutdown(image, SETTINGS, 1).records[-1])
        image.apply(MetadataRecord("BrokerRegistrationChangeRecord", {"brokerId": 1, "brokerEpoch": 42, "fenced": -1}))
        assert (image.brokers[1].is_fenced, image.brokers[1].in_controlled_shutdown) == (False, True)

    def test_of_a_broker_whose_topic_is_deleted_changes_no_partition(self) -> None:
        state = partition_of((1, 2), isr=(), elr=(1, 2), last_known_elr=(1,))
        image = with_topic(image_of((1, 2), fenced=(1, 2)), state)
        for record in delete_topics(image, ["t"]).records:
            image.apply(record)
        unclean = register_broker(image, SETTINGS, registration(previous_epoch=9), 50)
        assert [record.name for record in unclean.records] == ["RegisterBrokerRecord"]

    def test_after_an_unclean_stop_it_is_not_eligible(self) -> None:
        state = partition_of((1, 2), isr=(), elr=(1, 2), last_known_elr=(1,))
        image = with_topic(image_of((1, 2), fenced=(1, 2)), state)
        unclean = register_broker(image, SETTINGS, registration(previous_epoch=9), 50)
        assert applied(image.copy(), unclean.records).elr == (2,)
        clean = register_broker(image, SETTINGS, registration(previous_epoch=10), 50)
        assert applied(image.copy(), clean.records).elr == (1, 2)


class TestLeaving:
    def test_others_lead_instead(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1, 2)))
        after = applied(image, begin_shutdown(image, SETTINGS, 1).records)
        assert (after.leader, after.isr) == (2, (2,))
        assert image.brokers[1].in_controlled_shutdown
        assert not fence_broker(image, SETTINGS, 1).records[:-1]

    def test_a_fenced_broker_is_out_of_sync(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((2, 1)))
        after = applied(image, fence_broker(image, SETTINGS, 1).records)
        assert (after.leader, after.isr, after.leader_epoch) == (2, (2,), 0)
        assert image.brokers[1].is_fenced

    def test_one_that_comes_leads_what_has_no_leader(self) -> None:
        image = with_topic(
            image_of((1, 2), fenced=(1,)),
            partition_of((1, 2), isr=(), elr=(1,), last_known_elr=(1,)),
            partition_of((1, 2), isr=(2,), leader=2),
        )
        after = applied(image, unfence_broker(image, SETTINGS, 1).records)
        assert (after.leader, after.isr, after.elr) == (1, (1,), ())
        assert image.topics["t"].partitions[1].leader == 2


class TestElections:
    def outcome(self, state: PartitionState, kind: ElectionType, **image: object) -> ErrorCode:
        found = with_topic(image_of((1, 2), **image), state)  # type: ignore[arg-type]
        partition = TopicPartition("t", 0)
        return elect_leaders(found, SETTINGS, kind, [partition]).result[partition].error

    def test_of_the_preferred_replica(self) -> None:
        preferred = ElectionType.PREFERRED
        assert self.outcome(partition_of((1, 2)), preferred) is ErrorCode.ELECTION_NOT_NEEDED
        assert self.outcome(partition_of((1, 2), leader=2), preferred) is ErrorCode.NONE
        gone = self.outcome(partition_of((1, 2), leader=2, isr=(2,)), preferred, fenced=(1,))
        assert gone is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE

    def test_of_any_replica(self) -> None:
        unclean = ElectionType.UNCLEAN
        assert self.outcome(partition_of((1, 2), leader=2), unclean) is ErrorCode.ELECTION_NOT_NEEDED
        assert self.outcome(partition_of((1, 2), leader=-1, isr=(1,)), unclean, fenced=(1,)) is ErrorCode.NONE
        gone = self.outcome(partition_of((1,), leader=-1), unclean, fenced=(1,))
        assert gone is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE

    def test_of_the_preferred_replica_is_never_unclean(self) -> None:
        image = with_topic(image_of((1, 2, 3), fenced=(1, 3)), partition_of((1, 2, 3), leader=-1, isr=(1,)))
        allowed = settings(unclean_leader_election_enable="true")
        decision = elect_leaders(image, allowed, ElectionType.PREFERRED, [TopicPartition("t", 0)])
        (outcome,) = decision.result.values()
        assert (outcome.error, list(decision.records)) == (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, [])
        assert balance_leaders(image, allowed).records == []

    def test_of_partitions_that_are_not_there(self) -> None:
        image = with_topic(image_of(), partition_of((1,)))
        asked = [TopicPartition("u", 0), TopicPartition("t", 1)]
        answer = elect_leaders(image, SETTINGS, ElectionType.PREFERRED, asked).result
        assert [outcome.message for outcome in answer.values()] == ["No such topic as u", "No such partition as t-1"]

    def test_of_all_name_those_that_needed_one(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1, 2)), partition_of((1, 2), leader=2))
        answer = elect_leaders(image, SETTINGS, ElectionType.PREFERRED, None).result
        assert list(answer) == [TopicPartition("t", 1)]


class TestLeaderEpochs:
    def test_grow_with_the_same_leader(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1, 2), leader=2, leader_epoch=4))
        (record,) = bump_leader_epoch(image, TopicPartition("t", 0)).records
        image.apply(record)
        state = image.topics["t"].partitions[0]
        assert (state.leader, state.leader_epoch) == (2, 5)

    def test_of_partitions_that_are_not_there(self) -> None:
        image = with_topic(image_of(), partition_of((1,)))
        for name in (TopicPartition("u", 0), TopicPartition("t", 1)):
            decision = bump_leader_epoch(image, name)
            assert (decision.result.error, list(decision.records)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


class TestAlterations:
    def code(self, image: MetadataImage, broker: int = 1, **fields: object) -> ErrorCode:
        values = {"topic_id": TOPIC_ID, "partition": 0, "isr": (1,), "leader_epoch": 3, "partition_epoch": 7}
        alteration = PartitionAlteration(**{**values, **fields})  # type: ignore[arg-type]
        (answer,) = alter_partitions(image, SETTINGS, broker, [alteration]).result
        return answer.outcome.error

    def test_are_of_the_present_epochs_and_the_leader(self) -> None:
        image = with_topic(image_of((1, 2, 3), fenced=(3,)), partition_of((1, 2, 3), leader_epoch=3, partition_epoch=7))
        assert self.code(image) is ErrorCode.NONE
        assert self.code(image, leader_epoch=2) is ErrorCode.FENCED_LEADER_EPOCH
        assert self.code(image, leader_epoch=4) is ErrorCode.NOT_CONTROLLER
        assert self.code(image, partition_epoch=6) is ErrorCode.INVALID_UPDATE_VERSION
        assert self.code(image, partition_epoch=8) is ErrorCode.NOT_CONTROLLER
        assert self.code(image, broker=2) is ErrorCode.INVALID_REQUEST
        assert self.code(image, isr=(1, 9)) is ErrorCode.INVALID_REQUEST
        assert self.code(image, isr=(2,)) is ErrorCode.INVALID_REQUEST
        assert self.code(image, isr=(1, 3)) is ErrorCode.INELIGIBLE_REPLICA
        assert self.code(image, is_recovering=True) is ErrorCode.INVALID_REQUEST
        assert self.code(image, partition=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.code(image, topic_id=uuid.UUID(int=9)) is ErrorCode.UNKNOWN_TOPIC_ID

    def test_may_end_a_reassignment_and_its_leadership(self) -> None:
        state = partition_of((2, 1), isr=(1,), adding=(2,), removing=(1,))
        image = with_topic(image_of((1, 2)), state)
        code = self.code(image, isr=(1, 2), leader_epoch=0, partition_epoch=0)
        assert code is ErrorCode.NEW_LEADER_ELECTED


class TestReassignments:
    def outcome(self, image: MetadataImage, replicas: list[int] | None, *, may_change_factor: bool = True) -> Outcome:
        wanted = [Reassignment("t", 0, replicas)]
        (outcome,) = alter_reassignments(image, SETTINGS, wanted, may_change_factor=may_change_factor).result
        return outcome

    def test_begin_and_are_taken_back(self) -> None:
        image = with_topic(image_of((1, 2, 3)), partition_of((1, 2)))
        begun = alter_reassignments(image, SETTINGS, [Reassignment("t", 0, [2, 3])], may_change_factor=True)
        after = applied(image, begun.records)
        assert (after.replicas, after.adding, after.removing) == ((2, 3, 1), (3,), (1,))
        back = alter_reassignments(image, SETTINGS, [Reassignment("t", 0, None)], may_change_factor=False)
        after = applied(image, back.records)
        assert (after.replicas, after.adding, after.removing, after.isr) == ((2, 1), (), (), (1, 2))

    def test_another_one_replaces_the_first_and_keeps_its_new_leader(self) -> None:
        image = with_topic(image_of((1, 2, 3, 4, 5, 6)), partition_of((1, 2)))

        def reassign(*replicas: int) -> PartitionState:
            wanted = [Reassignment("t", 0, list(replicas))]
            return applied(image, alter_reassignments(image, SETTINGS, wanted, may_change_factor=True).records)

        def alter(*isr: int) -> PartitionState:
            known = image.topics["t"].partitions[0]
            alteration = PartitionAlteration(
                topic_id=TOPIC_ID,
                partition=0,
                isr=isr,
                leader_epoch=known.leader_epoch,
                partition_epoch=known.partition_epoch,
            )
            return applied(image, alter_partitions(image, SETTINGS, known.leader, [alteration]).records)

        assert reassign(3, 4).replicas == (3, 4, 1, 2)
        assert alter(1, 2, 3).leader == 1
        elected = applied(image, elect_leaders(image, SETTINGS, ElectionType.PREFERRED, None).records)
        assert elected.leader == 3
        again = reassign(5, 6)
        assert (again.replicas, again.adding, again.removing) == ((5, 6, 1, 2, 3, 4), (5, 6), (1, 2, 3, 4))
        assert again.leader == 3
        done = alter(1, 2, 3, 5, 6)
        assert (done.replicas, done.leader, done.adding, done.removing) == ((5, 6), 5, (), ())

    def test_that_cannot_be(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1,)))
        assert self.outcome(image, None)[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert self.outcome(image, [])[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert self.outcome(image, [1, 2], may_change_factor=False) == (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "The replication factor is changed from 1 to 2",
        )

    def test_are_not_taken_back_uncleanly(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1, 2), isr=(2,), adding=(2,)))
        assert self.outcome(image, None) == (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Unable to revert partition assignment for t:0 because it would require an unclean leader election.",
        )


class TestDirectories:
    def test_are_told_by_the_broker(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1, 2)))
        decision = assign_directories(image, SETTINGS, 2, {(TOPIC_ID, 0): directory_of(5), (TOPIC_ID, 9): UNASSIGNED})
        after = applied(image, decision.records)
        assert after.directories == (directory_of(1), directory_of(5))

    def test_that_fail_take_their_partitions_with_them(self) -> None:
        image = with_topic(image_of((1, 2)), partition_of((1, 2)), partition_of((1, 2)))
        moved = assign_directories(image, SETTINGS, 1, {(TOPIC_ID, 1): UNASSIGNED})
        applied(image, moved.records)
        decision = take_directories_offline(image, SETTINGS, 1, [directory_of(1), uuid.UUID(int=999)])
        after = applied(image, decision.records)
        assert (after.leader, after.isr) == (2, (2,))
        assert image.topics["t"].partitions[1].leader == 1
        assert not take_directories_offline(image, SETTINGS, 1, [uuid.UUID(int=999)]).records

    def test_are_assigned_since_kafka_3_7(self) -> None:
        image = with_topic(image_of((1,)), partition_of((1,)))
        image.apply(feature_record("metadata.version", 16))
        with pytest.raises(ApiError) as refused:
            assign_directories(image, SETTINGS, 1, {(TOPIC_ID, 0): directory_of(1)})
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        image.apply(feature_record("metadata.version", 17))
        assert assign_directories(image, SETTINGS, 1, {(TOPIC_ID, 0): directory_of(1)}).result

    def test_of_new_replicas(self) -> None:
        image = image_of((1, 2, 3))
        several = frozenset({directory_of(2), directory_of(9)})
        image.brokers[2] = replace(image.brokers[2], log_dirs=several)
        image.brokers[3] = replace(image.brokers[3], log_dirs=frozenset())
        assert [image.default_directory(broker) for broker in (1, 2, 3, 4)] == [
            directory_of(1),
            UNASSIGNED,
            MIGRATING,
            MIGRATING,
        ]

    @pytest.mark.parametrize(
        ("directory", "is_online"),
        [(directory_of(1), True), (directory_of(2), False), (UNASSIGNED, True), (MIGRATING, True), (LOST, False)],
    )
    def test_that_are_online(self, directory: uuid.UUID, *, is_online: bool) -> None:
        image = image_of((1,))
        state = replace(partition_of((1,)), directories=(directory,))
        assert image.is_directory_online(1, state) is is_online
        assert not image.is_directory_online(7, replace(state, replicas=(7,))), "broker 7 is not registered"

    def test_that_are_cordoned_are_recorded_when_that_is_new(self) -> None:
        image = image_of((1,))
        for cordoned in ([], [directory_of(1)], []):  # the first list is recorded: the state was unknown before
            (record,) = cordon_directories(image, 1, cordoned).records
            image.apply(record)
            assert image.brokers[1].cordoned_log_dirs == frozenset(cordoned)
            assert not cordon_directories(image, 1, cordoned).records
        assert not cordon_directories(image, 9, []).records

    @pytest.mark.parametrize(("level", "records"), [(29, 0), (30, 1)])
    def test_are_cordoned_since_kafka_4_3(self, level: int, records: int) -> None:
        image = image_of((1,))
        image.apply(feature_record("metadata.version", level))
        assert len(cordon_directories(image, 1, [directory_of(1)]).records) == records
