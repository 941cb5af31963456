"""An index of the ACLs that finds those of one resource at once, and decides by them. Immutable; pure.

=============================================  =======================================================================
ACLs of a resource                             lookup
=============================================  =======================================================================
ACLs of its name, and of the wildcard          by name
ACLs of the prefixes of its name               by its first characters, for each length that any prefix has
=============================================  =======================================================================

Wildcard ACLs do not apply to a longer name that begins with ``*``, as in Kafka.

The decision depends on the ACLs found:

=============================================  =======================================================================
ACLs for the client and the operation          decision
=============================================  =======================================================================
any of them does not allow: its permission is  denied
DENY, UNKNOWN or ANY
all of them allow                              allowed
there are none                                 denied if the resource has ACLs for any client; otherwise the default
                                               (``allow.everyone.if.no.acl.found``)
=============================================  =======================================================================

Source: Kafka's ``StandardAuthorizerData``; ``Authorizer.authorizeByResourceType`` (KIP-679).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from tidelog.server.authorization.acl import ANY_PRINCIPAL, Acl, Permission
from tidelog.server.authorization.host_pattern import fits
from tidelog.server.authorization.operation import Operation, allowed_by, denied_by
from tidelog.server.authorization.resource import WILDCARD, AclResourceType, PatternType, Resource

_NONE: Final[tuple[Acl, ...]] = ()


class Client(NamedTuple):
    """A client as ACLs name it."""

    principal: str
    host: str


class AclDecision(NamedTuple):
    is_allowed: bool
    acl: Acl | None
    """The deciding ACL, or None if none matched."""
    is_super: bool = False
    """True for a super user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TypeAcls:
    """The ACLs of one resource type by name."""

    literal: Mapping[str, tuple[Acl, ...]] = field(default_factory=dict)
    prefixed: Mapping[str, tuple[Acl, ...]] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    """The lengths of the prefixes."""

    def about(self, name: str) -> Iterator[Acl]:
        yield from self.literal.get(name, _NONE)
        if not name.startswith(WILDCARD):
            yield from self.literal.get(WILDCARD, _NONE)
        for length in self.lengths:
            if length <= len(name):
                yield from self.prefixed.get(name[:length], _NONE)

    def changed(self, added: Iterable[Acl], removed: Iterable[Acl]) -> _TypeAcls:
        names = {PatternType.LITERAL: dict(self.literal), PatternType.PREFIXED: dict(self.prefixed)}
        new: dict[tuple[PatternType, str], list[Acl]] = defaultdict(list)
        for acl in added:
            new[acl.pattern.type, acl.pattern.name].append(acl)
        for (pattern_type, name), acls in new.items():
            names[pattern_type][name] = (*names[pattern_type].get(name, _NONE), *acls)
        for acl in removed:
            entries = names[acl.pattern.type]
            left = list(entries[acl.pattern.name])
            left.remove(acl)
            entries[acl.pattern.name] = tuple(left)
            if not left:
                del entries[acl.pattern.name]
        prefixed = names[PatternType.PREFIXED]
        return _TypeAcls(
            literal=names[PatternType.LITERAL],
            prefixed=prefixed,
            lengths=tuple(sorted({len(name) for name in prefixed})),
        )

    def __iter__(self) -> Iterator[Acl]:
        for entries in (self.literal, self.prefixed):
            for acls in entries.values():
                yield from acls


_NO_ENTRIES: Final = _TypeAcls()


@dataclass(frozen=True, slots=True)
class AclIndex:
    _types: Mapping[AclResourceType, _TypeAcls] = field(default_factory=dict)

    def changed(self, added: Collection[Acl], removed: Collection[Acl] = ()) -> Self:
        """Return an index with these changes. Each ACL in ``removed`` must exist or be in ``added``."""
        types = dict(self._types)
        for resource_type in {acl.pattern.resource_type for acl in (*added, *removed)}:
            types[resource_type] = types.get(resource_type, _NO_ENTRIES).changed(
                [acl for acl in added if acl.pattern.resource_type is resource_type],
                [acl for acl in removed if acl.pattern.resource_type is resource_type],
            )
        return type(self)(types)

    def __iter__(self) -> Iterator[Acl]:
        for entries in self._types.values():
            yield from entries

    # --- decisions ---

    def decide(self, client: Client, operation: Operation, resource: Resource, *, default: bool) -> AclDecision:
        """Decide by the module's second table."""
        entries = self._types.get(resource.type)
        allowing, denying = allowed_by(operation), denied_by(operation)
        principals = (client.principal, ANY_PRINCIPAL)
        found, is_about = None, False
        for acl in () if entries is None else entries.about(resource.name):
            is_about = True
            if acl.principal not in principals or not fits(acl.host, client.host):
                continue
            if acl.permission is not Permission.ALLOW:
                if acl.operation in denying:
                    return AclDecision(False, acl)
            elif acl.operation in allowing:
                found = acl
        if found is not None:
            return AclDecision(True, found)
        return AclDecision(default and not is_about, None)

    def allows_some(self, client: Client, operation: Operation, resource_type: AclResourceType) -> bool:
        """Return True if ACLs allow the operation itself on any resource of the type, existing or not.

        An allowed name or prefix counts unless it is denied completely: by its own name, or by one of its prefixes.
        """
        entries = self._types.get(resource_type, _NO_ENTRIES)
        allowed: set[tuple[PatternType, str]] = set()
        denied: set[tuple[PatternType, str]] = set()
        for acl in entries:
            is_for = acl.principal in (client.principal, ANY_PRINCIPAL) and fits(acl.host, client.host)
            if is_for and acl.operation in (operation, Operation.ALL):
                (allowed if acl.permission is Permission.ALLOW else denied).add((acl.pattern.type, acl.pattern.name))
        wildcard = (PatternType.LITERAL, WILDCARD)
        if wildcard in denied:
            return False
        return wildcard in allowed or any(
            not ((kind is PatternType.LITERAL and (kind, name) in denied) or _has_denied_prefix(name, denied))
            for kind, name in allowed
        )


def _has_denied_prefix(name: str, denied: Collection[tuple[PatternType, str]]) -> bool:
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
