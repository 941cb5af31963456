"""A client cannot guess names that it may not see, because its regular expressions are never matched with them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from server.authorization.case import on_group, on_topic, on_transaction
from server.authorization.guarded_broker import ANN, guarded_broker, may
from server.authorization.world import World
from server.harness import BrokerHome, WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.authorization.operation import Operation
from tidelog.testing.broker.loop_thread import PATIENCE_S

HIDDEN = "payroll-to-be-transferred-to-the-bank-in-Europe-0001"
MINE = "mine"
DEAR = "(?:(?:.?.?.?.?.?.?.?.?){1000}(?:.?.?){900})"
"""An expression that takes too long on a long text that matches its beginning."""
RIGHT, WRONG = f"payroll-to{DEAR}", f"payroll-in{DEAR}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerHome]:
    with guarded_broker(tmp_path_factory.mktemp("names")) as running:
        yield running


@pytest.fixture
def ann(home: BrokerHome) -> Iterator[WireClient]:
    with home.client(client_id=ANN) as client:
        yield client


def listed(client: WireClient, pattern: str) -> tuple[int, list[str]]:
    answer = client.call(ApiKey.LIST_TRANSACTIONS, duration_filter=-1, transactional_id_pattern=pattern)
    return answer.error_code, [state.transactional_id for state in answer.transaction_states]


def test_a_pattern_is_matched_with_the_transactional_ids_that_may_be_seen(home: BrokerHome, ann: WireClient) -> None:
    with home.client() as admin:
        World(admin).init(HIDDEN)
        assert listed(admin, f"{HIDDEN[:10]}.*") == (ErrorCode.NONE, [HIDDEN])
    assert [listed(ann, pattern) for pattern in ("", RIGHT, WRONG)] == [(ErrorCode.NONE, [])] * 3
    may(home, on_transaction(Operation.DESCRIBE, HIDDEN))
    told = [code for code, _names in (listed(ann, RIGHT), listed(ann, WRONG))]
    assert told == [ErrorCode.INVALID_REGULAR_EXPRESSION, ErrorCode.NONE]


def test_a_subscription_is_matched_with_the_topics_that_may_be_seen(home: BrokerHome, ann: WireClient) -> None:
    with home.client() as admin:
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (MINE, HIDDEN)]
        admin.call(ApiKey.CREATE_TOPICS, topics=topics, timeout=10_000)
        World(admin).find(0, "any")
    may(home, on_topic(Operation.READ, MINE), on_group(Operation.READ, "*"))
    assert [is_assigned(ann, f"{MINE}|{guess}") for guess in (RIGHT, WRONG)] == [True, True]


def is_assigned(client: WireClient, expression: str) -> bool:
    """Return True if the only member of a group with this subscription gets an assignment before the deadline."""
    member = {"group_id": str(uuid.uuid4()), "member_id": str(uuid.uuid4())}
    joining = {"subscribed_topic_regex": expression, "rebalance_timeout": 60_000, "topic_partitions": []}
    epoch, deadline = 0, time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        answer = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, **member, member_epoch=epoch, **joining)
        if answer.error_code == ErrorCode.NONE:
            epoch, joining = answer.member_epoch, {}
            if answer.assignment is not None and answer.assignment.topic_partitions:
                return True
        time.sleep(0.02)
    return False
