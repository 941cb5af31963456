"""Headers of requests, compared with kio's."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1 import RequestHeader as HeaderV1
from kio.schema.request_header.v2 import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.headers import read_request_header, response_header, write_request_header


@given(
    api=st.sampled_from(list(VERSIONS)),
    version=st.integers(min_value=0, max_value=20),
    correlation_id=st.integers(min_value=-(2**31), max_value=2**31 - 1),
    client_id=st.none() | st.text(max_size=50),
)
def test_a_request_header_is_written_and_read_as_kafka_does(
    api: ApiKey, version: int, correlation_id: int, client_id: str | None
) -> None:
    kind = HeaderV2 if VERSIONS[api].is_flexible(version) else HeaderV1
    buffer = io.BytesIO()
    entity_writer(kind)(
        buffer,
        kind(
            request_api_key=i16(api),
            request_api_version=i16(version),
            correlation_id=i32(correlation_id),
            client_id=client_id,
        ),
    )
    data = buffer.getvalue()
    assert write_request_header(api, version, correlation_id, client_id) == data
    assert read_request_header(data + b"body") == (api, version, correlation_id, client_id, len(data))


def test_tagged_fields_of_a_header_are_passed_over() -> None:
    data = write_request_header(ApiKey.METADATA, 12, 7, "me")[:-1] + b"\x02\x00\x03abc\x81\x01\x00"
    assert read_request_header(data).size == len(data)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_header_are_refused(data: bytes) -> None:
    try:
        header = read_request_header(data)
    except MalformedMessageError:
        return
    assert header.size <= len(data)


@pytest.mark.parametrize("api", [4, 7, 93, 94, -1])
def test_an_api_there_is_not_is_refused(api: int) -> None:
    data = api.to_bytes(2, "big", signed=True) + write_request_header(ApiKey.METADATA, 1, 7, "me")[2:]
    with pytest.raises(MalformedMessageError, match=f"no API {api}"):
        read_request_header(data)


def test_the_response_header_of_api_versions_is_never_flexible() -> None:
    assert response_header(ApiKey.API_VERSIONS, 4, 9) == b"\0\0\0\x09"
    assert response_header(ApiKey.METADATA, 8, 9) == b"\0\0\0\x09"
    assert response_header(ApiKey.METADATA, 9, 9) == b"\0\0\0\x09\0"
