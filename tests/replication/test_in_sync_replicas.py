"""The rules of in-sync replicas and the high watermark, row by row."""

from __future__ import annotations

import pytest

from replication.leader_harness import LAG_MS, LEADER, LeaderHarness
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.in_sync_replicas import FINAL_ERRORS, WITHDRAWN_ERRORS, ProposeIsr
from tidelog.replication.isr_proposal import AlteredPartition, IsrMember


def isr_of(harness: LeaderHarness) -> list[int]:
    return sorted(harness.core.isr)


class TestHighWatermark:
    def test_it_is_the_smallest_log_end_of_the_in_sync_replicas(self) -> None:
        harness = LeaderHarness()
        harness.append(10)
        harness.fetch(2, 8)
        assert harness.log.high_watermark == 0, "nothing is known of replica 3"
        harness.fetch(3, 6)
        assert harness.log.high_watermark == 6
        harness.fetch(3, 9)
        assert harness.log.high_watermark == 8

    def test_a_single_in_sync_replica_decides_alone(self) -> None:
        harness = LeaderHarness((1,))
        harness.append(3)
        assert harness.log.high_watermark == 3

    def test_a_replica_outside_does_not_count(self) -> None:
        harness = LeaderHarness((1, 2))
        harness.append(10)
        harness.fetch(2, 10)
        assert harness.log.high_watermark == 10

    def test_a_replica_that_is_about_to_join_counts(self) -> None:
        harness = LeaderHarness((1, 2), end=5, high_watermark=5)
        harness.lead(leader_epoch=6, partition_epoch=8, isr=(1, 2))
        harness.append(5)
        harness.fetch(3, 5)  # at the epoch's start, so it joins
        harness.refuse(ErrorCode.OPERATION_NOT_ATTEMPTED)
        harness.fetch(2, 10)
        assert harness.log.high_watermark == 10, "it was never caught up"
        harness.fetch(3, 10)
        harness.refuse(ErrorCode.OPERATION_NOT_ATTEMPTED)
        harness.append(1)
        harness.fetch(2, 11, now_ms=LAG_MS)
        assert harness.log.high_watermark == 10, "it was caught up within the lag time"
        harness.append(1, now_ms=LAG_MS + 1)
        harness.fetch(2, 12, now_ms=LAG_MS + 1)
        assert harness.log.high_watermark == 12

    @pytest.mark.parametrize("reason", ["fenced", "shutting down", "other epoch"])
    def test_a_replica_that_may_not_join_does_not_count(self, reason: str) -> None:
        harness = LeaderHarness((1, 2))
        harness.append(5)
        harness.fetch(3, 5)
        harness.refuse(ErrorCode.INELIGIBLE_REPLICA)
        if reason == "fenced":
            harness.brokers.fenced.add(3)
        elif reason == "shutting down":
            harness.brokers.shutting_down.add(3)
        else:
            harness.brokers.epochs[3] += 1
        harness.append(1)
        harness.fetch(2, 6)
        assert harness.log.high_watermark == 6

    def test_a_pending_expansion_counts_already(self) -> None:
        harness = LeaderHarness((1, 2))
        harness.append(5)
        harness.fetch(2, 5)
        harness.fetch(3, 5)
        assert harness.core.pending is not None
        harness.append(5, now_ms=10 * LAG_MS)
        harness.fetch(2, 10, now_ms=10 * LAG_MS)
        assert harness.log.high_watermark == 5

    def test_a_pending_shrink_does_not_count_yet(self) -> None:
        harness = LeaderHarness()
        harness.append(10)
        harness.fetch(2, 10, now_ms=LAG_MS)
        harness.check_lag(LAG_MS + 1)
        harness.append(1, now_ms=LAG_MS + 1)
        harness.fetch(2, 11, now_ms=LAG_MS + 1)
        assert harness.log.high_watermark == 0
        harness.accept(now_ms=LAG_MS + 1)
        assert (isr_of(harness), harness.log.high_watermark) == ([1, 2], 11)

    def test_it_stays_while_the_isr_is_under_the_minimum(self) -> None:
        harness = LeaderHarness((1, 2), min_isr=3)
        harness.append(5)
        harness.fetch(2, 5)
        harness.fetch(3, 5)
        assert harness.log.high_watermark == 0, "a pending expansion does not reach the minimum"
        harness.accept()
        assert harness.log.high_watermark == 5

    def test_the_minimum_is_at_most_the_number_of_replicas(self) -> None:
        harness = LeaderHarness(min_isr=4)
        harness.append(5)
        harness.fetch(2, 5)
        harness.fetch(3, 5)
        assert harness.log.high_watermark == 5

    def test_metadata_that_shrinks_the_isr_advances_it(self) -> None:
        harness = LeaderHarness()
        harness.append(5)
        harness.fetch(2, 4)
        harness.lead(partition_epoch=8, isr=(1, 2))
        assert harness.log.high_watermark == 4

    def test_a_new_leader_waits_for_every_member(self) -> None:
        harness = LeaderHarness(end=10, high_watermark=4)
        harness.fetch(2, 10)
        assert harness.log.high_watermark == 4
        harness.fetch(3, 7)
        assert harness.log.high_watermark == 7

    def test_it_never_falls(self) -> None:
        harness = LeaderHarness(end=10)
        harness.fetch(2, 8)
        harness.fetch(3, 8)
        harness.fetch(3, 5)
        assert harness.watermarks == [8]


