"""SASL PLAIN: successful authentication, and responses to failures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.server.security.sasl_exchange import PlainExchange, SaslError

PASSWORDS = {"alice": "alice's", "bøb": "pässword", "nobody": ""}


def refusal(token: bytes) -> SaslError:
    exchange = PlainExchange(PASSWORDS)
    with pytest.raises(SaslError) as raised:
        exchange.respond(token)
    assert exchange.user is None
    return raised.value


@pytest.mark.parametrize("token", [b"\0alice\0alice's", b"alice\0alice\0alice's", "\0bøb\0pässword".encode()])
def test_who_knows_the_password_is_let_in(token: bytes) -> None:
    exchange = PlainExchange(PASSWORDS)
    assert exchange.respond(token) == b""
    assert exchange.user == token.split(b"\0")[1].decode()


def test_a_wrong_name_is_told_as_a_wrong_password() -> None:
    """Both have Kafka's message, and the log contains the same text for both."""
    texts = {(one.client_message, one.message) for one in (refusal(b"\0alice\0bob's"), refusal(b"\0carol\0alice's"))}
    assert texts == {("Authentication failed: Invalid username or password", "a wrong name or password")}


def test_who_wants_to_be_another_is_told_so_once_the_password_is_right() -> None:
    assert "different from username" in str(refusal(b"bob\0alice\0alice's").client_message)
    assert "Invalid username or password" in str(refusal(b"bob\0alice\0wrong").client_message)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0alice\0",
        b"\0\0alice's",
        b"alice\0alice's",
        b"\0alice\0alice's\0",
        b"\0alice\0\xff",
        b"\0nobody\0",
    ],
)
def test_what_is_no_name_and_password_is_refused_without_details(token: bytes) -> None:
    assert refusal(token).client_message is None


def test_there_is_one_token() -> None:
    exchange = PlainExchange(PASSWORDS)
    exchange.respond(b"\0alice\0alice's")
    with pytest.raises(SaslError):
        exchange.respond(b"\0alice\0alice's")
    failed = PlainExchange(PASSWORDS)
    for token in (b"\0alice\0wrong", b"\0alice\0alice's"):
        with pytest.raises(SaslError):
            failed.respond(token)
    assert failed.user is None


@given(st.binary(max_size=64))
def test_any_bytes_are_refused_without_another_error(token: bytes) -> None:
    assert refusal(token).message.isascii()
