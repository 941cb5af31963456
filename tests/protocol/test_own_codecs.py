"""Our codecs of Produce, Fetch, ApiVersions and Metadata, which do not use kio, agree with kio's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.protocol import api_versions, fetch, metadata, produce
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.leader_hints import UNKNOWN_LEADER, LeaderIdAndEpoch, NodeEndpoint
from tidelog.protocol.messages import read_request, write_request, write_response

INT8, INT16 = st.integers(-128, 127), st.integers(-(2**15), 2**15 - 1)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=200)
TOPIC_ID = st.none() | st.uuids().filter(lambda found: found.int != 0)
RECORDS = st.binary(max_size=300)


def few(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, max_size=3)


def struct(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields)


PRODUCE_REQUESTS = struct(
    transactional_id=st.none() | TEXT,
    acks=INT16,
    timeout=INT32,
    topic_data=few(
        struct(name=TEXT, topic_id=TOPIC_ID, partition_data=few(struct(index=INT32, records=st.none() | RECORDS)))
    ),
)
FETCH_REQUESTS = struct(
    replica_id=INT32,
    replica_state=struct(replica_id=INT32, replica_epoch=INT64),
    max_wait=INT32,
    min_bytes=INT32,
    max_bytes=INT32,
    isolation_level=INT8,
    session_id=INT32,
    session_epoch=INT32,
    topics=few(
        struct(
            topic=TEXT,
            topic_id=TOPIC_ID,
            partitions=few(
                struct(
                    partition=INT32,
                    current_leader_epoch=INT32,
                    fetch_offset=INT64,
                    last_fetched_epoch=INT32,
                    log_start_offset=INT64,
                    partition_max_bytes=INT32,
                    replica_directory_id=TOPIC_ID,
                    high_watermark=INT64,
                )
            ),
        )
    ),
    forgotten_topics_data=few(struct(topic=TEXT, topic_id=TOPIC_ID, partitions=few(INT32))),
    rack_id=TEXT,
    cluster_id=st.none() | TEXT,
)
LEADERS = st.just(UNKNOWN_LEADER) | st.builds(LeaderIdAndEpoch, INT32, INT32)
NODES = few(st.builds(NodeEndpoint, INT32, TEXT, INT32, st.none() | TEXT))
PRODUCED_PARTITIONS = st.builds(
    produce.PartitionProduceResponse,
    INT32,
    st.integers(-1, 133),
    INT64,
    st.integers(-1, 2**41),
    INT64,
    few(st.builds(produce.RecordError, INT32, st.none() | TEXT)),
    st.none() | TEXT,
    LEADERS,
)
PRODUCED = few(st.builds(produce.TopicProduceResponse, TEXT, TOPIC_ID, few(PRODUCED_PARTITIONS)))
FETCHED_PARTITIONS = st.builds(
    fetch.PartitionData,
    INT32,
    st.integers(-1, 133),
    INT64,
    INT64,
    INT64,
    st.none() | few(st.builds(fetch.AbortedTransaction, INT64, INT64)),
    INT32,
    RECORDS,
    st.builds(fetch.DivergingEpoch, INT32, INT64) | st.just(fetch.NO_DIVERGENCE),
    LEADERS,
)
FETCHED = st.builds(
    fetch.FetchResponse,
    few(st.builds(fetch.FetchableTopicResponse, TEXT, TOPIC_ID, few(FETCHED_PARTITIONS))),
    st.integers(-1, 133),
    INT32,
    st.integers(0, 2**31 - 1),
    NODES,
)


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """Batches in a file."""

    data: bytes

    def __len__(self) -> int:
        return len(self.data)


def assert_same(own: Any, by_kio: Any) -> None:
    """Compare every field of our own message with kio's."""
    if isinstance(own, tuple) and hasattr(own, "_fields"):
        for name in own._fields:
            assert_same(getattr(own, name), getattr(by_kio, name))
    elif isinstance(own, list):
        assert len(own) == len(by_kio)
        for one, other in zip(own, by_kio, strict=True):
            assert_same(one, other)
    else:
        assert own == by_kio


