"""ApiVersions: the APIs of this broker with their versions, and the features of the cluster (KIP-35, KIP-584).

A client's name and version are kept for its connection, where they are well formed; KIP-511 wants them refused else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import write_response
from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer, EncodedAnswer
from tidelog.server.handlers.table import advertised_versions
from tidelog.server.metadata.features import SUPPORTED
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_FIRST_WITH_SOFTWARE = 3
_WELL_FORMED = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


_FIRST_WITH_ALL_FEATURES = 4
"""Clients of older versions take a level 0 for a mistake (KAFKA-17011)."""

Levels = tuple[tuple[str, int], ...]
"""Features by name."""


def handle(broker: Broker, context: RequestContext, request: Struct) -> Answer:
    if context.version >= _FIRST_WITH_SOFTWARE:
        software = (request.client_software_name, request.client_software_version)
        if not all(map(_WELL_FORMED.fullmatch, software)):
            return {"error_code": ErrorCode.INVALID_REQUEST}
        context.peer.software = software
    told = context.version, broker.metadata.applied_offset, tuple(broker.metadata.finalized_features.items())
    if broker.quotas.is_on:  # the answer may have to say for how long the client is held back
        return _values(*told)
    return EncodedAnswer([_encoded(*told)])


@lru_cache(maxsize=VERSIONS[ApiKey.API_VERSIONS].latest + 1)
def _encoded(version: int, epoch: int, finalized: Levels) -> bytes:
    """Kept, for each new connection asks for it."""
    return write_response(ApiKey.API_VERSIONS, version, _values(version, epoch, finalized))


def _values(version: int, epoch: int, finalized: Levels) -> Mapping[str, Any]:
    return {
        "api_keys": [
            {"api_key": api, "min_version": versions.oldest, "max_version": versions.latest}
            for api, versions in advertised_versions().items()
        ],
        "supported_features": [
            {"name": name, "min_version": levels.oldest, "max_version": levels.latest}
            for name, levels in SUPPORTED.items()
            if levels.oldest > 0 or version >= _FIRST_WITH_ALL_FEATURES
        ],
        "finalized_features_epoch": epoch,
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level} for name, level in finalized
        ],
    }
