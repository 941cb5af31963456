"""Quotas of users, who are identified by their authenticated name."""

from __future__ import annotations

from pathlib import Path

from log_maker import batch
from server.data.data_home import WITH_NAMES, DataHome
from server.harness import WireClient
from server.security.logins import SecureHome, log_in, secure_broker
from tidelog.protocol.api_key import ApiKey

PASSWORDS = {"alice": "alice's secret", "bob": "bob's"}
RATE = "producer_byte_rate"


def set_quota(home: SecureHome, **entity: str | None) -> None:
    parts = [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in entity.items()]
    entry = {"entity": parts, "ops": [{"key": RATE, "value": 1.0, "remove": False}]}
    with home.wire("PLAINTEXT") as admin:
        answer = admin.call(ApiKey.ALTER_CLIENT_QUOTAS, entries=[entry], validate_only=False)
    assert answer.entries[0].error_code == 0, answer


def throttled(home: SecureHome, user: str | None) -> bool:
    """Return True if a batch of this user is throttled. ``None`` stands for a client without authentication."""
    with home.wire("PLAINTEXT" if user is None else "SASL") as client:
        if user is not None:
            assert log_in(client, "PLAIN", user, PASSWORDS[user]).error_code == 0
        return wait_of(home, client) > 0


def wait_of(home: SecureHome, client: WireClient) -> int:
    sent = DataHome(home, client).send_produce(batch(0, [b"x" * 100]))
    answer = client.receive(ApiKey.PRODUCE, WITH_NAMES, sent)
    wait_ms: int = answer.throttle_time
    return wait_ms


def test_each_user_has_its_own(tmp_path: Path) -> None:
    with secure_broker(tmp_path, {"log.retention.ms": "-1"}) as home:
        with home.wire("PLAINTEXT") as client:
            DataHome(home, client).create("t")
        assert not throttled(home, "alice")
        set_quota(home, user="alice")
        assert [throttled(home, user) for user in ("alice", "bob", None)] == [True, False, False]
        set_quota(home, user="ANONYMOUS", client_id="test")
        assert [throttled(home, user) for user in ("alice", "bob", None)] == [True, False, True]
        set_quota(home, user=None)
        assert [throttled(home, user) for user in ("alice", "bob", None)] == [True, True, True]
