"""The client's SCRAM: the RFC's exchange, tidelog's server, and servers that lie."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.security.test_scram_exchange import Users
from tidelog.client import AuthenticationError
from tidelog.client.security.scram_client import ScramClient
from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.security.scram_exchange import ScramExchange

SHA_256 = ScramMechanism.SHA_256
RFC_SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def rfc_client() -> ScramClient:
    return ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")


def test_the_exchange_of_rfc_7677() -> None:
    client = rfc_client()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(RFC_SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "ü"])
def test_tidelogs_server(mechanism: ScramMechanism, user: str) -> None:
    server = ScramExchange(mechanism, Users({user: ScramCredential.of_password(mechanism, "secret")}))
    client = ScramClient(mechanism, user, "secret")
    client.verify(server.respond(client.final(server.respond(client.first()))))
    assert server.user == user


def test_nonces_are_random() -> None:
    assert len({ScramClient(SHA_256, "a", "b").first() for _ in range(100)}) == 100


def test_a_wrong_signature_is_refused() -> None:
    client = rfc_client()
    client.final(RFC_SERVER_FIRST)
    with pytest.raises(AuthenticationError, match="its SCRAM signature is wrong: it does not know the password"):
        client.verify(b"v=" + base64.b64encode(bytes(32)))


def test_a_server_that_skips_the_proof_is_refused() -> None:
    """A signature of nothing must not count before the client's own proof."""
    with pytest.raises(AuthenticationError, match="signature is wrong"):
        rfc_client().verify(b"v=AA==")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "cannot be read"),
        (b"\xff\xfe", "is not text"),
        (b"m=ext," + RFC_SERVER_FIRST, "cannot be read"),
        (RFC_SERVER_FIRST.replace(b"i=4096", b"i=x"), "cannot be read"),
        (RFC_SERVER_FIRST.replace(b"r=rOpr", b"r=sOpr"), "does not continue the client's"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22Z,i=4096", "does not continue the client's"),
        (RFC_SERVER_FIRST.replace(b"4096", b"4095"), "4095 SCRAM iterations"),
        (RFC_SERVER_FIRST.replace(b"4096", b"999999999"), "999999999 SCRAM iterations"),
        (RFC_SERVER_FIRST.replace(b"Q==", b"Q="), "is not base64"),
    ],
)
def test_first_messages_that_are_refused(message: bytes, text: str) -> None:
    with pytest.raises(AuthenticationError, match=text):
        rfc_client().final(message)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "cannot be read"),
        (b"v=", "cannot be read"),
        (b"x=1", "cannot be read"),
        (b"v=A", "is not base64"),
        (b"e=invalid-proof", "refuses the password: invalid-proof"),
        (b"\xff", "is not text"),
    ],
)
def test_final_messages_that_are_refused(message: bytes, text: str) -> None:
    client = rfc_client()
    client.final(RFC_SERVER_FIRST)
    with pytest.raises(AuthenticationError, match=text):
        client.verify(message)


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_are_refused_without_another_error(first: bytes, final: bytes) -> None:
    client = rfc_client()
    with pytest.raises(AuthenticationError):
        client.final(first)
    client = rfc_client()
    client.final(RFC_SERVER_FIRST)
    with pytest.raises(AuthenticationError):
        client.verify(final)
