"""The name in a certificate, as Java writes it: what Kafka's principals and access control lists have. Pure.

``CN=alice,OU=accounts,O=Example\\, Inc.,C=SE``: the last part first, by RFC 2253, with its nine short names.
What it has no name for, an e-mail address say, is its number and its bytes: ``1.2.840.113549.1.9.1=#1603612e62``.
Source: ``X500Principal.getName``.
"""

from __future__ import annotations

from collections.abc import Iterator

from cryptography import x509
from cryptography.x509.oid import NameOID

_NAMES = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
_ESCAPED = frozenset(',=+<>#;"\\')


def distinguished_name(certificate: bytes) -> str:
    """Of the subject of a certificate, whose DER is given. ValueError for bytes that are none."""
    subject = x509.load_der_x509_certificate(certificate).subject
    return ",".join("+".join(map(_part, part)) for part in reversed(subject.rdns))


def _part(attribute: x509.NameAttribute[str | bytes]) -> str:
    name = _NAMES.get(attribute.oid)
    if name is None or isinstance(attribute.value, bytes):
        return f"{attribute.oid.dotted_string}=#{_value_bytes(attribute).hex()}"
    return f"{name}={_escaped(attribute.value)}"


def _escaped(text: str) -> str:
    def escaped() -> Iterator[str]:
        first, last = len(text) - len(text.lstrip(" ")), len(text.rstrip(" "))
        for index, char in enumerate(text):
            is_outer_space = char == " " and not first <= index < last
            yield f"\\{char}" if char in _ESCAPED or is_outer_space else char

    return "".join(escaped())


def _value_bytes(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """The value's own DER, with tag and length: what is left of the name that has this attribute alone."""
    data = x509.Name([attribute]).public_bytes()
    for _ in range(3):  # into the sequence of parts, the part, the attribute
        data = data[_header_size(data) :]
    return data[2 + data[1] :]  # behind its number, which is short


def _header_size(data: bytes) -> int:
    """Of a tag of one byte and a length."""
    return 2 if data[1] < 0x80 else 2 + (data[1] & 0x7F)