def values_of(own: Any) -> Any:
    """Return the values that ``write_response`` takes."""
    if isinstance(own, tuple) and hasattr(own, "_fields"):
        return {name: values_of(getattr(own, name)) for name in own._fields}
    return [values_of(one) for one in own] if isinstance(own, list | tuple) else own


@settings(max_examples=40, deadline=None)
@given(version=st.integers(produce.OLDEST, produce.LATEST), values=PRODUCE_REQUESTS)
def test_a_produce_request_is_read_as_kio_reads_it(version: int, values: Mapping[str, Any]) -> None:
    data = write_request(ApiKey.PRODUCE, version, values)
    own = produce.read_produce_request(version, memoryview(data))
    assert_same(own, read_request(ApiKey.PRODUCE, version, data))
    for topic in own.topic_data:
        assert all(isinstance(partition.records, bytearray | None) for partition in topic.partition_data)


PRODUCE_ALONE_REQUESTS = struct(
    transactional_id=st.none(),
    acks=INT16,
    timeout=INT32,
    topic_data=st.lists(
        struct(
            topic_id=TOPIC_ID,
            partition_data=st.lists(struct(index=INT32, records=st.none() | RECORDS), min_size=1, max_size=1),
        ),
        min_size=1,
        max_size=1,
    ),
)


@settings(max_examples=40, deadline=None)
@given(values=PRODUCE_ALONE_REQUESTS, behind=st.binary(max_size=2))
def test_a_produce_request_of_one_partition_is_read_as_kio_reads_it(values: Mapping[str, Any], behind: bytes) -> None:
    """Most requests have a single partition. Bytes after the request are ignored."""
    data = write_request(ApiKey.PRODUCE, produce.LATEST, values)
    own = produce.read_produce_request(produce.LATEST, memoryview(data + behind))
    assert_same(own, read_request(ApiKey.PRODUCE, produce.LATEST, data))


@settings(max_examples=40, deadline=None)
@given(version=st.integers(fetch.OLDEST, fetch.LATEST), values=FETCH_REQUESTS)
def test_a_fetch_request_is_read_as_kio_reads_it(version: int, values: Mapping[str, Any]) -> None:
    data = write_request(ApiKey.FETCH, version, values)
    own = fetch.read_fetch_request(version, memoryview(data))
    by_kio = read_request(ApiKey.FETCH, version, data)
    if version < 15:
        assert own.replica_state.replica_id == by_kio.replica_id
        own = own._replace(replica_state=fetch.ReplicaState())
    assert_same(own, by_kio)


@settings(max_examples=40, deadline=None)
@given(
    version=st.integers(produce.OLDEST, produce.LATEST),
    topics=PRODUCED,
    throttle=st.integers(0, 2**31 - 1),
    nodes=NODES,
)
def test_a_produce_response_is_written_as_kio_writes_it(
    version: int, topics: list[produce.TopicProduceResponse], throttle: int, nodes: list[NodeEndpoint]
) -> None:
    values = {"responses": values_of(topics), "throttle_time": throttle, "node_endpoints": values_of(nodes)}
    by_kio = write_response(ApiKey.PRODUCE, version, values)
    assert produce.write_produce_response(version, topics, throttle, nodes) == by_kio


@settings(max_examples=40, deadline=None)
@given(
    topic_id=TOPIC_ID,
    numbers=st.tuples(INT32, st.integers(-1, 133), INT64, st.integers(-1, 2**41), INT64),
    throttle=st.integers(0, 2**31 - 1),
)
def test_a_produce_response_of_one_partition_is_written_as_kio_writes_it(
    topic_id: UUID | None, numbers: tuple[int, int, int, int, int], throttle: int
) -> None:
    partition = produce.PartitionProduceResponse(*numbers)
    topics = [produce.TopicProduceResponse("", topic_id, [partition])]
    by_kio = write_response(ApiKey.PRODUCE, produce.LATEST, {"responses": values_of(topics), "throttle_time": throttle})
    assert produce.write_produce_response(produce.LATEST, topics, throttle) == by_kio


