"""Ann, who may what a test allows her and nothing else, at a broker where everybody is who its client id says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from server.authorization.test_every_api import authenticated
from server.authorization.world import SETTINGS, World
from server.harness import BrokerHome, running_broker
from tidelog.server.authorization.acl import Acl

ANN = "user-ann"


@contextmanager
def guarded_broker(directory: Path) -> Iterator[BrokerHome]:
    settings = {key.replace(".", "_"): value for key, value in SETTINGS.items()}
    with running_broker(directory, **settings) as running:
        running.broker.requests.interceptor = authenticated
        yield running


def may(home: BrokerHome, *acls: Acl) -> None:
    with home.client() as client:
        World(client).allow(acl._replace(principal=f"User:{ANN}") for acl in acls)
