"""Arrays that announce more items than bytes follow are refused before the decoder takes memory for them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.message_strategies import requests
from tidelog.protocol import array_counts
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.field_reader import FieldReader
from tidelog.protocol.messages import read_request, write_request
from tidelog.protocol.schemas import Direction, struct_class

MANY = b"\xff\xff\xff\xff\x0f"
"""As a varint, the most there is."""


@pytest.mark.parametrize("api", sorted(VERSIONS), ids=lambda api: api.name)
@settings(max_examples=30)
@given(data=st.data())
def test_a_valid_request_is_walked_to_its_end(api: ApiKey, data: st.DataObject) -> None:
    version = data.draw(st.integers(VERSIONS[api].oldest, VERSIONS[api].latest))
    body = write_request(api, version, data.draw(requests(api, version)))
    message = struct_class(api, Direction.REQUEST, version)
    reader = FieldReader(memoryview(body), is_flexible=message.__flexible__)
    array_counts._struct_walk(message)(reader)
    assert reader.left == 0


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        (ApiKey.FIND_COORDINATOR, 4, b"\0" + MANY),
        (ApiKey.FIND_COORDINATOR, 4, b"\0\xff\xff\xff\x7f" + b"\x02a" * 9),
        (ApiKey.METADATA, 1, struct.pack(">i", 2**31 - 1)),
        (ApiKey.DESCRIBE_QUORUM, 0, b"\x02\x02a" + MANY),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, b"\x01" + MANY),
    ],
)
def test_more_items_than_bytes_are_refused(api: ApiKey, version: int, body: bytes) -> None:
    with pytest.raises(MalformedMessageError, match="an array of"):
        read_request(api, version, body)
