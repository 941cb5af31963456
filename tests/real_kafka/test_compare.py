"""`tidelog compare` of three brokers, of Kafka and of tidelog: running, killed, after an unclean election, repaired.

The cluster runs once for all tests. The measures are the clients' view of leaders and in-sync replicas, and the
truncation that the follower then carries out.
"""

from __future__ import annotations

import pytest

from real_kafka.cluster import BROKERS, CONTROLLER
from real_kafka.cluster_node import Program
from real_kafka.compared_cluster import COMPACTED, KEPT, LOSSY, LOST, PLAIN, Story, compared_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param({}, id="kafka"),
        pytest.param(dict.fromkeys((CONTROLLER, *BROKERS), Program.TIDELOG), id="tidelog"),
    ],
)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Story:
    return compared_cluster(tmp_path_factory.mktemp("compare"), programs=request.param)


def test_running_brokers_have_no_problem(story: Story) -> None:
    for comparison in story.loaded:
        assert comparison.problems == []
        assert comparison.code == 0


def test_leaders_and_in_sync_replicas_are_those_that_clients_see(story: Story) -> None:
    found = story.loaded[-1].of(PLAIN)
    assert {node for node, row in found.items() if row["role"] == "leader"} == {story.leader}
    assert set(found[story.leader]["isr"]) == story.in_sync
    assert all(row["epochs"] == found[story.leader]["epochs"] for row in found.values())


def test_cleaned_replicas_are_compared_as_compacted(story: Story) -> None:
    assert story.cleaned > 0
    found = story.loaded[-1].of(COMPACTED)
    assert len(found) == 3
    assert all(row["compacted"] and row["difference"] is None for row in found.values())


def test_a_killed_broker_lags(story: Story) -> None:
    assert story.killed is not None
    row = story.killed.of(PLAIN)[story.victim]
    assert (row["state"], row["role"], row["truncated_records"]) == ("behind", "out of sync", 0)
    assert row["lag"] >= 100
    assert story.killed.code == 0, story.killed.problems


def test_an_unclean_election_loses_committed_records(story: Story) -> None:
    assert story.unclean is not None
    rows = story.unclean.of(LOSSY)
    old, new = rows[story.old_leader], rows[story.new_leader]
    assert (new["role"], new["state"]) == ("leader", "reference")
    assert (old["state"], old["high_watermark"], old["log_end"]) == ("diverged", KEPT + LOST, KEPT + LOST)
    assert (old["truncated_to"], old["truncated_records"]) == (KEPT, LOST)
    assert old["difference"]["offset"] == KEPT
    assert old["epochs"][-1][0] < new["epochs"][-1][0]
    (problem,) = story.unclean.problems
    assert f"its high watermark is {KEPT + LOST}" in problem
    assert f"only the records below {KEPT}" in problem
    assert story.unclean.code == 1


def test_the_follower_truncates_as_foreseen(story: Story) -> None:
    assert story.unclean is not None
    foreseen = story.unclean.of(LOSSY)[story.old_leader]["truncated_to"]
    kept = [batch for batch in story.before if batch in story.after]
    removed = [batch for batch in story.before if batch not in story.after]
    assert kept[-1].row.last_offset + 1 == foreseen == removed[0].row.base_offset
    assert sum(batch.row.record_count for batch in removed) == LOST


def test_replicas_are_equal_after_the_repair(story: Story) -> None:
    assert story.repaired is not None
    assert {row["state"] for row in story.repaired.of(LOSSY).values()} == {"reference", "equal"}
    assert (story.repaired.problems, story.repaired.code) == ([], 0)
