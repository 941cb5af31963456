"""The queue of proposals to the controller: one request in flight, retries, and one proposal for each partition."""

from __future__ import annotations

import uuid

from tidelog.protocol.errors import ErrorCode
from tidelog.replication.alter_partitions import AlterPartitionResult, AlterPartitions
from tidelog.replication.isr_proposal import AlteredPartition, IsrMember, IsrProposal

TOPIC = uuid.UUID(int=7)
FIRST, SECOND = (TOPIC, 0), (TOPIC, 1)
DONE = AlteredPartition(leader_epoch=1, partition_epoch=3, isr=(1, 2))


def proposal(number: int = 1) -> IsrProposal:
    return IsrProposal(number=number, leader_epoch=1, partition_epoch=2, isr=(IsrMember(broker_id=1),))


def test_an_empty_queue_has_no_request() -> None:
    assert AlterPartitions().next_request(0) is None


def test_proposals_of_several_partitions_share_a_request() -> None:
    queue = AlterPartitions()
    assert queue.submit(FIRST, proposal()) is None
    assert queue.submit(SECOND, proposal()) is None
    batch = queue.next_request(0)
    assert batch is not None
    assert list(batch.proposals) == [FIRST, SECOND]
    results = queue.received(batch, {SECOND: DONE, FIRST: DONE})
    assert results == tuple(
        AlterPartitionResult(key=key, proposal=proposal(), response=DONE) for key in (FIRST, SECOND)
    )
    assert queue.next_request(0) is None


def test_one_request_is_in_flight_at_a_time() -> None:
    queue = AlterPartitions()
    queue.submit(FIRST, proposal())
    batch = queue.next_request(0)
    assert batch is not None
    queue.submit(SECOND, proposal())
    assert queue.next_request(0) is None
    queue.received(batch, {FIRST: DONE})
    following = queue.next_request(0)
    assert following is not None
    assert list(following.proposals) == [SECOND]


def test_a_second_proposal_of_a_partition_is_refused_until_the_response() -> None:
    queue = AlterPartitions()
    queue.submit(FIRST, proposal())
    refused = queue.submit(FIRST, proposal(2))
    assert refused is not None
    assert (refused.proposal.number, refused.response.error_code) == (2, ErrorCode.OPERATION_NOT_ATTEMPTED)
    batch = queue.next_request(0)
    assert batch is not None
    assert queue.submit(FIRST, proposal(2)) is not None
    assert [sent.number for sent in batch.proposals.values()] == [1]
    queue.received(batch, {FIRST: DONE})
    assert queue.submit(FIRST, proposal(2)) is None, "a result leaves the queue before its consequences"


def test_an_error_of_a_partition_is_a_result() -> None:
    for error in (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_CONTROLLER):
        queue = AlterPartitions()
        queue.submit(FIRST, proposal())
        batch = queue.next_request(0)
        assert batch is not None
        (result,) = queue.received(batch, {FIRST: AlteredPartition(error_code=error)})
        assert result.response.error_code == error
        assert queue.next_request(0) is None


def test_a_partition_that_the_response_lacks_is_sent_again() -> None:
    queue = AlterPartitions()
    queue.submit(FIRST, proposal())
    queue.submit(SECOND, proposal())
    batch = queue.next_request(0)
    assert batch is not None
    assert [result.key for result in queue.received(batch, {FIRST: DONE})] == [FIRST]
    again = queue.next_request(0)
    assert again is not None
    assert list(again.proposals) == [SECOND]


def test_a_failed_request_is_sent_again_after_the_back_off() -> None:
    queue = AlterPartitions(retry_backoff_ms=50)
    queue.submit(FIRST, proposal())
    batch = queue.next_request(1000)
    assert batch is not None
    queue.failed(batch, 1000)
    queue.submit(SECOND, proposal())
    assert (queue.ready_at_ms, queue.next_request(1049)) == (1050, None)
    again = queue.next_request(1050)
    assert again is not None
    assert list(again.proposals) == [FIRST, SECOND]


def test_a_late_response_of_an_earlier_request_is_ignored() -> None:
    queue = AlterPartitions(retry_backoff_ms=0)
    queue.submit(FIRST, proposal())
    early = queue.next_request(0)
    assert early is not None
    queue.failed(early, 0)
    late = queue.next_request(0)
    assert late is not None
    assert queue.received(early, {FIRST: DONE}) == ()
    queue.failed(early, 5)
    assert queue.ready_at_ms == 0
    assert len(queue.received(late, {FIRST: DONE})) == 1
