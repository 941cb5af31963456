"""Our broker and Kafka's send the same responses, field by field, to an administrator's requests.

Both have the same settings and are empty at first. Kafka's broker applies its controller's records a moment later, so a
read-only request is repeated until the responses agree.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from real_kafka.broker import QUIET, SMALL, Broker
from server.admin.answers import answer_to
from server.admin.requests import Asked, requests
from server.harness import WireClient, running_broker
from server.older_versions import other_versions

pytestmark = pytest.mark.kafka

PATIENCE_S = 60
PLACES = {"advertised.listeners": "PLAINTEXT://127.0.0.1:1", "controller.quorum.voters": "1@127.0.0.1:2"}
"""Placeholders for settings that both brokers need. Their values do not matter."""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[WireClient]:
    with Broker(tmp_path / "kafka", work=tmp_path / "work") as broker:
        broker.format()
        broker.start()
        with WireClient(int(broker.bootstrap.rpartition(":")[2])) as client:
            yield client


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[WireClient]:
    settings = {key.replace(".", "_"): text for key, text in {**SMALL, **QUIET, **PLACES}.items()}
    with running_broker(tmp_path / "ours", **settings) as home, home.client() as client:
        yield client


def test_every_answer(kafka: WireClient, ours: WireClient) -> None:
    differing = {}
    for asked in [*requests(), *in_other_versions()]:
        mine = answer_to(ours, asked)
        theirs = their_answer(kafka, asked, mine)
        if mine != theirs:
            differing[asked.name] = {"ours": mine, "kafka": theirs}
    assert differing == {}


def in_other_versions() -> Iterator[Asked]:
    """Yield every request in all other versions. The newest versions have changed both brokers before."""
    for asked in requests():
        for version in other_versions(asked.api, asked.version, asked.values):
            yield asked._replace(version=version, name=f"{asked.name}, version {version}")


def their_answer(kafka: WireClient, asked: Asked, mine: Any) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    theirs = answer_to(kafka, asked)
    while asked.reads and theirs != mine and time.monotonic() < deadline:
        time.sleep(0.02)
        theirs = answer_to(kafka, asked)
    return theirs
