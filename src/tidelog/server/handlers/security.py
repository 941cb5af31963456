"""The APIs of authentication: SASL, and users' SCRAM credentials (KIP-554).

On a SASL listener, ``SaslAuthenticator`` authenticates clients before their requests come here. Other listeners have
no SASL authentication. So SaslHandshake and SaslAuthenticate are errors here. A client that sets SCRAM credentials
sends a salted password, and a response never has salts or keys. Source: Kafka's ``KafkaApis``, ``ControllerApis`` and
``ScramImage``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.requests import Outcome, ScramDeletion, ScramUpsertion
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import security as wire


def sasl_handshake(
    node: ClusterNode, context: RequestContext, request: wire.SaslHandshakeRequest
) -> wire.SaslHandshakeResponse:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE}


def sasl_authenticate(
    node: ClusterNode, context: RequestContext, request: wire.SaslAuthenticateRequest
) -> wire.SaslAuthenticateResponse:
    message = "SaslAuthenticate request received after successful authentication"
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": message}


# --- AlterUserScramCredentials ---


async def alter_scram_users(
    node: ClusterNode, context: RequestContext, request: wire.AlterUserScramCredentialsRequest
) -> wire.AlterUserScramCredentialsResponse:
    node.authorizer.require(context, Operation.ALTER)
    deletions = [ScramDeletion(part.name, part.mechanism) for part in request.deletions]
    upsertions = [
        ScramUpsertion(part.name, part.mechanism, part.iterations, bytes(part.salt), bytes(part.salted_password))
        for part in request.upsertions
    ]
    outcomes = await node.controller.alter_scram_users(deletions, upsertions)
    return {"results": [_alteration(user, outcome) for user, outcome in outcomes.items()]}


def refuse_alter_scram_users(
    _context: RequestContext, request: wire.AlterUserScramCredentialsRequest, error: TidelogError
) -> wire.AlterUserScramCredentialsResponse:
    users = [part.name for part in request.deletions] + [part.name for part in request.upsertions]
    return {"results": [_alteration(user, Outcome.of(error)) for user in dict.fromkeys(users)]}


def _alteration(user: str, outcome: Outcome) -> wire.AlterUserScramCredentialsResult:
    return {"user": user, "error_code": outcome.error, "error_message": outcome.message}


# --- DescribeUserScramCredentials ---


def describe_scram_users(
    node: ClusterNode, context: RequestContext, request: wire.DescribeUserScramCredentialsRequest
) -> wire.DescribeUserScramCredentialsResponse:
    if not node.authorizer.allows(context, Operation.DESCRIBE, CLUSTER):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    known = _credentials(node.metadata.image)
    times = Counter(user.name for user in request.users or ()) or Counter(known.keys())
    return {"results": [_description(user, count, known.get(user, ())) for user, count in times.items()]}


def refuse_describe_scram_users(
    _context: RequestContext, _request: wire.DescribeUserScramCredentialsRequest, error: TidelogError
) -> wire.DescribeUserScramCredentialsResponse:
    """Return the error, and again in a result for the user ``""``, as Kafka does."""
    outcome = Outcome.of(error)
    nameless: wire.DescribeUserScramCredentialsResult = {
        "user": "",
        "error_code": outcome.error,
        "error_message": outcome.message,
    }
    return {"error_code": outcome.error, "error_message": outcome.message, "results": [nameless]}


def _credentials(image: MetadataImage) -> Mapping[str, list[wire.CredentialInfo]]:
    """Return the metadata's credentials by user."""
    found: dict[str, list[wire.CredentialInfo]] = defaultdict(list)
    for mechanism, users in image.scram_credentials.items():
        for user, credential in users.items():
            found[user].append({"mechanism": int(mechanism), "iterations": credential.iterations})
    return found


def _description(
    user: str, count: int, credentials: Sequence[wire.CredentialInfo]
) -> wire.DescribeUserScramCredentialsResult:
    if count > 1:
        reason = "Cannot describe SCRAM credentials for the same user twice in a single request: "
        return {"user": user, "error_code": ErrorCode.DUPLICATE_RESOURCE, "error_message": reason + user}
    if not credentials:
        reason = "Attempt to describe a user credential that does not exist: "
        return {"user": user, "error_code": ErrorCode.RESOURCE_NOT_FOUND, "error_message": reason + user}
    return {"user": user, "error_message": "", "credential_infos": credentials}
