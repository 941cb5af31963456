"""A filter for ACLs to describe or delete. Immutable values; pure.

===============  =====================================================================================================
pattern type     a filter with a name matches ACLs
===============  =====================================================================================================
LITERAL,         with this type and exactly this name
PREFIXED
ANY              with either type and exactly this name
MATCH            that apply to the resource of this name: by its name, by the wildcard, or by a prefix of the name
===============  =====================================================================================================

None and ANY match everything. Source: Kafka's ``AclBindingFilter``, ``ResourcePatternFilter``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import WILDCARD, AclResourceType, PatternType


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
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