class TestExpansion:
    def test_a_follower_at_the_high_watermark_joins(self) -> None:
        harness = LeaderHarness((1, 2), end=10)
        harness.lead(leader_epoch=6, partition_epoch=8, isr=(1, 2))
        harness.append(5)
        harness.fetch(2, 15)
        assert harness.log.high_watermark == 15
        assert harness.fetch(3, 14) == ()
        (command,) = harness.fetch(3, 15)
        assert isinstance(command, ProposeIsr)
        proposal = command.proposal
        assert (proposal.leader_epoch, proposal.partition_epoch, proposal.leader_recovery_state) == (6, 8, 0)
        assert proposal.isr == tuple(IsrMember(broker_id=id_, broker_epoch=100 + id_) for id_ in (1, 2, 3))
        assert (isr_of(harness), sorted(harness.core.maximal_isr)) == ([1, 2], [1, 2, 3])
        harness.accept()
        assert (isr_of(harness), harness.core.partition_epoch, harness.core.pending) == ([1, 2, 3], 9, None)

    def test_a_follower_below_the_epochs_start_does_not_join(self) -> None:
        harness = LeaderHarness((1, 2), end=10, high_watermark=4)
        assert harness.fetch(3, 9) == ()
        assert harness.fetch(3, 10) != ()

    @pytest.mark.parametrize("broker_epoch", [103, -1], ids=["the broker's epoch", "no epoch"])
    def test_a_follower_in_its_brokers_epoch_joins(self, broker_epoch: int) -> None:
        harness = LeaderHarness((1, 2))
        harness.fetch(3, 0, broker_epoch=broker_epoch)
        joining = [proposal.isr[-1] for proposal in harness.proposals]
        assert joining == [IsrMember(broker_id=3, broker_epoch=broker_epoch)]

    @pytest.mark.parametrize("reason", ["fenced", "shutting down", "unregistered", "later epoch"])
    def test_an_ineligible_follower_does_not_join(self, reason: str) -> None:
        harness = LeaderHarness((1, 2))
        if reason == "fenced":
            harness.brokers.fenced.add(3)
        elif reason == "shutting down":
            harness.brokers.shutting_down.add(3)
        elif reason == "unregistered":
            del harness.brokers.epochs[3]
        epochs = {"later epoch": [104], "shutting down": [103]}.get(reason, [103, -1])
        for broker_epoch in epochs:
            assert harness.fetch(3, 0, broker_epoch=broker_epoch) == ()
        assert harness.core.followers[3].log_end.message_offset == 0, "its fetch counts nevertheless"

    def test_one_proposal_is_pending_at_a_time(self) -> None:
        harness = LeaderHarness((1,))
        harness.fetch(2, 0)
        assert harness.fetch(3, 0) == ()
        harness.accept()
        harness.fetch(3, 0)
        assert [sorted(proposal.broker_ids) for proposal in harness.proposals] == [[1, 2], [1, 2, 3]]

    def test_nothing_shrinks_while_a_proposal_is_pending(self) -> None:
        harness = LeaderHarness((1, 2))
        harness.fetch(3, 0)
        assert harness.core.lagging(LAG_MS + 1) == {2}
        assert harness.check_lag(LAG_MS + 1) == ()

    def test_a_member_does_not_join_again(self) -> None:
        harness = LeaderHarness()
        assert harness.fetch(2, 0) == ()


