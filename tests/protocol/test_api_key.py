"""The table of APIs and the error codes, held against kio, whose definitions are generated from Kafka's."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Direction, struct_class


@pytest.mark.parametrize("api", VERSIONS)
def test_an_api_has_the_name_and_the_versions_of_kafkas_definitions(api: ApiKey) -> None:
    assert api_key_map[api] == api.name.lower()
    versions = VERSIONS[api]
    assert set(range(versions.oldest, versions.latest + 1)) <= set(schema_name_map[api.name.lower()])


@pytest.mark.parametrize("api", VERSIONS)
def test_an_api_is_flexible_from_the_version_of_kafkas_definitions_on(api: ApiKey) -> None:
    for version in schema_name_map[api.name.lower()]:
        if version <= VERSIONS[api].latest:
            flexible = struct_class(api, Direction.REQUEST, version).__flexible__  # type: ignore[attr-defined]
            assert flexible == VERSIONS[api].is_flexible(version), version


def test_error_codes_are_kafkas() -> None:
    assert {code.name.lower(): code.value for code in ErrorCode} == {code.name: int(code) for code in KioErrorCode}
