"""The log lines of a fetcher whose leader is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.client.model.errors import ClientClosedError, ClientError, DisconnectedError
from tidelog.following import fetcher
from tidelog.following.fetch_exchange import FetchAnswer
from tidelog.following.fetcher import Fetcher, FetcherSetup
from tidelog.model import TopicPartition

REFUSED, SILENT = DisconnectedError("connection refused"), DisconnectedError("no response")
RESPONSE = FetchAnswer(partitions={}, size=0)
PARTITION = TopicPartition("t", 0)
FAIL = "Fetches from broker 1 fail, and are tried again: %s"
AGAIN = "Fetches from broker 1 succeed again; %d failed"


class ScriptedExchange:
    """Gives the fetcher the outcomes one after the other, and then ends it."""

    leader = "broker 1"

    def __init__(self, outcomes: Sequence[ClientError | FetchAnswer]) -> None:
        self._outcomes = iter(outcomes)

    async def fetch(self, _wanted: object, *, max_wait_ms: int) -> FetchAnswer:
        outcome = next(self._outcomes, ClientClosedError("the end"))
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome


class ScriptedReplica:
    """A partition that is fetched whatever has failed."""

    partition = PARTITION
    topic_id = None
    is_behind = True
    follower = SimpleNamespace(request_failed=lambda *_: ())

    def wanted_position(self, _now_ms: int) -> object:
        return object()

    def received(self, *_: object, **__: object) -> tuple[()]:
        return ()


async def executed(_pending: object) -> None:
    """Execute no command."""


async def run_fetcher(outcomes: Sequence[ClientError | FetchAnswer]) -> None:
    setup: Any = FetcherSetup(
        exchange=ScriptedExchange(outcomes),  # type: ignore[arg-type]
        runner=SimpleNamespace(execute=executed),  # type: ignore[arg-type]
        now_ms=lambda: 0,
        max_wait_ms=0,
        on_failure=lambda _error: None,
        on_answer=lambda _answer: None,
        gives_up=lambda error: isinstance(error, ClientClosedError),
    )
    begun: Fetcher[Any] = Fetcher(setup)
    begun.replicas[PARTITION] = ScriptedReplica()
    await begun.task


@pytest.mark.parametrize(
    ("outcomes", "lines"),
    [
        ([RESPONSE, RESPONSE], []),
        ([REFUSED, REFUSED, SILENT, REFUSED, RESPONSE, RESPONSE], [FAIL % REFUSED, FAIL % SILENT, AGAIN % 4]),
        ([REFUSED, RESPONSE, REFUSED, RESPONSE], [FAIL % REFUSED, AGAIN % 1] * 2),
    ],
)
def test_an_error_has_one_line_until_the_leader_responds(
    caplog: pytest.LogCaptureFixture, outcomes: list[ClientError | FetchAnswer], lines: list[str]
) -> None:
    caplog.set_level(logging.INFO, fetcher.__name__)
    asyncio.run(run_fetcher(outcomes))
    found = [record for record in caplog.records if record.name == fetcher.__name__]
    assert [record.getMessage() for record in found] == lines
    assert {record.levelno for record in found if "tried again" in record.getMessage()} <= {logging.WARNING}
