"""The record of a partition's wanted change: leader, in-sync and eligible replicas, assignment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from server.metadata.images import TOPIC_ID, directory_of, partition_of
from tidelog.server.metadata.controller.partition_change import (
    Election,
    ElectionRules,
    TargetReplicas,
    change_partition,
)
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.storage.checkpoint import uuid_to_text


def changed(
    state: PartitionState,
    wanted: TargetReplicas | None = None,
    *,
    alive: Iterable[int] = (1, 2, 3),
    election: Election = Election.ONLINE,
    min_isr: int = 1,
    keeps_eligible: bool = True,
    metadata_version: int = 27,
) -> dict[str, Any]:
    """Return the record's fields without the partition's identity, or an empty dict if there is no record."""
    living = set(alive)
    rules = ElectionRules(
        min_isr=min_isr,
        may_lead=living.__contains__,
        default_directory=directory_of,
        keeps_eligible=keeps_eligible,
        metadata_version=metadata_version,
        election=election,
    )
    record = change_partition(TOPIC_ID, 5, state, wanted or TargetReplicas(), rules)
    if record is None:
        return {}
    fields = dict(record.fields)
    assert (fields.pop("partitionId"), fields.pop("topicId")) == (5, uuid_to_text(TOPIC_ID))
    return fields


class TestLeader:
    def test_nothing_is_written_where_all_is_well(self) -> None:
        assert changed(partition_of((1, 2, 3))) == {}

    def test_the_next_in_sync_replica_takes_over(self) -> None:
        assert changed(partition_of((1, 2, 3)), TargetReplicas(isr=(2, 3)), alive=(2, 3)) == {
            "leader": 2,
            "isr": [2, 3],
        }

    def test_one_that_is_not_in_sync_does_not(self) -> None:
        state = partition_of((1, 2, 3), isr=(1, 3))
        assert changed(state, TargetReplicas(isr=(3,)), alive=(2, 3)) == {"leader": 3, "isr": [3]}

    def test_it_stays_though_it_is_not_the_preferred_one(self) -> None:
        assert changed(partition_of((1, 2), leader=2)) == {}

    def test_the_preferred_one_leads_where_that_is_asked_for(self) -> None:
        assert changed(partition_of((1, 2), leader=2), election=Election.PREFERRED) == {"leader": 1}

    @pytest.mark.parametrize(("alive", "isr"), [((2,), (1, 2)), ((1, 2), (2,))])
    def test_but_not_one_that_is_gone_or_out_of_sync(self, alive: tuple[int, ...], isr: tuple[int, ...]) -> None:
        state = partition_of((1, 2), leader=2, isr=isr)
        assert changed(state, alive=alive, election=Election.PREFERRED) == {}

    def test_nobody_leads_where_nobody_may(self) -> None:
        found = changed(partition_of((1, 2), isr=(1,)), TargetReplicas(isr=()), alive=(2,))
        assert found == {"leader": -1, "isr": [], "eligibleLeaderReplicas": [1], "lastKnownElr": [1]}

    def test_any_living_one_leads_where_an_unclean_election_is_allowed(self) -> None:
        state = partition_of((1, 2), isr=(1,))
        found = changed(state, TargetReplicas(isr=()), alive=(2,), election=Election.UNCLEAN)
        assert found == {"leader": 2, "isr": [2], "leaderRecoveryState": 1}

    def test_nothing_is_written_twice_of_a_recovery_under_way(self) -> None:
        state = partition_of((1, 2), isr=(1,), is_recovering=True)
        assert changed(state, TargetReplicas(isr=()), alive=(2,), election=Election.UNCLEAN) == {
            "leader": 2,
            "isr": [2],
        }

    def test_recovered(self) -> None:
        state = partition_of((1,), is_recovering=True)
        assert changed(state, TargetReplicas(isr=(1,), is_recovering=False)) == {"leaderRecoveryState": 0}


class TestEligibleLeaders:
    def test_are_those_that_left_while_there_were_too_few(self) -> None:
        found = changed(partition_of((1, 2, 3)), TargetReplicas(isr=(1,)), min_isr=2)
        assert found == {"isr": [1], "eligibleLeaderReplicas": [2, 3]}

    def test_are_not_kept_where_enough_are_in_sync(self) -> None:
        state = partition_of((1, 2, 3), isr=(1,), elr=(2, 3))
        assert changed(state, TargetReplicas(isr=(1, 2)), min_isr=2) == {"isr": [1, 2], "eligibleLeaderReplicas": []}

    def test_lead_where_nobody_is_in_sync(self) -> None:
        state = partition_of((1, 2), isr=(), elr=(2,), last_known_elr=(1,))
        found = changed(state, alive=(2,))
        assert found == {"leader": 2, "isr": [2], "eligibleLeaderReplicas": [], "lastKnownElr": []}

    def test_do_not_lead_beside_one_in_sync(self) -> None:
        assert changed(partition_of((1, 2), isr=(1,), elr=(2,), leader=-1), alive=(2,), min_isr=2) == {}

    def test_are_not_those_that_stopped_uncleanly(self) -> None:
        state = partition_of((1, 2), isr=(), elr=(1, 2), last_known_elr=(1,))
        found = changed(state, TargetReplicas(isr=(), unclean=frozenset({1})), alive=())
        assert found == {"eligibleLeaderReplicas": [2]}

    def test_are_not_those_that_are_no_longer_replicas(self) -> None:
        state = partition_of((1, 2, 3), isr=(1,), elr=(2, 3))
        found = changed(state, TargetReplicas(replicas=(1, 2)), min_isr=2)
        assert found["eligibleLeaderReplicas"] == [2]

    def test_the_last_known_leader_leads_uncleanly_where_none_is_left(self) -> None:
        state = partition_of((1,), isr=(), last_known_elr=(1,))
        assert changed(state) == {"leader": 1, "isr": [1], "leaderRecoveryState": 1, "lastKnownElr": []}
        assert changed(state, alive=()) == {}

    def test_without_the_feature_the_last_one_stays_in_sync(self) -> None:
        assert changed(partition_of((1,)), TargetReplicas(isr=()), alive=(), keeps_eligible=False) == {"leader": -1}


class TestAssignment:
    def test_a_reassignment_begins_with_all_replicas(self) -> None:
        wanted = TargetReplicas(replicas=(2, 3, 1), adding=(2, 3), removing=(1,))
        found = changed(partition_of((1,)), wanted)
        assert found == {
            "replicas": [2, 3, 1],
            "addingReplicas": [2, 3],
            "removingReplicas": [1],
            "directories": [uuid_to_text(directory_of(broker)) for broker in (2, 3, 1)],
        }

    def test_and_ends_when_those_that_stay_are_in_sync(self) -> None:
        state = partition_of((2, 3, 1), isr=(1, 2), leader=1, adding=(2, 3), removing=(1,))
        assert changed(state, TargetReplicas(isr=(1, 2))) == {}
        assert changed(state, TargetReplicas(isr=(1, 2, 3))) == {
            "leader": 2,
            "isr": [2, 3],
            "replicas": [2, 3],
            "addingReplicas": [],
            "removingReplicas": [],
            "directories": [uuid_to_text(directory_of(broker)) for broker in (2, 3)],
        }

    def test_the_epoch_grows_where_a_replica_leaves(self) -> None:
        found = changed(partition_of((1, 2), isr=(1,)), TargetReplicas(replicas=(1,)))
        assert found["leader"] == 1

    def test_another_order_is_only_another_order(self) -> None:
        found = changed(partition_of((1, 2)), TargetReplicas(replicas=(2, 1)))
        assert found.keys() == {"replicas", "directories"}

    def test_a_directory_of_one_replica(self) -> None:
        found = changed(partition_of((1, 2)), TargetReplicas(directories={2: directory_of(9)}))
        assert found == {"directories": [uuid_to_text(directory_of(1)), uuid_to_text(directory_of(9))]}

    def test_directories_are_of_later_releases(self) -> None:
        assert (
            changed(partition_of((1, 2)), TargetReplicas(directories={2: directory_of(9)}), metadata_version=16) == {}
        )

    def test_before_3_6_the_epoch_grew_with_each_shrink(self) -> None:
        state = partition_of((1, 2))
        assert changed(state, TargetReplicas(isr=(1,)), metadata_version=11) == {"isr": [1], "leader": 1}
        assert changed(state, TargetReplicas(isr=(1,)), metadata_version=12) == {"isr": [1]}


class TestEpochs:
    def test_the_leader_epoch_grows_with_a_leader_the_partition_epoch_always(self) -> None:
        state = partition_of((1, 2), leader_epoch=3, partition_epoch=8)
        after = state.changed({"isr": [1]})
        assert (after.leader_epoch, after.partition_epoch, after.isr) == (3, 9, (1,))
        again = after.changed({"leader": 1})
        assert (again.leader_epoch, again.partition_epoch, again.leader) == (4, 10, 1)
