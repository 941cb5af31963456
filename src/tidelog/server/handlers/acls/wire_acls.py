"""ACLs and filters in the form of requests and responses: type numbers and API field names. Pure.

A number that Kafka does not know becomes UNKNOWN. The number of UNKNOWN itself makes a request malformed. Source:
Kafka's requests of these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.acl import Acl, AclFilter, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType


def check_filter(struct: Struct) -> None:
    """Raise MalformedMessageError if an element is UNKNOWN."""
    _check(struct.resource_type_filter, struct.pattern_type_filter, struct.operation, struct.permission_type)


def check_creation(struct: Struct) -> None:
    """Raise MalformedMessageError if an element is UNKNOWN."""
    _check(struct.resource_type, struct.resource_pattern_type, struct.operation, struct.permission_type)


def filter_of(struct: Struct) -> AclFilter:
    return AclFilter(
        resource_type=AclResourceType.of(struct.resource_type_filter),
        name=struct.resource_name_filter,
        pattern_type=PatternType.of(struct.pattern_type_filter),
        principal=struct.principal_filter,
        host=struct.host_filter,
        operation=Operation.of(struct.operation),
        permission=Permission.of(struct.permission_type),
    )


def acl_of(struct: Struct) -> Acl:
    pattern_type = PatternType.of(struct.resource_pattern_type)
    return Acl(
        Pattern(AclResourceType.of(struct.resource_type), struct.resource_name, pattern_type),
        struct.principal,
        struct.host,
        Operation.of(struct.operation),
        Permission.of(struct.permission_type),
    )


def pattern_fields(pattern: Pattern) -> Mapping[str, Any]:
    return {"resource_type": pattern.resource_type, "resource_name": pattern.name, "pattern_type": pattern.type}


def entry_fields(acl: Acl) -> Mapping[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _check(*numbers: int) -> None:
    if 0 in numbers:
        raise MalformedMessageError("an ACL or a filter has an element with the value UNKNOWN")
