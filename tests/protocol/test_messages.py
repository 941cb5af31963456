"""Messages as plain values have every field of every version, for each version on the wire."""

from __future__ import annotations

import datetime
import io
from uuid import UUID

import pytest
from kio.schema.create_topics.v7 import response as kio_create_topics
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode, MalformedMessageError
from tidelog.protocol.messages import read_request, read_response, write_request, write_response

TOPIC_ID = UUID(int=7)


@pytest.mark.parametrize("api", VERSIONS)
def test_every_version_of_every_message_can_be_written_and_read(api: ApiKey) -> None:
    for version in range(VERSIONS[api].oldest, VERSIONS[api].latest + 1):
        read_request(api, version, write_request(api, version, {}))
        read_response(api, version, write_response(api, version, {}))


def test_a_field_the_version_lacks_has_kafkas_default() -> None:
    request = read_request(ApiKey.FETCH, 4, write_request(ApiKey.FETCH, 4, {"max_wait": 500}))
    assert request.max_wait == 500
    assert request.session_epoch == -1  # from version 7 on
    assert request.rack_id == ""  # from version 11 on
    assert request.replica_state.replica_id == -1  # from version 15 on
    assert read_request(ApiKey.FETCH, 15, write_request(ApiKey.FETCH, 15, {})).replica_id == -1  # until version 14


def test_a_field_of_a_struct_within_that_the_version_lacks_has_its_default() -> None:
    topics = [{"topic": "t", "partitions": [{"partition": 3}]}]
    request = read_request(ApiKey.FETCH, 4, write_request(ApiKey.FETCH, 4, {"topics": topics}))
    (topic,) = request.topics
    assert topic.topic_id is None
    assert topic.partitions[0].last_fetched_epoch == -1


def test_a_field_that_no_version_has_is_a_mistake() -> None:
    request = read_request(ApiKey.HEARTBEAT, 4, write_request(ApiKey.HEARTBEAT, 4, {}))
    with pytest.raises(AttributeError, match="no version of HEARTBEAT request has a field colour"):
        _ = request.colour
    with pytest.raises(TypeError, match=r"no version of METADATA response\.topics has a field colour"):
        write_response(ApiKey.METADATA, 0, {"topics": [{"colour": "red"}]})


def test_fields_the_version_lacks_are_dropped_in_writing() -> None:
    values = {"throttle_time": 5, "topics": [{"name": "t", "topic_id": TOPIC_ID, "is_internal": True}]}
    response = read_response(ApiKey.METADATA, 0, write_response(ApiKey.METADATA, 0, values))
    assert (response.throttle_time, response.topics[0].name, response.topics[0].topic_id) == (0, "t", None)


def test_times_codes_and_ids_are_plain_and_on_the_wire_as_kio_writes_them() -> None:
    topic = {"name": "t", "topic_id": TOPIC_ID, "error_code": ErrorCode.TOPIC_ALREADY_EXISTS, "num_partitions": 3}
    data = write_response(ApiKey.CREATE_TOPICS, 7, {"throttle_time": 1500, "topics": [topic]})
    by_kio = io.BytesIO()
    entity_writer(kio_create_topics.CreateTopicsResponse)(
        by_kio,
        kio_create_topics.CreateTopicsResponse(
            throttle_time=datetime.timedelta(milliseconds=1500),  # type: ignore[arg-type]
            topics=(
                kio_create_topics.CreatableTopicResult(
                    name="t",  # type: ignore[arg-type]
                    topic_id=TOPIC_ID,
                    error_code=KioErrorCode.topic_already_exists,
                    error_message="",
                    num_partitions=3,  # type: ignore[arg-type]
                    configs=(),
                ),
            ),
        ),
    )
    assert data == by_kio.getvalue()
    response = read_response(ApiKey.CREATE_TOPICS, 7, data)
    assert response.throttle_time == 1500
    assert response.topics[0].error_code == 36
    assert response.topics[0].topic_id == TOPIC_ID
    assert response.topics[0].replication_factor == -1


def test_a_zero_id_is_none() -> None:
    values = {"topics": [{"name": None, "topic_id": UUID(int=0)}]}
    assert read_request(ApiKey.METADATA, 12, write_request(ApiKey.METADATA, 12, values)).topics[0].topic_id is None


@pytest.mark.parametrize("api", VERSIONS)
def test_a_request_that_is_cut_is_refused(api: ApiKey) -> None:
    version = VERSIONS[api].latest
    data = write_request(api, version, {})
    for end in range(len(data)):
        with pytest.raises(MalformedMessageError):
            read_request(api, version, data[:end])


@pytest.mark.parametrize("data", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff" * 40])
@pytest.mark.parametrize(("api", "version"), [(ApiKey.CREATE_TOPICS, 4), (ApiKey.CREATE_TOPICS, 7)])
def test_an_announced_count_is_not_believed(api: ApiKey, version: int, data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read_request(api, version, data)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (4, b"\xff\xff\xff\xff" + b"\0" * 5),
        (7, b"\0" + b"\0" * 6),
        (7, b"\x02\x02t" + b"\0" * 6 + b"\x00\x01\0" + b"\0" * 6),
    ],
    ids=["array", "compact array", "array within a struct"],
)
def test_null_for_an_array_that_cannot_be_null_is_refused(version: int, data: bytes) -> None:
    with pytest.raises(MalformedMessageError, match="is null"):
        read_request(ApiKey.CREATE_TOPICS, version, data)


def test_null_for_an_array_that_can_be_null_is_none() -> None:
    assert read_request(ApiKey.METADATA, 1, b"\xff\xff\xff\xff").topics is None
