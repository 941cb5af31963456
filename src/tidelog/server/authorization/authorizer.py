"""Whether a client may do what it asks for: Kafka's ``StandardAuthorizer``, as far as the server asks it.

=======================================  =============================================================================
the settings                             who may do what
=======================================  =============================================================================
no ``authorizer.class.name``             everybody everything; nothing is looked up (``is_on``)
``StandardAuthorizer``                   those of ``super.users`` everything, the others by the access control lists
another class                            refused: ConfigError
=======================================  =============================================================================

A client by the name of ``User:*``, as entries call everybody, cannot be told from the others by them: what it asks for
fails, as in Kafka, unless it is a super user.

Every handler asks, as the table of ``docs/acls.md`` says of its API. The entries are those of the cluster's metadata,
which are loaded before any client is served: an authorizer that is not ready is never asked.
Made by: the broker. Called by: handlers. Thread rule: the loop's.
Source: Kafka's ``StandardAuthorizer``, ``AuthHelper``.
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
from tidelog.server.authorization.acl import ANY_PRINCIPAL, Acl
from tidelog.server.authorization.acl_filter import AclFilter
from tidelog.server.authorization.acl_index import AclIndex, Client, Verdict
from tidelog.server.authorization.audit import TRACE, is_said, say
from tidelog.server.authorization.operation import SUPPORTED, Operation, operation_bits
from tidelog.server.authorization.resource import CLUSTER, AclResourceType, Resource
from tidelog.server.principal import Principal
from tidelog.server.request_context import RequestContext

_log = logging.getLogger(__name__)

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_FAILURES: Final = {
    AclResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    AclResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    AclResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    AclResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}
"""In Kafka's words, by what somebody may not touch."""

_SUPER: Final = Verdict(True, None, is_super=True)
_MOST_KNOWN: Final = 10_000
_LONGEST_KNOWN: Final = 249
"""Characters of a name whose verdict is remembered: a topic's has no more, and clients choose the others."""
_HARD_CODED: Final = "hardcode"
"""A name that Kafka asks about where any name will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerSettings:
    super_users: frozenset[str]
    allows_by_default: bool
    """What there are no entries about."""

    @classmethod
    def of(cls, config: BrokerConfig) -> AuthorizerSettings | None:
        """None without an authorizer. ConfigError for another than Kafka's own, and for super users without a type."""
        name = str(config["authorizer.class.name"] or "").strip()
        if not name:
            return None
        if name != STANDARD_AUTHORIZER:
            raise ConfigError(
                f"authorizer.class.name: {name} is not known here, so nobody could say who may do what; "
                f"{STANDARD_AUTHORIZER} is"
            )
        users = [user.strip() for user in str(config["super.users"] or "").split(";") if user.strip()]
        if nameless := [user for user in users if ":" not in user]:
            raise ConfigError(
                f"super.users: {', '.join(nameless)} is no principal; principals are written type:name, such as "
                "User:admin, with semicolons between them"
            )
        return cls(super_users=frozenset(users), allows_by_default=config.flag("allow.everyone.if.no.acl.found"))


class Authorizer:
    """``is_on``: whether there is anything to ask."""

    def __init__(self, settings: AuthorizerSettings | None) -> None:
        self.is_on = settings is not None
        self._settings = settings or AuthorizerSettings(super_users=frozenset(), allows_by_default=True)
        self._index = AclIndex()
        self._known: dict[tuple[Client, Operation, Resource], Verdict] = {}
        """Verdicts by this index: clients ask the same again and again."""

    def change(self, added: Collection[Acl], removed: Collection[Acl] = ()) -> None:
        """Other access control lists from here on."""
        self._index = self._index.changed(added, removed)
        self._known.clear()

    # --- one question ---

    def allows(
        self, context: RequestContext, operation: Operation, resource: Resource, *, is_told: bool = True, count: int = 1
    ) -> bool:
        """``is_told``: a denial is news to the log, for the client has named the resource itself.

        ``count``: how often it did.
        """
        if not self.is_on:
            return True
        client = client_of(context)
        verdict = self._verdict(client, operation, resource)
        level = logging.DEBUG if verdict.is_allowed else logging.INFO if is_told else TRACE
        if is_said(level):
            say(level, client, context.api, operation, resource, verdict, count=count)
        return verdict.is_allowed

    def require(self, context: RequestContext, operation: Operation, resource: Resource = CLUSTER) -> None:
        """ApiError, as ``failure`` has it."""
        if not self.allows(context, operation, resource):
            raise failure(resource.type)

    def allows_some(self, context: RequestContext, operation: Operation, resource_type: AclResourceType) -> bool:
        """Whether the client may do it with any resource of the type, be there one or not."""
        return self.allows(context, operation, Resource(resource_type, _HARD_CODED), is_told=False) or (
            self._index.allows_some(client_of(context), operation, resource_type)
        )

    # --- many at once ---

    def allowed(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Callable[[str], Resource],
        names: Iterable[str],
        *,
        is_told: bool = True,
    ) -> set[str]:
        """Those of ``names`` that the client may. ``resource``: of a name; ``is_told`` as above."""
        if not self.is_on:
            return set(names)
        return {
            name
            for name, count in Counter(names).items()
            if self.allows(context, operation, resource(name), is_told=is_told, count=count)
        }

    def operations(self, context: RequestContext, resource: Resource) -> int:
        """What the client may do with it, a bit for each operation."""
        supported = SUPPORTED[resource.type]
        if not self.is_on:
            return operation_bits(supported)
        client = client_of(context)
        return operation_bits(one for one in supported if self._verdict(client, one, resource).is_allowed)

    def acls(self, wanted: AclFilter) -> list[Acl]:
        return [acl for acl in self._index if wanted.fits(acl)]

    # --- inside ---

    def _verdict(self, client: Client, operation: Operation, resource: Resource) -> Verdict:
        if client.principal in self._settings.super_users:
            return _SUPER
        if client.principal == ANY_PRINCIPAL:
            _log.warning(
                "A request of %s at %s is refused: entries mean everybody by that name", client.principal, client.host
            )
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "Nobody may have the name of everybody.")
        verdict = self._known.get((client, operation, resource))
        if verdict is not None:
            return verdict
        verdict = self._index.verdict(client, operation, resource, default=self._settings.allows_by_default)
        if len(resource.name) <= _LONGEST_KNOWN:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[client, operation, resource] = verdict
        return verdict


def failure(resource_type: AclResourceType) -> ApiError:
    """What a client is told that may not do what it asked for."""
    return ApiError(*_FAILURES[resource_type])


def client_of(context: RequestContext) -> Client:
    return _client(context.principal, context.client_host)


@lru_cache(maxsize=1000)
def _client(principal: Principal, host: str) -> Client:
    return Client(str(principal), java_host(host))


def java_host(host: str) -> str:
    """As Java writes an address, and so entries have it: all eight parts of a long one, none of them shortened."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
