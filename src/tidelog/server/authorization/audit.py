"""The audit log: one line for each decision, in Kafka's form, on logger ``kafka.authorizer.logger``.

=====================================================  ===============================================================
decision                                               level
=====================================================  ===============================================================
denied, and the client named the resource              INFO
denied, and the check only filters a response          TRACE: 5 in Python
allowed                                                DEBUG
=====================================================  ===============================================================

Clients choose the names, so the log formatter escapes control characters. Source: Kafka's
``StandardAuthorizerData.logAuditMessage``.
"""

from __future__ import annotations

import logging
from typing import Final

from tidelog.protocol.api_key import ApiKey
from tidelog.server.authorization.acl_index import AclDecision, Client
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import Resource

TRACE: Final = 5

_log = logging.getLogger("kafka.authorizer.logger")


def is_enabled(level: int) -> bool:
    return _log.isEnabledFor(level)


def log_decision(
    level: int,
    client: Client,
    api: ApiKey,
    operation: Operation,
    resource: Resource,
    decision: AclDecision,
    *,
    count: int,
) -> None:
    """Log a decision. ``count`` is how often the request names the resource."""
    _log.log(
        level,
        "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s"
        " with resourceRefCount = %d based on rule %s",
        client.principal,
        "Allowed" if decision.is_allowed else "Denied",
        operation.name,
        client.host,
        _pascal(resource.type.name),
        resource.name,
        _pascal(api.name),
        count,
        _rule(decision),
    )


def _rule(decision: AclDecision) -> str:
    if decision.acl is not None:
        return f"MatchingAcl(acl={decision.acl})"
    if decision.is_super:
        return "SuperUser"
    return "DefaultAllow" if decision.is_allowed else "DefaultDeny"


def _pascal(name: str) -> str:
    return name.title().replace("_", "")
