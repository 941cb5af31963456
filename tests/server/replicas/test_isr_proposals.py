"""The proposals of several partitions on their way to the controller."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from server.replicas.replica_harness import NODE, ReplicaHarness
from server.replicas.test_partition import READ_BY_FOLLOWER
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.metadata.requests import AlteredPartition, Outcome, PartitionAlteration
from tidelog.server.replicas.isr_proposals import IsrProposals

FOLLOWER = 2


class Controller:
    """A controller that returns planned errors, and with success after them."""

    def __init__(self, harness: ReplicaHarness) -> None:
        self.requests: list[list[PartitionAlteration]] = []
        self.failures: list[ApiError] = []
        self.codes: list[ErrorCode] = []
        self.refused = 0
        self._harness = harness

    def proposals(self) -> IsrProposals:
        def refused() -> None:
            self.refused += 1

        return IsrProposals(
            self.alter,
            self._harness.replicas._by_id.get,
            timers=self._harness.timers,
            spawn=self._harness.loop.create_task,
            note_failure=refused,
        )

    async def alter(self, alterations: Sequence[PartitionAlteration]) -> list[AlteredPartition]:
        self.requests.append(list(alterations))
        if self.failures:
            raise self.failures.pop(0)
        return [self._answer(one) for one in alterations]

    def _answer(self, one: PartitionAlteration) -> AlteredPartition:
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code:
            return AlteredPartition(Outcome(code), None)
        before = self._harness.image.topics_by_id[one.topic_id].partitions[one.partition]
        after = replace(before, isr=tuple(one.isr), partition_epoch=before.partition_epoch + 1)
        return AlteredPartition(Outcome(ErrorCode.NONE), after)


def ready(harness: ReplicaHarness, partitions: int = 1) -> Controller:
    """Return the controller of partitions whose follower is about to join the in-sync replicas."""
    controller = Controller(harness)
    harness.register(FOLLOWER, epoch=9)
    harness.create("t", partitions, replicas=(NODE, FOLLOWER), isr=(NODE,))
    harness.replicas._proposals = controller.proposals()
    for number in range(partitions):
        partition = harness.partition(TopicPartition("t", number))
        partition.leading._setup = replace(
            partition.leading._setup,
            propose=partial(harness.replicas._proposals.submit, partition),
        )
    return controller


async def join(harness: ReplicaHarness, number: int = 0) -> None:
    partition = harness.partition(TopicPartition("t", number))
    read = partition.read(READ_BY_FOLLOWER)
    partition.follower_fetched(FOLLOWER, read, log_start_offset=0, broker_epoch=9)


def joined(harness: ReplicaHarness, number: int = 0) -> bool:
    return FOLLOWER in harness.partition(TopicPartition("t", number)).in_sync.isr


def pass_time(harness: ReplicaHarness) -> None:
    """Let time pass until no proposal waits for the end of a back-off."""

    async def passed() -> None:
        while harness.replicas._proposals._sending is not None:
            harness.clock.sleep_ms(10)
            await asyncio.sleep(0)

    harness.run(passed())


def test_proposals_that_come_during_a_request_share_the_next_one(harness: ReplicaHarness) -> None:
    controller = ready(harness, 3)

    async def scenario() -> None:
        for number in range(3):
            await join(harness, number)

    harness.run(scenario())
    pass_time(harness)
    assert [len(request) for request in controller.requests] == [3]
    assert all(joined(harness, number) for number in range(3))


def test_a_failed_request_is_sent_again_after_the_back_off(harness: ReplicaHarness) -> None:
    controller = ready(harness)
    controller.failures = [ApiError(ErrorCode.STALE_BROKER_EPOCH), ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    harness.run(join(harness))
    pass_time(harness)
    assert len(controller.requests) == 3
    assert controller.requests[0] == controller.requests[2]
    assert joined(harness)
    assert controller.refused == 0


def test_an_unexpected_error_is_followed_by_the_same_proposal(harness: ReplicaHarness) -> None:
    controller = ready(harness)
    controller.codes = [ErrorCode.UNKNOWN_SERVER_ERROR]
    harness.run(join(harness))
    pass_time(harness)
    assert len(controller.requests) == 2
    assert joined(harness)
    assert controller.refused == 1


def test_a_final_error_is_not_repeated(harness: ReplicaHarness) -> None:
    for code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NEW_LEADER_ELECTED):
        controller = ready(harness)
        controller.codes = [code]
        harness.run(join(harness))
        pass_time(harness)
        assert len(controller.requests) == 1, code
        assert harness.partition().in_sync.pending is not None, code
        harness.delete("t")


def test_the_response_of_a_partition_that_is_gone_is_dropped(harness: ReplicaHarness) -> None:
    controller = ready(harness)
    controller.failures = [ApiError(ErrorCode.NOT_CONTROLLER)]
    partition = harness.partition()
    harness.run(join(harness))
    harness.replicas._remove(partition)
    pass_time(harness)
    assert len(controller.requests) == 2
    assert partition.in_sync.isr == {NODE}


def test_a_proposal_has_the_topics_id(harness: ReplicaHarness) -> None:
    controller = ready(harness)
    harness.run(join(harness))
    pass_time(harness)
    (alteration,) = controller.requests[0]
    assert isinstance(alteration.topic_id, uuid.UUID)
    assert (alteration.topic_id, list(alteration.broker_epochs)) == (harness.image.topics["t"].id, [-1, 9])