class TestExpiration:
    """A follower leaves once it has not been caught up for the lag time."""

    def test_a_caught_up_follower_stays(self) -> None:
        harness = LeaderHarness()
        harness.append(5)
        for replica_id in (2, 3):
            harness.fetch(replica_id, 5)
        assert harness.check_lag(10 * LAG_MS) == (), "there is nothing to fetch"

    def test_followers_that_never_fetch_leave_together(self) -> None:
        harness = LeaderHarness()
        harness.append(5)
        assert harness.check_lag(LAG_MS) == ()
        harness.check_lag(LAG_MS + 1)
        assert harness.proposals[-1].isr == (IsrMember(broker_id=LEADER, broker_epoch=101),)
        assert isr_of(harness) == [1, 2, 3]
        harness.accept()
        assert isr_of(harness) == [1]

    def test_a_stuck_follower_leaves(self) -> None:
        harness = LeaderHarness()
        harness.append(5)
        for replica_id in (2, 3):
            harness.fetch(replica_id, 5, now_ms=10)
        harness.append(1, now_ms=20)
        harness.fetch(2, 6, now_ms=30)
        harness.append(1, now_ms=10 + LAG_MS)
        assert harness.check_lag(10 + LAG_MS) == ()
        harness.check_lag(11 + LAG_MS)
        assert sorted(harness.proposals[-1].broker_ids) == [1, 2]

    def test_a_slow_follower_leaves_although_it_fetches(self) -> None:
        harness = LeaderHarness()
        for now_ms in range(0, 3 * LAG_MS, 10):
            harness.append(10, now_ms=now_ms)
            harness.fetch(2, harness.log.end, now_ms=now_ms)
            harness.fetch(3, harness.log.end // 3, now_ms=now_ms)
            harness.check_lag(now_ms)
        assert [sorted(proposal.broker_ids) for proposal in harness.proposals] == [[1, 2]]

    def test_a_follower_that_reaches_each_previous_end_stays(self) -> None:
        harness = LeaderHarness()
        previous = 0
        for now_ms in range(0, 3 * LAG_MS, 10):
            for replica_id in (2, 3):
                harness.fetch(replica_id, previous, now_ms=now_ms)
            previous = harness.log.end
            harness.append(10, now_ms=now_ms)
            harness.check_lag(now_ms)
        assert harness.proposals == []

    def test_a_member_that_is_no_replica_leaves(self) -> None:
        harness = LeaderHarness()
        harness.lead(partition_epoch=8, replicas=(1, 2), isr=(1, 2, 3))
        harness.check_lag(0)
        assert [sorted(proposal.broker_ids) for proposal in harness.proposals] == [[1, 2]]


class TestResponses:
    def pending(self) -> LeaderHarness:
        harness = LeaderHarness((1, 2))
        harness.append(5)
        harness.fetch(2, 5)
        harness.fetch(3, 5)
        assert harness.core.pending == harness.proposals[-1]
        return harness

    @pytest.mark.parametrize("error", sorted(WITHDRAWN_ERRORS))
    def test_a_proposal_that_was_not_applied_is_withdrawn(self, error: ErrorCode) -> None:
        harness = self.pending()
        assert harness.refuse(error) == ()
        assert (harness.core.pending, isr_of(harness), sorted(harness.core.maximal_isr)) == (None, [1, 2], [1, 2])
        harness.fetch(3, 5)
        assert len(harness.proposals) == 2

    @pytest.mark.parametrize("error", sorted(FINAL_ERRORS))
    def test_a_proposal_waits_for_the_metadata(self, error: ErrorCode) -> None:
        harness = self.pending()
        assert harness.refuse(error) == ()
        assert harness.fetch(3, 5) == ()
        assert sorted(harness.core.maximal_isr) == [1, 2, 3]
        harness.lead(partition_epoch=8, isr=(1, 2))
        assert sorted(harness.core.maximal_isr) == [1, 2]
        assert harness.core.pending is None

    @pytest.mark.parametrize(
        "error", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT]
    )
    def test_other_errors_repeat_the_proposal(self, error: ErrorCode) -> None:
        harness = self.pending()
        proposal = harness.core.pending
        assert proposal is not None
        assert harness.refuse(error) == (ProposeIsr(proposal=proposal),)
        assert harness.core.pending == proposal
        harness.accept()
        assert isr_of(harness) == [1, 2, 3]

    def shrinking(self) -> LeaderHarness:
        harness = LeaderHarness()
        harness.append(5)
        for replica_id in (2, 3):
            harness.fetch(replica_id, 4 if replica_id == 2 else 3)
        harness.check_lag(LAG_MS + 1)
        assert sorted(harness.proposals[-1].broker_ids) == [1]
        return harness

    def test_a_shrink_that_fails_keeps_the_members(self) -> None:
        harness = self.shrinking()
        harness.refuse(ErrorCode.INVALID_UPDATE_VERSION)
        assert (isr_of(harness), sorted(harness.core.maximal_isr)) == ([1, 2, 3], [1, 2, 3])
        harness.append(5, now_ms=LAG_MS + 1)
        assert harness.log.high_watermark == 3
        assert harness.check_lag(10 * LAG_MS) == ()

    def test_a_shrink_that_was_withdrawn_is_proposed_again(self) -> None:
        harness = self.shrinking()
        harness.refuse(ErrorCode.OPERATION_NOT_ATTEMPTED)
        harness.fetch(2, 5, now_ms=LAG_MS + 2)
        harness.check_lag(LAG_MS + 2)
        assert sorted(harness.proposals[-1].broker_ids) == [1, 2]
        harness.accept(now_ms=LAG_MS + 2)
        assert (isr_of(harness), harness.log.high_watermark) == ([1, 2], 5)

    def test_a_response_to_an_earlier_proposal_is_ignored(self) -> None:
        harness = self.pending()
        early = harness.proposals[0]
        harness.refuse(ErrorCode.OPERATION_NOT_ATTEMPTED)
        harness.fetch(3, 5)
        late = harness.proposals[1]
        assert (early.isr, early.partition_epoch) == (late.isr, late.partition_epoch)
        harness.run(harness.core.altered(early, AlteredPartition(error_code=ErrorCode.INELIGIBLE_REPLICA), 0))
        assert harness.core.pending == late

    @pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(4, 8), (6, 8), (5, 6)])
    def test_a_success_of_other_epochs_is_ignored(self, leader_epoch: int, partition_epoch: int) -> None:
        harness = self.pending()
        response = AlteredPartition(leader_epoch=leader_epoch, partition_epoch=partition_epoch, isr=(1,))
        assert harness.run(harness.core.altered(harness.proposals[-1], response, 0)) == ()
        assert isr_of(harness) == [1, 2]
        assert harness.core.pending is not None

    def test_a_success_without_a_change_commits(self) -> None:
        harness = self.pending()
        response = AlteredPartition(leader_epoch=5, partition_epoch=7, isr=(1, 2, 3))
        harness.run(harness.core.altered(harness.proposals[-1], response, 0))
        assert (isr_of(harness), harness.core.pending, harness.core.partition_epoch) == ([1, 2, 3], None, 7)

    def test_newer_metadata_makes_a_response_late(self) -> None:
        harness = self.pending()
        harness.lead(leader_epoch=6, partition_epoch=8, isr=(1, 2))
        harness.accept(harness.proposals[0])
        assert (isr_of(harness), harness.core.partition_epoch) == ([1, 2], 8)


