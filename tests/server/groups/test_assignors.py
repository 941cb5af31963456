"""Range and uniform assignors: every partition has one subscriber, and assignments are balanced and stable."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.server.groups.consumer.assignors import AssignedMember, AssignmentInput, assign_ranges, assign_uniformly
from tidelog.server.groups.consumer.targets import ASSIGNORS, assignor_names
from tidelog.server.groups.state.consumer_member import Partitions

A, B, C, D = (uuid.UUID(int=number) for number in (1, 2, 3, 4))


def member(*topics: uuid.UUID, instance_id: str | None = None, assigned: Partitions | None = None) -> AssignedMember:
    return AssignedMember(instance_id=instance_id, topics=frozenset(topics), assigned=assigned or {})


def numbers(assignment: Partitions) -> dict[uuid.UUID, list[int]]:
    return {topic_id: sorted(found) for topic_id, found in assignment.items()}


def test_ranges_are_runs_in_the_order_of_the_members() -> None:
    given_ = AssignmentInput(members={"m2": member(A, B), "m1": member(A, B)}, partitions={A: 3, B: 2})
    assert {name: numbers(found) for name, found in assign_ranges(given_).items()} == {
        "m1": {A: [0, 1], B: [0]},
        "m2": {A: [2], B: [1]},
    }


def test_static_members_come_first_in_ranges_by_instance_id() -> None:
    members = {"m1": member(A), "m2": member(A, instance_id="z"), "m3": member(A, instance_id="y")}
    found = assign_ranges(AssignmentInput(members=members, partitions={A: 3}))
    assert [numbers(found[name])[A] for name in ("m3", "m2", "m1")] == [[0], [1], [2]]


def test_uniform_moves_no_more_than_it_has_to() -> None:
    before = {A: frozenset(range(4))}
    members = {
        "m1": member(A, B, assigned=before),
        "m2": member(A, B, assigned={B: frozenset({0})}),
        "m3": member(A, B),
    }
    found = assign_uniformly(AssignmentInput(members=members, partitions={A: 4, B: 2}))
    assert found["m1"][A] < before[A]
    assert found["m2"][B] >= {0}
    assert [sum(map(len, found[name].values())) for name in members] == [2, 2, 2]


def test_uniform_evens_out_what_members_with_different_topics_have() -> None:
    everything = {A: frozenset(range(6)), B: frozenset(range(2))}
    members = {"m1": member(A, B, assigned=everything), "m2": member(A), "m3": member(B)}
    found = assign_uniformly(AssignmentInput(members=members, partitions={A: 6, B: 2}))
    sizes = {name: sum(map(len, partitions.values())) for name, partitions in found.items()}
    assert sizes == {"m1": 3, "m2": 3, "m3": 2}


topics = st.sets(st.sampled_from([A, B, C, D]), max_size=4)


@given(
    subscriptions=st.lists(topics, min_size=1, max_size=6),
    counts=st.fixed_dictionaries({topic: st.integers(1, 7) for topic in (A, B, C, D)}),
    name=st.sampled_from(sorted(ASSIGNORS)),
    rounds=st.lists(st.integers(0, 5), max_size=3),
)
def test_every_partition_is_one_subscribers(
    subscriptions: list[set[uuid.UUID]], counts: dict[uuid.UUID, int], name: str, rounds: list[int]
) -> None:
    """This holds too if members leave and the others keep their partitions."""
    members = {f"m{number}": member(*read) for number, read in enumerate(subscriptions)}
    for gone in [-1, *rounds]:
        members.pop(f"m{gone}", None)
        read = {topic_id for one in members.values() for topic_id in one.topics}
        given_ = AssignmentInput(members=members, partitions={topic_id: counts[topic_id] for topic_id in read})
        found = ASSIGNORS[name](given_)
        owners = Counter((topic_id, one) for parts in found.values() for topic_id in parts for one in parts[topic_id])
        assert owners == {(topic_id, one): 1 for topic_id in read for one in range(counts[topic_id])}
        assert found.keys() == members.keys()
        assert all(parts.keys() <= members[owner].topics and all(parts.values()) for owner, parts in found.items())
        if name == "uniform" and given_.is_homogeneous and members:
            sizes = [sum(map(len, parts.values())) for parts in found.values()]
            assert max(sizes) - min(sizes) <= 1
        members = {owner: member(*members[owner].topics, assigned=parts) for owner, parts in found.items()}


@pytest.mark.parametrize(
    ("configured", "names"),
    [
        (("uniform", "range"), ("uniform", "range")),
        (("org.apache.kafka.coordinator.group.assignor.RangeAssignor", "my.Own"), ("range",)),
    ],
)
def test_assignors_may_be_named_by_kafkas_classes(configured: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert assignor_names(configured) == names
