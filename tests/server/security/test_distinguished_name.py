"""Names in certificates: what Java's ``X500Principal.getName`` said of the same certificates."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID as Oid

from server.security.certificates import authority
from tidelog.server.security.distinguished_name import distinguished_name

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


def test_parts_of_several_attributes_stay_together() -> None:
    parts = [
        x509.RelativeDistinguishedName([Attribute(Oid.COMMON_NAME, "m"), Attribute(Oid.USER_ID, "7")]),
        x509.RelativeDistinguishedName([Attribute(Oid.COUNTRY_NAME, "SE")]),
    ]
    certificate = authority().issue_parts(parts).certificate
    assert distinguished_name(certificate.public_bytes(Encoding.DER)) == "C=SE,CN=m+UID=7"