class TestMetadata:
    def test_an_older_partition_epoch_is_ignored(self) -> None:
        harness = LeaderHarness()
        harness.lead(leader_epoch=9, partition_epoch=6, isr=(1,))
        assert (isr_of(harness), harness.core.leader_epoch) == ([1, 2, 3], 5)

    def test_the_known_partition_epoch_keeps_a_proposal(self) -> None:
        harness = LeaderHarness((1, 2))
        harness.fetch(3, 0)
        harness.lead(isr=(1, 2))
        assert sorted(harness.core.maximal_isr) == [1, 2, 3]
        harness.accept()
        assert isr_of(harness) == [1, 2, 3]

    def test_the_same_leader_epoch_keeps_the_followers(self) -> None:
        harness = LeaderHarness(end=5)
        harness.fetch(2, 3)
        harness.log.end = 9
        harness.lead(partition_epoch=8, replicas=(1, 2, 4), isr=(1, 2))
        assert {id_: state.log_end.message_offset for id_, state in harness.core.followers.items()} == {2: 3, 4: -1}
        assert harness.core.epoch_start_offset == 5

    def test_a_leader_elected_again_keeps_log_ends_and_starts_an_epoch(self) -> None:
        harness = LeaderHarness(end=5)
        harness.fetch(2, 3)
        harness.log.end = 9
        harness.lead(leader_epoch=6, partition_epoch=8)
        assert harness.core.followers[2].log_end.message_offset == 3
        assert harness.core.epoch_start_offset == 9

    def test_a_leader_after_another_one_forgets_log_ends(self) -> None:
        harness = LeaderHarness(end=5)
        harness.fetch(2, 3)
        harness.core.resign()
        assert (harness.fetch(2, 4), harness.check_lag(10**6), harness.append()) == ((), (), ())
        harness.lead(leader_epoch=7, partition_epoch=9)
        assert harness.core.followers[2].log_end.message_offset == -1

    def test_a_resigned_leader_ignores_the_response_to_its_proposal(self) -> None:
        harness = LeaderHarness((1, 2))
        harness.fetch(3, 0)
        harness.core.resign()
        harness.accept()
        assert harness.core.isr == frozenset()


