"""The authorizer: Kafka's ``StandardAuthorizer``, as far as this server uses it.

=======================================  =============================================================================
settings                                 decision
=======================================  =============================================================================
no ``authorizer.class.name``             every client may do everything; nothing is looked up (``is_on``)
``StandardAuthorizer``, with ZooKeeper    ``super.users`` may do everything; ACLs decide for the others
``AclAuthorizer`` instead
another class                            refused: ConfigError
=======================================  =============================================================================

ACLs use ``User:*`` for all users, so they cannot name a client of that name. Its requests fail, as in Kafka, unless it
is a super user.

The table of ``docs/acls.md`` lists the checks of each API. The ACLs are those of the cluster metadata, which is loaded
before any client is served, so the authorizer is always ready. Thread rule: the event loop only. Source: Kafka's
``StandardAuthorizer``, ``AuthHelper``.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.authorization.acl import ANY_PRINCIPAL, Acl, AclFilter
from tidelog.server.authorization.acl_index import AclDecision, AclIndex, Client
from tidelog.server.authorization.audit import TRACE, is_enabled, log_decision
from tidelog.server.authorization.operation import SUPPORTED, Operation, operation_bits
from tidelog.server.authorization.resource import CLUSTER, AclResourceType, Resource
from tidelog.server.network.request_context import RequestContext
from tidelog.server.security.principal import Principal

_log = logging.getLogger(__name__)

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZOOKEEPER_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
"""Kafka's class for ACLs in ZooKeeper. Its decisions are those of ``StandardAuthorizer``."""

_FAILURES: Final = {
    AclResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    AclResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    AclResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    AclResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}
"""Kafka's error code and message by resource type."""

_SUPER: Final = AclDecision(True, None, is_super=True)
_MAX_CACHED: Final = 10_000
_MAX_CACHED_NAME: Final = 249
"""The longest name in characters whose decision is cached. Topic names are not longer; clients choose the others."""
_HARD_CODED: Final = "hardcode"
"""A name that Kafka checks if any name will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerSettings:
    super_users: frozenset[str]
    allows_by_default: bool
    """The decision for resources without ACLs."""

    @classmethod
    def of(cls, config: BrokerConfig) -> AuthorizerSettings | None:
        """Return the settings, or None without an authorizer.

        Raise ConfigError for another class or untyped super users.
        """
        name = str(config["authorizer.class.name"] or "").strip()
        if not name:
            return None
        supported = ZOOKEEPER_AUTHORIZER if config.uses_zookeeper else STANDARD_AUTHORIZER
        if name != supported:
            raise ConfigError(f"authorizer.class.name: {name} is not supported; use {supported}")
        users = [user.strip() for user in str(config["super.users"] or "").split(";") if user.strip()]
        if nameless := [user for user in users if ":" not in user]:
            raise ConfigError(
                f"super.users: {', '.join(nameless)} is not a principal; write principals as type:name, such as "
                "User:admin, with semicolons between them"
            )
        return cls(super_users=frozenset(users), allows_by_default=config.flag("allow.everyone.if.no.acl.found"))


class Authorizer:
    """The authorizer. ``is_on`` is False if everything is allowed."""

    def __init__(self, settings: AuthorizerSettings | None) -> None:
        self.is_on = settings is not None
        self._settings = settings or AuthorizerSettings(super_users=frozenset(), allows_by_default=True)
        self._index = AclIndex()
        self._cached: dict[tuple[Client, Operation, Resource], AclDecision] = {}
        """The cached decisions of this index, because clients repeat the same requests."""

    def change(self, added: Collection[Acl], removed: Collection[Acl] = ()) -> None:
        """Change the ACLs."""
        self._index = self._index.changed(added, removed)
        self._cached.clear()

    # --- one resource ---

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        *,
        log_denial: bool = True,
        count: int = 1,
    ) -> bool:
        """Return True if the client may do the operation.

        If ``log_denial``, a denial is logged at INFO: the client named the resource itself, ``count`` times.
        """
        if not self.is_on:
            return True
        client = client_of(context)
        decision = self._decide(client, operation, resource)
        level = logging.DEBUG if decision.is_allowed else logging.INFO if log_denial else TRACE
        if is_enabled(level):
            log_decision(level, client, context.api, operation, resource, decision, count=count)
        return decision.is_allowed

    def require(self, context: RequestContext, operation: Operation, resource: Resource = CLUSTER) -> None:
        """Raise the ApiError of ``failure`` unless the client may do the operation."""
        if not self.allows(context, operation, resource):
            raise failure(resource.type)

    def allows_some(self, context: RequestContext, operation: Operation, resource_type: AclResourceType) -> bool:
        """Return True if the client may do it with any resource of the type, existing or not."""
        return self.allows(context, operation, Resource(resource_type, _HARD_CODED), log_denial=False) or (
            self._index.allows_some(client_of(context), operation, resource_type)
        )

    # --- several resources ---

    def allowed(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Callable[[str], Resource],
        names: Iterable[str],
        *,
        log_denial: bool = True,
    ) -> set[str]:
        """Return the names that the client may use. ``resource`` turns a name into a resource."""
        if not self.is_on:
            return set(names)
        return {
            name
            for name, count in Counter(names).items()
            if self.allows(context, operation, resource(name), log_denial=log_denial, count=count)
        }

    def operations(self, context: RequestContext, resource: Resource) -> int:
        """Return the operations that the client may do with the resource, as a bit field."""
        supported = SUPPORTED[resource.type]
        if not self.is_on:
            return operation_bits(supported)
        client = client_of(context)
        return operation_bits(one for one in supported if self._decide(client, one, resource).is_allowed)

    def acls(self, wanted: AclFilter) -> list[Acl]:
        return [acl for acl in self._index if wanted.fits(acl)]

    # --- internals ---

    def _decide(self, client: Client, operation: Operation, resource: Resource) -> AclDecision:
        if client.principal in self._settings.super_users:
            return _SUPER
        if client.principal == ANY_PRINCIPAL:
            _log.warning(
                "A request of %s at %s is refused: in ACLs this name means all users", client.principal, client.host
            )
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "A client must not be named User:*, because in ACLs this name means all users.",
            )
        decision = self._cached.get((client, operation, resource))
        if decision is not None:
            return decision
        decision = self._index.decide(client, operation, resource, default=self._settings.allows_by_default)
        if len(resource.name) <= _MAX_CACHED_NAME:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            self._cached[client, operation, resource] = decision
        return decision


def failure(resource_type: AclResourceType) -> ApiError:
    """Return the error of a client that is not authorized."""
    return ApiError(*_FAILURES[resource_type])


def client_of(context: RequestContext) -> Client:
    return _client(context.principal, context.client_host)


@lru_cache(maxsize=1000)
def _client(principal: Principal, host: str) -> Client:
    return Client(str(principal), java_host(host))


def java_host(host: str) -> str:
    """Return an address in Java's form, which ACLs use: all eight groups of an IPv6 address, without ``::``."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
