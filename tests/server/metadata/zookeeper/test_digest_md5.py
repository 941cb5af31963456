"""DIGEST-MD5: the example of RFC 2831, names with all characters, and servers without the mechanism or the password."""

from __future__ import annotations

import pytest

from tidelog.server.metadata.zookeeper.digest_md5 import DigestMd5
from tidelog.server.metadata.zookeeper.settings import DigestLogin

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


def exchange(username: str = "chris", password: str = "secret") -> DigestMd5:
    return DigestMd5(DigestLogin(username, password), "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com")


def test_the_example_of_the_rfc() -> None:
    """The challenge and the response are those of section 4 of RFC 2831."""
    client = exchange()
    fields = client.respond(CHALLENGE).decode().split(",")
    assert set(fields) == {
        "charset=utf-8",
        'username="chris"',
        'realm="elwood.innosoft.com"',
        'nonce="OA6MG9tEQGm2hh"',
        "nc=00000001",
        'cnonce="OA6MHXh6VqTrRk"',
        'digest-uri="imap/elwood.innosoft.com"',
        "response=d388dad90d4bbd760a152321f2143af7",
        "qop=auth",
    }
    client.check(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")


@pytest.mark.parametrize(
    "message", [b"", b"rspauth=", b"rspauth=ea40f60335c427b5527b84dbabcdfffe", b"\xff", b'rspauth="\xc3\xa9"']
)
def test_a_server_that_does_not_know_the_password(message: bytes) -> None:
    client = exchange()
    client.respond(CHALLENGE)
    with pytest.raises(ValueError, match=r"does not know the password|codec can't decode"):
        client.check(message)


def test_a_proof_before_the_response() -> None:
    with pytest.raises(ValueError, match="does not know the password"):
        exchange().check(b"rspauth=")


@pytest.mark.parametrize("challenge", [b"", b'realm="x"', b'nonce="x",qop="auth-conf"', b"\xff", b"," * 50])
def test_a_server_without_the_mechanism(challenge: bytes) -> None:
    with pytest.raises(ValueError, match=r"no authentication with DIGEST-MD5|codec can't decode"):
        exchange().respond(challenge)


def test_quotes_and_backslashes_are_escaped() -> None:
    message = exchange(username='a"b\\c').respond(rb'nonce="x\"y" , realm="a\\b"').decode()
    assert r'username="a\"b\\c"' in message
    assert r'nonce="x\"y"' in message
    assert r'realm="a\\b"' in message


def test_the_password_is_in_no_representation() -> None:
    assert "secret" not in repr(DigestLogin("chris", "secret"))
