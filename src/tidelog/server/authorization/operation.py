"""The operations on resources, with Kafka's numbers, and the operations that they imply.

===================================  =================================================================================
an ACL that allows                   also allows
===================================  =================================================================================
READ, WRITE, DELETE, ALTER           DESCRIBE
ALTER_CONFIGS                        DESCRIBE_CONFIGS
ALL                                  everything
===================================  =================================================================================

A denied operation denies only itself. A denied ALL denies everything. Source: Kafka's ``AclOperation``,
``StandardAuthorizerData.findResult``, ``AclEntry.supportedOperations``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from tidelog.server.authorization.resource import AclResourceType


class Operation(IntEnum):
    """The operations. UNKNOWN stands for every number that Kafka does not know. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    @classmethod
    def of(cls, number: int) -> Operation:
        return next((known for known in cls if known == number), cls.UNKNOWN)


_DENIED_BY: Final = {operation: frozenset((operation, Operation.ALL)) for operation in Operation}
_ALLOWED_BY: Final = _DENIED_BY | {
    Operation.DESCRIBE: _DENIED_BY[Operation.DESCRIBE]
    | {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: _DENIED_BY[Operation.DESCRIBE_CONFIGS] | {Operation.ALTER_CONFIGS},
}


def allowed_by(operation: Operation) -> frozenset[Operation]:
    """Return the operations of ACLs that allow it."""
    return _ALLOWED_BY[operation]


def denied_by(operation: Operation) -> frozenset[Operation]:
    """Return the operations of ACLs that deny it."""
    return _DENIED_BY[operation]


SUPPORTED: Final[Mapping[AclResourceType, frozenset[Operation]]] = {
    AclResourceType.TOPIC: frozenset(
        {
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    AclResourceType.GROUP: frozenset(
        {
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    AclResourceType.CLUSTER: frozenset(
        {
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        }
    ),
}
"""The operations that a response can report as authorized, by resource type."""


def operation_bits(operations: Iterable[Operation]) -> int:
    """Return a bit field of the operations, as responses have it."""
    return sum(1 << operation for operation in operations)