class TestFetchErrors:
    @pytest.mark.parametrize(
        ("has_leader_epoch", "error"),
        [(True, ErrorCode.UNKNOWN_LEADER_EPOCH), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
    )
    def test_a_broker_that_is_no_replica(self, has_leader_epoch: bool, error: ErrorCode) -> None:
        harness = LeaderHarness()
        assert harness.core.fetch_error(4, has_leader_epoch=has_leader_epoch) == error
        assert harness.fetch(4, 0) == ()
        assert 4 not in harness.core.followers

    def test_an_earlier_broker_epoch(self) -> None:
        harness = LeaderHarness(end=5)
        for broker_epoch, error in (
            (101, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (102, ErrorCode.NONE),
            (103, ErrorCode.NONE),
            (-1, ErrorCode.NONE),
        ):
            assert harness.core.fetch_error(2, has_leader_epoch=True, broker_epoch=broker_epoch) == error
        harness.fetch(2, 5, broker_epoch=101)
        assert harness.core.followers[2].log_end.message_offset == -1


class TestProduce:
    def test_acks_all_needs_the_minimum_of_the_committed_isr(self) -> None:
        harness = LeaderHarness((1, 2), min_isr=3)
        assert harness.core.append_error() == ErrorCode.NOT_ENOUGH_REPLICAS
        harness.fetch(3, 0)
        assert harness.core.append_error() == ErrorCode.NOT_ENOUGH_REPLICAS
        harness.accept()
        assert harness.core.append_error() == ErrorCode.NONE

    def test_the_response_follows_the_high_watermark(self) -> None:
        harness = LeaderHarness(min_isr=2)
        harness.append(5)
        harness.fetch(2, 5)
        harness.fetch(3, 4)
        assert harness.core.replication_error(4) == ErrorCode.NONE
        assert harness.core.replication_error(5) is None

    def test_too_few_replicas_after_the_append(self) -> None:
        harness = LeaderHarness(min_isr=2)
        harness.append(5)
        harness.fetch(2, 5)
        harness.fetch(3, 5)
        harness.lead(partition_epoch=8, isr=(1,))
        assert harness.core.replication_error(5) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        harness.fetch(2, 5)
        assert harness.core.replication_error(5) == ErrorCode.NONE, "the maximal ISR counts, as in Kafka"

    def test_another_leader(self) -> None:
        harness = LeaderHarness()
        harness.core.resign()
        assert harness.core.replication_error(0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
