"""Random sessions of a client with this project's broker: it reads the wanted partitions, or refuses the request."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData, ReplicaState
from tidelog.replication import FetchPosition, FetchResponseHead, FetchSessionHandler, SessionRequest, WantedPartition
from tidelog.server.fetching.fetch_context import begin_fetch
from tidelog.server.fetching.fetch_session import PartitionResult
from tidelog.server.fetching.session_cache import SessionCache

WITH_NAMES, WITH_IDS = 12, 13
PARTITIONS = [TopicPartition(topic, number) for topic in ("a", "b") for number in (0, 1)]
POSITIONS = st.builds(
    FetchPosition,
    offset=st.integers(0, 2),
    leader_epoch=st.integers(0, 1),
    last_fetched_epoch=st.integers(-1, 0),
    log_start_offset=st.just(0),
)


def positions(
    partitions: Mapping[TopicPartition, FetchPosition], ids: Mapping[str, int]
) -> dict[TopicPartition, WantedPartition]:
    return {
        name: WantedPartition(
            position=position, max_bytes=100, topic_id=uuid.UUID(int=ids[name.topic]) if ids[name.topic] else None
        )
        for name, position in partitions.items()
    }


def wire(request: SessionRequest, version: int) -> FetchRequest:
    by_id = version >= WITH_IDS
    topics, forgotten = [], []
    for name, wanted in request.partitions.items():
        at = wanted.position
        fields = FetchPartition(
            name.partition, at.leader_epoch, at.offset, at.last_fetched_epoch, at.log_start_offset, wanted.max_bytes
        )
        topics.append(FetchTopic("" if by_id else name.topic, wanted.topic_id if by_id else None, [fields]))
    for gone in request.forgotten:
        name = gone.topic_partition
        topic = ForgottenTopic("" if by_id else name.topic, gone.topic_id if by_id else None, [name.partition])
        forgotten.append(topic)
    return FetchRequest(
        ReplicaState(),
        max_wait=0,
        min_bytes=0,
        max_bytes=1000,
        isolation_level=0,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
        rack_id="",
    )


class Sessions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.client, self.cache, self.now_ms = FetchSessionHandler(), SessionCache(2), 0
        self.version = WITH_NAMES

    @rule(
        partitions=st.dictionaries(st.sampled_from(PARTITIONS), POSITIONS),
        ids=st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.integers(0, 12)}),
        is_lost=st.sampled_from(["no", "no", "no", "request", "response"]),
        has_records=st.booleans(),
    )
    def fetch(
        self, partitions: dict[TopicPartition, FetchPosition], ids: dict[str, int], is_lost: str, has_records: bool
    ) -> None:
        wanted = positions(partitions, ids)
        request = self.client.next_request(wanted)
        version = WITH_IDS if request.uses_topic_ids else WITH_NAMES
        if is_lost == "request":
            self.client.fail()
            return
        context = begin_fetch(version, wire(request, version), self.cache, self.now_ms)
        records = b"records" if has_records else b""
        results = [PartitionResult(one, PartitionData(one.partition, records=records)) for one in context.wanted]
        selected = context.select(results, self.now_ms)
        if is_lost == "response":
            self.client.fail()
            return
        head = FetchResponseHead(
            error_code=selected.error,
            session_id=selected.session_id,
            partitions=[self.named(result, version) for result in selected.results],
        )
        if self.client.receive(head):
            assert selected.error == ErrorCode.NONE
            read = {self.named(result, version): result.cached.wanted.fetch_offset for result in results}
            asked = {
                (wanted[name].topic_id, name.partition) if version >= WITH_IDS else name: wanted[name].position.offset
                for name in wanted
            }
            assert read == asked
        else:
            assert selected.error != ErrorCode.NONE, self.client.problem

    def named(self, result: PartitionResult, version: int) -> TopicPartition | tuple[uuid.UUID, int]:
        cached = result.cached
        if version < WITH_IDS:
            return TopicPartition(cached.topic, cached.partition)
        assert cached.topic_id is not None
        return (cached.topic_id, cached.partition)

    @rule()
    def evict(self) -> None:
        self.cache.remove(self.client.session_id)

    @rule(epoch=st.integers(1, 5))
    def lose_count(self, epoch: int) -> None:
        """Let the broker expect another epoch."""
        session = self.cache.get(self.client.session_id)
        if session is not None:
            session.epoch = epoch

    @rule()
    def close(self) -> None:
        request = self.client.close_request()
        if request is not None:
            selected = begin_fetch(WITH_NAMES, wire(request, WITH_NAMES), self.cache, self.now_ms).select([], 0)
            assert self.client.receive(FetchResponseHead(session_id=selected.session_id))
            assert self.cache.get(request.session_id) is None


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
