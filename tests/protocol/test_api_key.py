"""The table of APIs and the error codes agree with kio's, which are generated from Kafka's definitions."""

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
    """The codes that are newer than Kafka 4.2 are not in kio."""
    newer = {
        "group_deletion_failed": 134,
        "streams_topology_description_update_failed": 135,
        "controller_id_not_registered": 136,
    }
    in_kio = {code.name: int(code) for code in KioErrorCode}
    assert not in_kio.keys() & newer.keys()
    assert {code.name.lower(): code.value for code in ErrorCode} == in_kio | newer
