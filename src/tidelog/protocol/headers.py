"""The headers of requests and responses.

The API and version in a request's header determine the format of the rest. Therefore the header is decoded with only
the first flexible version of each API. Its client id has a length of two bytes in every version. The header of an
ApiVersions response is never flexible, because the client does not know the broker's versions yet (KIP-511). Source:
``RequestHeader`` and ``ApiKeys.responseHeaderVersion``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import MalformedMessageError

_FIXED = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_NEVER = 1 << 15
_APIS = {int(api): (api, _NEVER if row.first_flexible is None else row.first_flexible) for api, row in VERSIONS.items()}
"""Each API with its first flexible version, by key."""


class RequestHeader(NamedTuple):
    api: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    size: int
    """The header's bytes, and so the position of the body."""


def read_request_header(frame: bytes | bytearray | memoryview) -> RequestHeader:
    """Decode a header. Raise MalformedMessageError if the API is unknown or the bytes are not a header."""
    try:
        key, version, correlation_id, length = _FIXED.unpack_from(frame)
        api, first_flexible = _APIS[key]
        end = _FIXED.size + max(length, 0)
        client_id = None if length < 0 else str(frame[_FIXED.size : end], "utf-8")
        if end > len(frame):
            raise MalformedMessageError("a request ends within its header")
        if version >= first_flexible:
            end = _skip_tagged_fields(frame, end)
    except KeyError:
        raise MalformedMessageError(f"there is no API {key}") from None
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise MalformedMessageError(f"a request's header cannot be read: {error}") from error
    return RequestHeader(api, version, correlation_id, client_id, end)


def write_request_header(api: ApiKey, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a header, as a client does."""
    name = None if client_id is None else client_id.encode()
    fixed = _FIXED.pack(api, version, correlation_id, -1 if name is None else len(name))
    return fixed + (name or b"") + (b"\0" if VERSIONS[api].is_flexible(version) else b"")


def response_header(api: ApiKey, version: int, correlation_id: int) -> bytes:
    is_flexible = api is not ApiKey.API_VERSIONS and VERSIONS[api].is_flexible(version)
    return _CORRELATION.pack(correlation_id) + (b"\0" if is_flexible else b"")


def read_response_header(api: ApiKey, version: int, frame: memoryview) -> tuple[int, int]:
    """Return the correlation id and the header's size, as a client does. Raise MalformedMessageError if there is no
    header."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        end = _CORRELATION.size
        if api is not ApiKey.API_VERSIONS and VERSIONS[api].is_flexible(version):
            end = _skip_tagged_fields(frame, end)
    except (struct.error, IndexError) as error:
        raise MalformedMessageError(f"a response's header cannot be read: {error}") from None
    return correlation_id, end


def _skip_tagged_fields(frame: bytes | bytearray | memoryview, position: int) -> int:
    """Return the position after the tagged fields. A broker uses none of the header's tags."""
    if frame[position] == 0:
        return position + 1
    count, position = _varint(frame, position)
    for _ in range(count):
        _tag, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
        if position > len(frame):
            raise MalformedMessageError("a message ends within its header's tagged fields")
    return position


def _varint(frame: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned varint of at most 5 bytes, and the position after it."""
    value = 0
    for shift in range(0, 35, 7):
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedMessageError("a varint of more than 5 bytes")
