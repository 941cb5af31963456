"""DescribeUserScramCredentials: the mechanisms and iterations of users' SCRAM credentials (KIP-554).

The response never has salts or keys. Source: Kafka's ``ScramImage``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.requests import Outcome
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

Credentials = Sequence[Mapping[str, Any]]


def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, CLUSTER):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    known = _known(broker.metadata.image)
    times = Counter(user.name for user in request.users or ()) or Counter(known.keys())
    return {"results": [_result(user, count, known.get(user, ())) for user, count in times.items()]}


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    """Return the error, and again in a result for the user ``""``, as Kafka does."""
    outcome = Outcome.of(error)
    nobody = {"user": "", "error_code": outcome.error, "error_message": outcome.message}
    return {"error_code": outcome.error, "error_message": outcome.message, "results": [nobody]}


def _known(image: MetadataImage) -> Mapping[str, list[Mapping[str, Any]]]:
    """Return the metadata's credentials by user."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for mechanism, users in image.scram_credentials.items():
        for user, credential in users.items():
            found[user].append({"mechanism": int(mechanism), "iterations": credential.iterations})
    return found


def _result(user: str, count: int, credentials: Credentials) -> Mapping[str, Any]:
    if count > 1:
        reason = "Cannot describe SCRAM credentials for the same user twice in a single request: "
        return {"user": user, "error_code": ErrorCode.DUPLICATE_RESOURCE, "error_message": reason + user}
    if not credentials:
        reason = "Attempt to describe a user credential that does not exist: "
        return {"user": user, "error_code": ErrorCode.RESOURCE_NOT_FOUND, "error_message": reason + user}
    return {"user": user, "error_message": "", "credential_infos": credentials}
