"""An encoder of DescribeConfigs responses. Configs that many resources share are encoded once.

::

    throttle time, number of results | head, configs | head, configs | ...

A head is the part before the configs: error, type and name. From version 4 on, the configs are followed by the result's
tagged fields, and the results by the response's. All of these are empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.messages import write_response
from tidelog.record.internal_records.encoder import unsigned_varint
from tidelog.server.network.response import EncodedResponse

if TYPE_CHECKING:
    from tidelog.protocol.message_types import configs as wire

_THROTTLE_BYTES: Final = 4
_COUNT_BYTES: Final = 4
_NO_TAGS: Final = b"\0"


class EncodedResults:
    def __init__(self, version: int) -> None:
        self._version = version
        self._is_flexible = VERSIONS[ApiKey.DESCRIBE_CONFIGS].is_flexible(version)
        self._parts: list[bytes] = []
        self._count = 0
        self._no_settings = unsigned_varint(1) + _NO_TAGS if self._is_flexible else bytes(_COUNT_BYTES)

    def encoded_settings(self, configs: Iterable[wire.DescribeConfigsResourceResult]) -> bytes:
        """Encode the configs of one result, for use in any number of results."""
        return self._result({"configs": configs})[len(self._head({})) :]

    def add(self, resource: wire.DescribeConfigsResult, settings: bytes | None = None) -> None:
        """Add a result. ``resource`` has its fields without the configs. ``settings`` is None if it has no configs."""
        self._parts += [self._head(resource), self._no_settings if settings is None else settings]
        self._count += 1

    def response(self, throttle_ms: int) -> EncodedResponse:
        count = self._count
        start = throttle_ms.to_bytes(_THROTTLE_BYTES, "big")
        start += unsigned_varint(count + 1) if self._is_flexible else count.to_bytes(_COUNT_BYTES, "big")
        return EncodedResponse([start, *self._parts, _NO_TAGS if self._is_flexible else b""])

    def _head(self, resource: wire.DescribeConfigsResult) -> bytes:
        return self._result(resource)[: -len(self._no_settings)]

    def _result(self, fields: wire.DescribeConfigsResult) -> bytes:
        response = write_response(ApiKey.DESCRIBE_CONFIGS, self._version, {"results": [fields]})
        if self._is_flexible:
            return response[_THROTTLE_BYTES + 1 : -len(_NO_TAGS)]
        return response[_THROTTLE_BYTES + _COUNT_BYTES :]
