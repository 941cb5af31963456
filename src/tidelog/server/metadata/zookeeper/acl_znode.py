"""The codec of the ACLs of a resource. Pure.

Kafka spells resource types and operations like class names (``TransactionalId``, ``DescribeConfigs``), and reads
operations and permissions in any case. The sequence of the ACLs in a znode has no meaning: Kafka writes that of a hash
table whose hashes differ in each process. Here they are sorted.
Decoders raise ZnodeError. Source: Kafka's ``AclEntry``, ``SecurityUtils``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, TypeVar

from tidelog.model import ZnodeError
from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.znode_json import JsonFields, encode_json, shown

E = TypeVar("E", bound=IntEnum)


def _spelled(value: IntEnum) -> str:
    """Return Kafka's spelling: ``DescribeConfigs`` for DESCRIBE_CONFIGS."""
    return "".join(word.capitalize() for word in value.name.split("_"))


_FOR_FILTERS: Final = (0, 1)
"""The numbers of UNKNOWN and ANY in each of the three types."""
RESOURCE_TYPES: Final = {_spelled(one): one for one in AclResourceType if one not in _FOR_FILTERS}
"""The types of resources by their names in paths."""
_STORES: Final = {PatternType.PREFIXED: paths.PREFIXED_ACLS, PatternType.LITERAL: paths.LITERAL_ACLS}
_OPERATIONS: Final = {_spelled(one).lower(): one for one in Operation if one not in _FOR_FILTERS}
_PERMISSIONS: Final = {_spelled(one).lower(): one for one in Permission if one not in _FOR_FILTERS}


def acl_path(pattern: Pattern) -> str:
    """Return the path of the znode with the ACLs of ``pattern``."""
    return f"{_STORES[pattern.type]}/{_spelled(pattern.resource_type)}/{pattern.name}"


def pattern_of(path: str) -> Pattern:
    """Return the resource whose ACLs are in the znode ``path``; the inverse of ``acl_path``."""
    pattern_type, store = next((one, store) for one, store in _STORES.items() if path.startswith(f"{store}/"))
    kind, _, name = path[len(store) + 1 :].partition("/")
    if kind not in RESOURCE_TYPES:
        raise ZnodeError(f"znode {path}: {shown(kind)} is not a resource type that is known here")
    return Pattern(RESOURCE_TYPES[kind], name, pattern_type)


def decode_acls(path: str, data: bytes, pattern: Pattern) -> list[Acl]:
    """Return the ACLs of a resource. ``pattern`` is the resource that the path names."""
    fields = JsonFields.of(path, data)
    fields.version(1)
    return [
        Acl(
            pattern=pattern,
            principal=_principal(one),
            host=one.text("host"),
            operation=_named(one, "operation", _OPERATIONS),
            permission=_named(one, "permissionType", _PERMISSIONS),
        )
        for one in fields.inner_all("acls")
    ]


def encode_acls(acls: Iterable[Acl]) -> bytes:
    """Return the data of a znode for the ACLs of one resource."""
    found = [
        {
            "principal": acl.principal,
            "permissionType": _spelled(acl.permission),
            "host": acl.host,
            "operation": _spelled(acl.operation),
        }
        for acl in sorted(set(acls))
    ]
    return encode_json({"acls": found, "version": 1})


def _principal(fields: JsonFields) -> str:
    principal = fields.text("principal")
    if ":" not in principal:
        raise fields.error(f"principal is {shown(principal)}, which has no type before a colon")
    return principal


def _named(fields: JsonFields, name: str, known: dict[str, E]) -> E:
    text = fields.text(name)
    if text.lower() not in known:
        raise fields.error(f"{name} is {shown(text)}, which is not known")
    return known[text.lower()]
