"""ApiVersions, v0 to v4, read and written without kio: it is the first request of every client.

Names and values are those of kio's messages. Fields by version:

=======  ===========================================================================================================
version  fields
=======  ===========================================================================================================
0        request: none; response: error_code, api_keys
1        response: throttle_time
3        flexible (KIP-482); request: client_software_name, client_software_version (KIP-511); response, as tagged
         fields: supported_features, finalized_features_epoch, finalized_features (KIP-584), zk_migration_ready
4        a supported feature may have the minimum level 0
=======  ===========================================================================================================

Source: Kafka's ``ApiVersionsRequest.json``, ``ApiVersionsResponse.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from tidelog.protocol.field_reader import FieldReader, message_reader
from tidelog.protocol.field_writer import FieldWriter

_THROTTLE: Final = 1
_FLEXIBLE: Final = 3
_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")
_ROW = Struct(">hhh")
_LEVELS = Struct(">hh")
_UNKNOWN_EPOCH: Final = -1


class ApiVersionsRequest(NamedTuple):
    client_software_name: str = ""
    client_software_version: str = ""


class ApiVersion(NamedTuple):
    api_key: int
    min_version: int
    max_version: int


class SupportedFeature(NamedTuple):
    name: str
    min_version: int
    max_version: int


class FinalizedFeature(NamedTuple):
    name: str
    max_version_level: int
    min_version_level: int


class ApiVersionsResponse(NamedTuple):
    """A response. ``throttle_time`` is in ms. Features are written from v3 on; an epoch of -1 is not written."""

    api_keys: Sequence[ApiVersion]
    error_code: int = 0
    throttle_time: int = 0
    supported_features: Sequence[SupportedFeature] = ()
    finalized_features_epoch: int = _UNKNOWN_EPOCH
    finalized_features: Sequence[FinalizedFeature] = ()


@message_reader
def read_api_versions_request(version: int, body: memoryview) -> ApiVersionsRequest:
    """Decode a request. Raise MalformedMessageError if the bytes are not one."""
    if version < _FLEXIBLE:
        return ApiVersionsRequest()
    reader = FieldReader(body, is_flexible=True)
    request = ApiVersionsRequest(reader.string(), reader.string())
    reader.tagged_fields()
    return request


def write_api_versions_response(version: int, response: ApiVersionsResponse) -> bytes:
    """Encode the bytes after the header."""
    writer = FieldWriter(is_flexible=version >= _FLEXIBLE)
    writer.buffer += _INT16.pack(response.error_code)
    writer.length(len(response.api_keys))
    for row in response.api_keys:
        writer.buffer += _ROW.pack(*row)
        writer.tagged_fields()
    if version >= _THROTTLE:
        writer.buffer += _INT32.pack(response.throttle_time)
    writer.tagged_fields(_feature_fields(response) if version >= _FLEXIBLE else ())
    return bytes(writer.buffer)


def _feature_fields(response: ApiVersionsResponse) -> list[tuple[int, bytes]]:
    """Return the fields that differ from their defaults, as ``FieldWriter.tagged_fields`` takes them."""
    fields = []
    if response.supported_features:
        fields.append((0, _features(response.supported_features)))
    if response.finalized_features_epoch != _UNKNOWN_EPOCH:
        fields.append((1, _INT64.pack(response.finalized_features_epoch)))
    if response.finalized_features:
        fields.append((2, _features(response.finalized_features)))
    return fields


def _features(features: Sequence[SupportedFeature | FinalizedFeature]) -> bytes:
    writer = FieldWriter(is_flexible=True)
    writer.length(len(features))
    for name, *levels in features:
        writer.string(name)
        writer.buffer += _LEVELS.pack(*levels)
        writer.tagged_fields()
    return bytes(writer.buffer)
