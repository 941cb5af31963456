"""A principal on its way to the controller has the bytes that Kafka's principal builder writes."""

from __future__ import annotations

import pytest

from tidelog.protocol.errors import MalformedMessageError
from tidelog.server.security.principal import ANONYMOUS, Principal
from tidelog.server.security.principal_data import read_principal, write_principal


def test_the_bytes() -> None:
    assert write_principal(ANONYMOUS) == b"\0\0\x05User\x0aANONYMOUS\0\0"


@pytest.mark.parametrize("name", ["", "alice", "ü" * 100, "CN=a, O=" + "x" * 20_000])
def test_a_principal_comes_back(name: str) -> None:
    principal = Principal("User", name)
    assert read_principal(write_principal(principal)) == principal


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1\x05User\x02a\0\0", b"\0\0\x05Us", b"\0\0\x03\xff\xff\x02a\0\0"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read_principal(data)