@settings(max_examples=40, deadline=None)
@given(version=st.integers(fetch.OLDEST, fetch.LATEST), values=FETCH_REQUESTS)
def test_a_fetch_request_is_written_as_kio_writes_it(version: int, values: Mapping[str, Any]) -> None:
    own = {name: value for name, value in values.items() if name != "cluster_id"}
    own["topics"] = [
        {**topic, "partitions": [_own_fields(one) for one in topic["partitions"]]} for topic in own["topics"]
    ]
    by_kio = write_request(ApiKey.FETCH, version, own)
    request = fetch.read_fetch_request(version, memoryview(by_kio))
    assert fetch.write_fetch_request(version, request) == by_kio


def _own_fields(partition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a follower and a consumer send."""
    return {name: partition[name] for name in fetch.FetchPartition._fields}


@given(version=st.integers(fetch.OLDEST, fetch.LATEST), response=FETCHED)
def test_a_fetch_response_is_written_as_kio_writes_it(version: int, response: fetch.FetchResponse) -> None:
    by_kio = write_response(ApiKey.FETCH, version, values_of(response))
    assert fetch.write_fetch_response(version, response) == [by_kio]


def bytes_of(part: Sized) -> bytes:
    if isinstance(part, StoredRecords):
        return part.data
    assert isinstance(part, bytes | bytearray)
    return bytes(part)


def stored_in_file(data: fetch.PartitionData) -> fetch.PartitionData:
    return data._replace(records=StoredRecords(bytes_of(data.records)))


@settings(max_examples=40, deadline=None)
@given(version=st.integers(fetch.OLDEST, fetch.LATEST), response=FETCHED)
def test_records_that_are_not_in_memory_are_parts_of_their_own(version: int, response: fetch.FetchResponse) -> None:
    in_memory = fetch.write_fetch_response(version, response)
    topics = [
        topic._replace(partitions=[stored_in_file(data) for data in topic.partitions]) for topic in response.responses
    ]
    parts = fetch.write_fetch_response(version, response._replace(responses=topics))
    stored = [part.data for part in parts if isinstance(part, StoredRecords)]
    assert stored == [data.records for topic in response.responses for data in topic.partitions]
    assert b"".join(bytes_of(part) for part in parts) == in_memory[0]


API_VERSIONS = st.integers(0, VERSIONS[ApiKey.API_VERSIONS].latest)
API_VERSIONS_ANSWERS = st.builds(
    api_versions.ApiVersionsResponse,
    few(st.builds(api_versions.ApiVersion, INT16, INT16, INT16)),
    st.integers(-1, 133),
    st.integers(0, 2**31 - 1),
    few(st.builds(api_versions.SupportedFeature, TEXT, INT16, INT16)),
    INT64,
    few(st.builds(api_versions.FinalizedFeature, TEXT, INT16, INT16)),
)


@settings(max_examples=40, deadline=None)
@given(version=API_VERSIONS, name=TEXT, software=TEXT)
def test_an_api_versions_request_is_read_as_kio_reads_it(version: int, name: str, software: str) -> None:
    values = {"client_software_name": name, "client_software_version": software}
    data = write_request(ApiKey.API_VERSIONS, version, values)
    own = api_versions.read_api_versions_request(version, memoryview(data))
    assert_same(own, read_request(ApiKey.API_VERSIONS, version, data))


@settings(max_examples=40, deadline=None)
@given(version=API_VERSIONS, response=API_VERSIONS_ANSWERS)
def test_an_api_versions_response_is_written_as_kio_writes_it(
    version: int, response: api_versions.ApiVersionsResponse
) -> None:
    by_kio = write_response(ApiKey.API_VERSIONS, version, values_of(response))
    assert api_versions.write_api_versions_response(version, response) == by_kio


NODE_IDS = few(INT32)
METADATA_PARTITIONS = st.builds(
    metadata.MetadataResponsePartition, st.integers(-1, 133), INT32, INT32, INT32, NODE_IDS, NODE_IDS, NODE_IDS
)
METADATA_TOPICS = few(
    st.builds(
        metadata.MetadataResponseTopic,
        st.integers(-1, 133),
        TEXT,
        TOPIC_ID,
        st.booleans(),
        few(METADATA_PARTITIONS),
        INT32,
    )
)
METADATA = st.builds(
    metadata.MetadataResponse,
    few(st.builds(metadata.MetadataResponseBroker, INT32, TEXT, INT32, st.none() | TEXT)),
    TEXT,
    INT32,
    METADATA_TOPICS,
    INT32,
    st.integers(-1, 133),
    st.integers(0, 2**31 - 1),
)


def partitions_of(topic: metadata.MetadataResponseTopic) -> Sequence[metadata.MetadataResponsePartition]:
    """Return the partitions as ``METADATA`` draws them: not yet encoded."""
    return cast("Sequence[metadata.MetadataResponsePartition]", topic.partitions)


def topics_of(response: metadata.MetadataResponse) -> list[metadata.MetadataResponseTopic]:
    """Return the topics as ``METADATA`` draws them: not yet encoded."""
    return list(cast("Sequence[metadata.MetadataResponseTopic]", response.topics))


@settings(max_examples=100, deadline=None)
@given(version=st.integers(metadata.OLDEST, metadata.LATEST), response=METADATA, has_nulls=st.booleans())
def test_a_metadata_response_is_written_as_kio_writes_it(
    version: int, response: metadata.MetadataResponse, has_nulls: bool
) -> None:
    topics = topics_of(response)
    if has_nulls and version >= 2:
        response = response._replace(cluster_id=None)
    if has_nulls and version >= 12:
        topics = [topic._replace(name=None) for topic in topics]
    by_kio = write_response(ApiKey.METADATA, version, values_of(response) | {"topics": values_of(topics)})
    encoded = [
        topic._replace(partitions=[metadata.write_partition(version, part) for part in partitions_of(topic)])
        for topic in topics
    ]
    whole = response._replace(topics=metadata.write_topics(version, encoded))
    assert metadata.write_metadata_response(version, whole) == by_kio


def test_the_versions_are_those_that_are_served() -> None:
    assert (VERSIONS[ApiKey.PRODUCE].latest, VERSIONS[ApiKey.FETCH].latest) == (produce.LATEST, fetch.LATEST)
    assert VERSIONS[ApiKey.FETCH].oldest == fetch.OLDEST
    assert (VERSIONS[ApiKey.METADATA].oldest, VERSIONS[ApiKey.METADATA].latest) == (metadata.OLDEST, metadata.LATEST)


READERS: list[tuple[ApiKey, Callable[[int, memoryview], Any], Mapping[str, Any]]] = [
    (
        ApiKey.PRODUCE,
        produce.read_produce_request,
        {"topic_data": [{"name": "topic", "topic_id": UUID(int=5), "partition_data": [{"records": b"records"}]}]},
    ),
    (
        ApiKey.FETCH,
        fetch.read_fetch_request,
        {
            "topics": [{"topic": "topic", "topic_id": UUID(int=5), "partitions": [{"partition": 1}]}],
            "forgotten_topics_data": [{"topic": "topic", "topic_id": UUID(int=5), "partitions": [7]}],
        },
    ),
    (
        ApiKey.API_VERSIONS,
        api_versions.read_api_versions_request,
        {"client_software_name": "name", "client_software_version": "version"},
    ),
]


@pytest.mark.parametrize(("api", "read", "values"), READERS, ids=["produce", "fetch", "api_versions"])
def test_no_request_that_ends_early_is_read(
    api: ApiKey, read: Callable[[int, memoryview], Any], values: Mapping[str, Any]
) -> None:
    for version in range(4, VERSIONS[api].latest + 1):
        data = write_request(api, version, values)
        for end in range(len(data)):
            with pytest.raises(MalformedMessageError):
                read(version, memoryview(data)[:end])


@pytest.mark.parametrize(("api", "read", "values"), READERS, ids=["produce", "fetch", "api_versions"])
@settings(max_examples=60, deadline=None)
@given(damage=st.binary(min_size=1, max_size=12), at=st.integers(0, 60), version=st.integers(4, 18))
def test_damaged_requests_are_refused_or_read(
    api: ApiKey, read: Callable[[int, memoryview], Any], values: Mapping[str, Any], damage: bytes, at: int, version: int
) -> None:
    version = min(version, VERSIONS[api].latest)
    data = bytearray(write_request(api, version, values))
    data[at : at + len(damage)] = damage
    with suppress(MalformedMessageError):
        read(version, memoryview(data))
