"""ACLs, which allow or deny an operation to a principal, and filters that select them. Immutable values; pure.

The metadata log stores it as an ``AccessControlEntryRecord``, whose id is not part of the ACL. Source: Kafka's
``StandardAcl``, ``AclBindingFilter``, ``ResourcePatternFilter``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, Self

from tidelog.model import CorruptRecordError, UnsupportedFormatError
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import WILDCARD, AclResourceType, PatternType

ANY_PRINCIPAL: Final = "User:*"


class Permission(IntEnum):
    """The permission types. UNKNOWN stands for every number that Kafka does not know. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    @classmethod
    def of(cls, number: int) -> Permission:
        return next((known for known in cls if known == number), cls.UNKNOWN)


class Pattern(NamedTuple):
    """The resources that an ACL applies to."""

    resource_type: AclResourceType
    name: str
    type: PatternType = PatternType.LITERAL


class Acl(NamedTuple):
    pattern: Pattern
    principal: str
    """The principal as ``type:name``; ``User:*`` matches all principals."""
    host: str
    """The host's pattern: see ``host_pattern``."""
    operation: Operation
    permission: Permission

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the ACL of a record's fields. Raise CorruptRecordError for a pattern type that only filters have.

        Raise UnsupportedFormatError for values that this release does not know, because they would be lost.
        """
        acl = cls(
            pattern=Pattern(
                AclResourceType.of(fields["resourceType"]),
                fields["resourceName"],
                PatternType.of(fields["patternType"]),
            ),
            principal=fields["principal"],
            host=fields["host"],
            operation=Operation.of(fields["operation"]),
            permission=Permission.of(fields["permissionType"]),
        )
        if dict(fields) | acl.fields() != fields:
            raise UnsupportedFormatError(f"an ACL has values that this release does not know: {dict(fields)}")
        if acl.pattern.type not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise CorruptRecordError(f"an access control entry has the pattern type {acl.pattern.type.name}")
        return acl

    def fields(self) -> dict[str, Any]:
        """Return the fields of its record without the id."""
        return {
            "resourceType": int(self.pattern.resource_type),
            "resourceName": self.pattern.name,
            "patternType": int(self.pattern.type),
            "principal": self.principal,
            "host": self.host,
            "operation": int(self.operation),
            "permissionType": int(self.permission),
        }

    def __str__(self) -> str:
        """Return the form of Kafka's audit log."""
        pattern = self.pattern
        return (
            f"StandardAcl(resourceType={pattern.resource_type.name}, resourceName={pattern.name}, "
            f"patternType={pattern.type.name}, principal={self.principal}, host={self.host}, "
            f"operation={self.operation.name}, permissionType={self.permission.name})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """A filter for ACLs to describe or delete.

    ===============  ==================================================================================================
    pattern type     a filter with a name matches ACLs
    ===============  ==================================================================================================
    LITERAL,         with this type and exactly this name
    PREFIXED
    ANY              with either type and exactly this name
    MATCH            that apply to the resource of this name: by its name, by the wildcard, or by a prefix of the name
    ===============  ==================================================================================================

    None and ANY match everything.
    """

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def fits(self, acl: Acl) -> bool:
        return (
            self.resource_type in (AclResourceType.ANY, acl.pattern.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._fits_name(acl.pattern)
        )

    def _fits_name(self, pattern: Pattern) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.type):
            return False
        if self.name is None or (self.name == pattern.name and self.pattern_type is not PatternType.MATCH):
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if pattern.type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)
