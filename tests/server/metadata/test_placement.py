"""Replicas are spread over racks and brokers, and a fenced broker is never the leader."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.metadata.images import directory_of, image_of, settings
from tidelog.protocol.errors import ApiError
from tidelog.server.metadata.controller.brokers import begin_shutdown, cordon_directories
from tidelog.server.metadata.controller.placement import place_replicas
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.storage.checkpoint import uuid_to_text


def placed(brokers: int, partitions: int, replicas: int, seed: int = 1, **image: object) -> list[tuple[int, ...]]:
    found = image_of(range(1, brokers + 1), **image)  # type: ignore[arg-type]
    return place_replicas(found.brokers.values(), partitions, replicas, Random(seed))


@given(st.integers(1, 7), st.integers(1, 30), st.data())
def test_replicas_are_on_different_brokers_and_leaders_are_spread(
    brokers: int, partitions: int, data: st.DataObject
) -> None:
    replicas = data.draw(st.integers(1, brokers))
    found = placed(brokers, partitions, replicas, data.draw(st.integers(0, 99)))
    assert len(found) == partitions
    assert all(len(set(one)) == replicas and set(one) <= set(range(1, brokers + 1)) for one in found)
    leaders = Counter(one[0] for one in found)
    assert max(leaders.values()) - min(leaders.get(broker, 0) for broker in range(1, brokers + 1)) <= 2


def test_one_partition_has_a_replica_in_each_rack() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    for one in placed(6, 20, 3, racks=racks):
        assert {racks[broker] for broker in one} == {"a", "b", "c"}


def test_fenced_brokers_come_last() -> None:
    for seed in range(20):
        for one in placed(4, 8, 3, seed, fenced=(1, 2)):
            assert set(one[:2]) == {3, 4}
            assert one[2] in (1, 2)


def test_a_broker_whose_directories_are_all_cordoned_gets_nothing() -> None:
    image = image_of((1, 2, 3))
    for record in cordon_directories(image, 2, [directory_of(2)]).records:
        image.apply(record)
    for seed in range(20):
        found = place_replicas(image.brokers.values(), 6, 2, Random(seed))
        assert {broker for one in found for broker in one} == {1, 3}


def test_a_broker_that_shuts_down_gets_nothing() -> None:
    image = image_of((1, 2, 3))
    for record in begin_shutdown(image, settings(), 2).records:
        image.apply(record)
    for seed in range(20):
        found = place_replicas(image.brokers.values(), 6, 2, Random(seed))
        assert {broker for one in found for broker in one} == {1, 3}


def test_a_broker_with_one_directory_that_is_not_cordoned_gets_partitions() -> None:
    image = image_of((1,))
    two = {"brokerId": 1, "brokerEpoch": 10, "logDirs": [uuid_to_text(directory_of(broker)) for broker in (1, 2)]}
    image.apply(MetadataRecord("BrokerRegistrationChangeRecord", two))
    for record in cordon_directories(image, 1, [directory_of(1)]).records:
        image.apply(record)
    assert place_replicas(image.brokers.values(), 1, 1, Random(1)) == [(1,)]


@pytest.mark.parametrize(
    ("brokers", "replicas", "fenced", "reason"),
    [
        (1, 0, (), "Invalid replication factor 0: the replication factor must be positive."),
        (2, 1, (1, 2), "All brokers are currently fenced, or have all their log directories cordoned."),
        (0, 1, (), "All brokers are currently fenced, or have all their log directories cordoned."),
    ],
)
def test_what_cannot_be(brokers: int, replicas: int, fenced: tuple[int, ...], reason: str) -> None:
    with pytest.raises(ApiError) as refused:
        placed(brokers, 1, replicas, fenced=fenced)
    assert refused.value.message == reason
