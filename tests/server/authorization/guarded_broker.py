"""A broker with ACLs, at which a client's id sets its principal, and the user Ann, whose ACLs a test adds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from server.authorization.world import SETTINGS, World
from server.harness import BrokerHome, running_broker
from tidelog.server.authorization.acl import Acl
from tidelog.server.dispatcher import Dispatcher
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import Response
from tidelog.server.security.principal import ANONYMOUS, Principal

ANN = "user-ann"


class Authenticated:
    """An interceptor that sets the connection's principal to the client id."""

    is_idle = False

    def __call__(
        self, context: RequestContext, request: object, handle: Callable[[], Response | Awaitable[Response]]
    ) -> Response | Awaitable[Response]:
        name = context.client_id or ""
        context.client.principal = Principal("User", name) if name.startswith("user-") else ANONYMOUS
        return handle()


@contextmanager
def guarded_broker(directory: Path) -> Iterator[BrokerHome]:
    settings = {key.replace(".", "_"): value for key, value in SETTINGS.items()}
    with running_broker(directory, **settings) as running:
        service = running.broker.service
        assert isinstance(service, Dispatcher)
        service.interceptor = Authenticated()
        yield running


def may(home: BrokerHome, *acls: Acl) -> None:
    with home.client() as client:
        World(client).allow(acl._replace(principal=f"User:{ANN}") for acl in acls)
