"""Names in certificates, compared with Java's ``X500Principal.getName`` for the same certificates."""

from __future__ import annotations

from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID as Oid
from hypothesis import given
from hypothesis import strategies as st

from server.security.certificates import authority, client_identity
from tidelog.server.security.certificate_principal import distinguished_name

Attribute = x509.NameAttribute[str]


@pytest.mark.parametrize(
    ("attributes", "javas"),
    [
        (
            [
                Attribute(Oid.COUNTRY_NAME, "SE"),
                Attribute(Oid.STATE_OR_PROVINCE_NAME, "Skåne"),
                Attribute(Oid.LOCALITY_NAME, "Lund"),
                Attribute(Oid.ORGANIZATION_NAME, "Example, Inc."),
                Attribute(Oid.ORGANIZATIONAL_UNIT_NAME, "a+b=c"),
                Attribute(Oid.COMMON_NAME, "alice"),
            ],
            r"CN=alice,OU=a\+b\=c,O=Example\, Inc.,L=Lund,ST=Skåne,C=SE",
        ),
        (
            [
                Attribute(Oid.COMMON_NAME, ' #"lead;ing\\ <x> '),
                Attribute(Oid.DOMAIN_COMPONENT, "example"),
                Attribute(Oid.DOMAIN_COMPONENT, "org"),
                Attribute(Oid.USER_ID, "u1"),
                Attribute(Oid.STREET_ADDRESS, "Road 1"),
            ],
            'STREET=Road 1,UID=u1,DC=org,DC=example,CN=\\ \\#\\"lead\\;ing\\\\ \\<x\\>\\ ',
        ),
        (
            [Attribute(Oid.EMAIL_ADDRESS, "a@b.org"), Attribute(Oid.SERIAL_NUMBER, "42"), Attribute(Oid.TITLE, "Dr")],
            "2.5.4.12=#0c024472,2.5.4.5=#13023432,1.2.840.113549.1.9.1=#16076140622e6f7267",
        ),
        (
            [Attribute(Oid.ORGANIZATION_NAME, "a#b  c"), Attribute(Oid.EMAIL_ADDRESS, "a" * 150 + "@b.org")],
            f"1.2.840.113549.1.9.1=#16819c{b'a'.hex() * 150}40622e6f7267,O=a\\#b  c",
        ),
    ],
)
def test_a_name_is_written_as_java_writes_it(attributes: list[Attribute], javas: str) -> None:
    certificate = authority().issue(*attributes).certificate
    assert distinguished_name(certificate.public_bytes(Encoding.DER)) == javas


@pytest.mark.parametrize(
    ("tag", "name", "javas"),
    [
        (0x0C, b"alice\0", r"alice\00"),
        (0x0C, b"\r alice\r", "\\\r\\ alice\\\r"),
        (0x0C, b" \r ", "\\ \\\r\\ "),
        (0x0C, b"\nalice\t", "\nalice\t"),
        (0x0C, b"Ren\xe9 \xf0\x9f\x92XX\xff", "Ren\ufffd \ufffdXX\ufffd"),
        (0x13, b"bob@xxx.com", "bob@xxx.com"),
        (0x14, b"Ren\xe9", "Ren\ufffd"),
        (0x16, b"Ren\xe9", "Ren\ufffd"),
        (0x1B, b"alice", "alice"),
        (0x1E, b"\0al\0i", r"\00al\00i"),
        (0x03, b"\0ALICE", "#030600414c494345"),
        (0x04, b"alice", "#0405616c696365"),
        (0x12, b"alice", "#1205616c696365"),
        (0x15, b"alice", "#1505616c696365"),
        (0x1A, b"alice", "#1a05616c696365"),
        (0x1C, b"alice", "#1c05616c696365"),
    ],
)
def test_whatever_an_authority_has_signed_has_the_name_that_java_gives_it(tag: int, name: bytes, javas: str) -> None:
    assert distinguished_name(authority().issue_value(tag, name).der) == f"CN={javas}"


@given(st.data())
def test_what_is_no_certificate_is_a_value_error(data: st.DataObject) -> None:
    whole = client_identity().certificate.public_bytes(Encoding.DER)
    position = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:position] + data.draw(st.binary(max_size=3)) + whole[position + data.draw(st.integers(0, 3)) :]
    for damaged in (changed, whole[:position]):
        with suppress(ValueError):
            distinguished_name(damaged)


def test_parts_of_several_attributes_stay_together() -> None:
    parts = [
        x509.RelativeDistinguishedName([Attribute(Oid.COMMON_NAME, "m"), Attribute(Oid.USER_ID, "7")]),
        x509.RelativeDistinguishedName([Attribute(Oid.COUNTRY_NAME, "SE")]),
    ]
    certificate = authority().issue_parts(parts).certificate
    assert distinguished_name(certificate.public_bytes(Encoding.DER)) == "C=SE,CN=m+UID=7"
