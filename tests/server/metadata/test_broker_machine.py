"""Invariants of partitions while brokers start and stop, leaders alter the ISR and replicas move."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from server.metadata.images import directory_of, image_of
from server.metadata.images import settings as controller_settings
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.server.metadata.controller.brokers import (
    NewRegistration,
    begin_shutdown,
    fence_broker,
    register_broker,
    unfence_broker,
)
from tidelog.server.metadata.controller.leaders import alter_partitions, elect_leaders
from tidelog.server.metadata.controller.reassignments import alter_reassignments
from tidelog.server.metadata.controller.topics import create_topics
from tidelog.server.metadata.metadata_record import MetadataRecord, decode_record, encode_record
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.requests import ElectionType, NewTopic, PartitionAlteration, Reassignment

BROKERS = (1, 2, 3)
brokers = st.sampled_from(BROKERS)


class BrokerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.image = image_of(BROKERS)
        self.settings = controller_settings(min_insync_replicas="2")  # has its own random numbers
        self.offset = 100
        topics = [NewTopic(name=f"t{count}", partitions=2, replication_factor=count) for count in BROKERS]
        self.apply(create_topics(self.image, self.settings, topics).records)
        self.before = self.states()

    def states(self) -> dict[tuple[str, int], PartitionState]:
        return {(topic.name, number): state for topic, number, state in self.image.partitions()}

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Apply the records after a round trip through the log's encoding."""
        for record in records:
            self.image.apply(decode_record(encode_record(record, self.image.metadata_version)))
        self.offset += len(records)

    # --- brokers ---

    @rule(broker=brokers, in_order=st.booleans())
    def stop(self, broker: int, in_order: bool) -> None:
        if not self.image.is_active(broker):
            return
        if in_order:
            self.apply(begin_shutdown(self.image, self.settings, broker).records)
        self.apply(fence_broker(self.image, self.settings, broker).records)

    @rule(broker=brokers, in_order=st.booleans())
    def start(self, broker: int, in_order: bool) -> None:
        if self.image.is_active(broker):
            return
        new = NewRegistration(
            broker_id=broker,
            incarnation_id=uuid.UUID(int=self.offset),
            endpoints=[BrokerEndpoint("PLAINTEXT", "localhost", 9092)],
            directories=[directory_of(broker)],
            rack=None,
            previous_epoch=self.image.brokers[broker].epoch if in_order else None,
        )
        self.apply(register_broker(self.image, self.settings, new, self.offset).records)
        self.apply(unfence_broker(self.image, self.settings, broker).records)

    # --- partitions ---

    @rule(data=st.data())
    def alter(self, data: st.DataObject) -> None:
        """The leader alters the ISR to itself and other live replicas."""
        led = [(key, state) for key, state in self.states().items() if state.has_leader]
        if not led:
            return
        (topic, number), state = data.draw(st.sampled_from(led))
        others = [broker for broker in state.replicas if broker != state.leader and self.image.is_active(broker)]
        chosen = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
        alteration = PartitionAlteration(
            topic_id=self.image.topics[topic].id,
            partition=number,
            isr=(state.leader, *chosen) if not state.is_recovering else (state.leader,),
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
        )
        decision = alter_partitions(self.image, self.settings, state.leader, [alteration])
        assert decision.result[0].outcome.error in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
        self.apply(decision.records)

    @rule(kind=st.sampled_from(ElectionType))
    def elect(self, kind: ElectionType) -> None:
        self.apply(elect_leaders(self.image, self.settings, kind, None).records)

    @rule(count=st.integers(1, 3), replicas=st.permutations(BROKERS), back=st.booleans())
    def reassign(self, count: int, replicas: list[int], back: bool) -> None:
        wanted = [Reassignment("t2", 0, None if back else replicas[:count])]
        self.apply(alter_reassignments(self.image, self.settings, wanted, may_change_factor=True).records)

    # --- invariants ---

    @invariant()
    def partitions_agree_with_themselves(self) -> None:
        for state in self.states().values():
            assert set(state.isr) <= set(state.replicas)
            assert not set(state.isr) & set(state.elr)
            assert len(state.directories) == len(state.replicas)
            assert len(set(state.replicas)) == len(state.replicas)
            if state.has_leader:
                assert state.leader in state.isr

    @invariant()
    def leaders_are_alive_and_there_is_one_where_there_can_be(self) -> None:
        for state in self.states().values():
            eligible = set(state.isr or state.elr) & set(state.replicas)  # a removed replica may still be eligible
            assert state.has_leader == any(map(self.image.is_active, eligible))
            if state.has_leader:
                assert self.image.is_active(state.leader)

    @invariant()
    def epochs_grow_with_changes(self) -> None:
        after = self.states()
        for key, state in after.items():
            before = self.before[key]
            assert state.partition_epoch >= before.partition_epoch
            assert (state.partition_epoch == before.partition_epoch) == (state == before)
            if state.leader != before.leader:
                assert state.leader_epoch > before.leader_epoch
        self.before = after

    @precondition(lambda self: all(map(self.image.is_active, BROKERS)))
    @invariant()
    def all_are_led_when_everybody_is_there(self) -> None:
        """The exception: if all eligible leaders are removed replicas, Kafka 4.4 elects no leader."""
        for state in self.states().values():
            assert state.has_leader or (not state.isr and set(state.elr).isdisjoint(state.replicas) and state.elr)


BrokerMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestBrokers = BrokerMachine.TestCase
