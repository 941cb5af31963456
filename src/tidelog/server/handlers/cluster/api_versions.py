"""ApiVersions: the listener's APIs with their versions, and the cluster's features (KIP-35, KIP-584).

The client's name and version are kept with its connection. KIP-511 requires INVALID_REQUEST for malformed ones.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeature,
    SupportedFeature,
    read_api_versions_request,
    write_api_versions_response,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.server.handlers.api_groups import API_GROUPS, advertised_versions
from tidelog.server.metadata.features import SUPPORTED
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import EncodedResponse, Response

if TYPE_CHECKING:
    from tidelog.server.cluster_node import ClusterNode

_FIRST_WITH_SOFTWARE = 3
_KEPT = 255
"""The characters of a client's name and version that a connection keeps."""
_WELL_FORMED = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


_FIRST_WITH_ALL_FEATURES = 4
"""Older clients reject a minimum level of 0 (KAFKA-17011)."""

Levels = tuple[tuple[str, int], ...]
"""The features' names and levels."""


def read(_api: ApiKey, version: int, body: memoryview) -> ApiVersionsRequest:
    return read_api_versions_request(version, body)


def handle(node: ClusterNode, context: RequestContext, request: ApiVersionsRequest) -> Response:
    return respond(tuple(API_GROUPS), node, context, request)


def respond(
    apis: tuple[ApiKey, ...], node: ClusterNode, context: RequestContext, request: ApiVersionsRequest
) -> Response:
    """Respond with the versions of ``apis``."""
    if context.version >= _FIRST_WITH_SOFTWARE:
        software = (request.client_software_name, request.client_software_version)
        if not all(map(_WELL_FORMED.fullmatch, software)):
            return {"error_code": ErrorCode.INVALID_REQUEST}
        context.client.software = software[0][:_KEPT], software[1][:_KEPT]
    throttle_ms = node.quotas.throttle(context)
    told = context.version, node.metadata.applied_offset, tuple(node.metadata.finalized_features.items())
    return EncodedResponse([_encoded(apis, *told, throttle_ms)])


@lru_cache(maxsize=2 * (VERSIONS[ApiKey.API_VERSIONS].latest + 1))
def _encoded(apis: tuple[ApiKey, ...], version: int, epoch: int, finalized: Levels, throttle_ms: int) -> bytes:
    """Encode a response. It is cached, because each new connection requests it."""
    response = ApiVersionsResponse(
        api_keys=[ApiVersion(api, row.oldest, row.latest) for api, row in advertised_versions(apis).items()],
        throttle_time=throttle_ms,
        supported_features=[
            SupportedFeature(name, levels.oldest, levels.latest)
            for name, levels in SUPPORTED.items()
            if levels.oldest > 0 or version >= _FIRST_WITH_ALL_FEATURES
        ],
        finalized_features_epoch=epoch,
        finalized_features=[FinalizedFeature(name, level, level) for name, level in finalized],
    )
    return write_api_versions_response(version, response)
