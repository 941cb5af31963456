"""Arrays that announce more items than bytes remain, and too long strings, are refused before decoding."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.message_strategies import requests
from tidelog.protocol import produce, size_checks
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.field_reader import FieldReader
from tidelog.protocol.messages import Values, read_request, write_request
from tidelog.protocol.schemas import Direction, struct_class

MANY = b"\xff\xff\xff\xff\x0f"
"""The largest unsigned 32-bit varint."""


@pytest.mark.parametrize("api", sorted(VERSIONS), ids=lambda api: api.name)
@settings(max_examples=10)
@given(data=st.data())
def test_a_valid_request_is_walked_to_its_end(api: ApiKey, data: st.DataObject) -> None:
    version = data.draw(st.integers(VERSIONS[api].oldest, VERSIONS[api].latest))
    body = write_request(api, version, data.draw(requests(api, version)))
    message: Any = struct_class(api, Direction.REQUEST, version)
    reader = FieldReader(memoryview(body), is_flexible=message.__flexible__)
    size_checks._struct_walk(message)(reader)
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
    with pytest.raises(MalformedMessageError, match="an array announces"):
        read_request(api, version, body)


LONG = "x" * 32_768


@pytest.mark.parametrize(
    ("api", "version", "values"),
    [
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [{"resource_type": 32, "resource_name": LONG}]}),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {"group_id": "g", "member_id": "m", "instance_id": LONG}),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {"group_id": "g", "member_id": "m", "server_assignor": LONG}),
        (ApiKey.FIND_COORDINATOR, 6, {"coordinator_keys": ["a", LONG]}),
    ],
)
def test_a_string_that_no_log_can_keep_is_refused(api: ApiKey, version: int, values: Values) -> None:
    with pytest.raises(MalformedMessageError, match=r"a string of 32768 bytes exceeds the limit of 32767"):
        read_request(api, version, write_request(api, version, values))


def test_so_it_is_where_messages_are_read_without_kio() -> None:
    body = write_request(ApiKey.PRODUCE, 12, {"transactional_id": LONG, "acks": 1, "timeout": 1, "topic_data": []})
    with pytest.raises(MalformedMessageError, match=r"a string of 32768 bytes exceeds the limit of 32767"):
        produce.read_produce_request(12, memoryview(body))


def test_a_string_of_the_most_bytes_is_none_too_many() -> None:
    keys = ("a", "\N{EURO SIGN}" * 10_922 + "b")
    body = write_request(ApiKey.FIND_COORDINATOR, 6, {"coordinator_keys": keys})
    assert read_request(ApiKey.FIND_COORDINATOR, 6, body).coordinator_keys == keys
