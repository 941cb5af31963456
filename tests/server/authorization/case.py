"""A request of a user with or without ACLs, and the error code that it is expected to return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from server.authorization.world import GROUP, TOPIC, TRANSACTION, World
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType

Values = Mapping[str, Any]

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
DENIALS: Final = frozenset({TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TRANSACTION_DENIED})

NOBODY = "User:nobody"
UNKNOWN_ID = UUID("7d7c6c5c-1111-4222-8333-944455566677")
ANYWHERE = "*"


class Case(NamedTuple):
    name: str
    api: ApiKey
    version: int
    values: Callable[[World], Values]
    rules: tuple[Acl, ...]
    """The user's ACLs. Their principal is filled in later."""
    denial: ErrorCode | None
    """The error code that the response must contain, or None if the response contains no denial."""

    @property
    def is_allowed(self) -> bool:
        return bool(self.rules)


def rule(
    operation: Operation,
    kind: AclResourceType,
    name: str,
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(Pattern(kind, name, pattern), NOBODY, ANYWHERE, operation, permission)


def on_topic(operation: Operation, name: str = TOPIC, **more: Any) -> Acl:
    return rule(operation, AclResourceType.TOPIC, name, **more)


def on_group(operation: Operation, name: str = GROUP, **more: Any) -> Acl:
    return rule(operation, AclResourceType.GROUP, name, **more)


def on_cluster(operation: Operation) -> Acl:
    return rule(operation, AclResourceType.CLUSTER, "kafka-cluster")


def on_transaction(operation: Operation, name: str = TRANSACTION) -> Acl:
    return rule(operation, AclResourceType.TRANSACTIONAL_ID, name)


class _Asked:
    """A request, from which ``by`` builds the cases of different users."""

    def __init__(
        self, api: ApiKey, values: Values | Callable[[World], Values], *, version: int | None, name: str
    ) -> None:
        self._api = api
        self._values = values if callable(values) else lambda _world: values
        self._version = VERSIONS[api].latest if version is None else version
        self._name = f"{api.name}{name and ' '}{name}"

    def by(self, who: str, *rules: Acl, denial: ErrorCode | None = None) -> Case:
        return Case(f"{self._name}, {who}", self._api, self._version, self._values, rules, denial)


def asked(
    api: ApiKey, values: Values | Callable[[World], Values], *, version: int | None = None, name: str = ""
) -> _Asked:
    return _Asked(api, values, version=version, name=name)


def names(*of: str | None, topic_id: UUID | None = None) -> list[Values]:
    """Return topics for requests that can name them by id."""
    return [{"name": name, "topic_id": topic_id} for name in of]


def committed(name: str) -> Values:
    """Return one topic of a request that commits an offset."""
    return {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 0}]}


def producer_of(world: World, name: str = TRANSACTION) -> Values:
    """Return the transaction's producer id and epoch."""
    producer_id, epoch = world.producers[name]
    return {"producer_id": producer_id, "producer_epoch": epoch}
