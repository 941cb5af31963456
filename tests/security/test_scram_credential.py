"""SCRAM credentials: the examples of the RFCs, and the data that is stored for a password."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from tidelog.security.scram_credential import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    random_salt,
    salt_of,
    salted_password,
)

RFC_7677_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_7677_MESSAGES = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)


def test_the_example_of_rfc_7677() -> None:
    """The proof matches the stored key, and the signature the server key (user ``user``, password ``pencil``)."""
    credential = ScramCredential.of_password(ScramMechanism.SHA_256, "pencil", salt=RFC_7677_SALT)
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(credential.stored_key, RFC_7677_MESSAGES, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == credential.stored_key
    server_signature = hmac.digest(credential.server_key, RFC_7677_MESSAGES, "sha256")
    assert base64.b64encode(server_signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_keys_are_as_the_rfc_defines_them(mechanism: ScramMechanism) -> None:
    """The expected keys follow the RFC's formulas step by step. PBKDF2 is ``Hi`` of RFC 5802."""
    password, salt, iterations = "pässword", b"salt of some bytes", 3
    block = hmac.digest(password.encode(), salt + b"\0\0\0\1", mechanism.digest)
    salted = int.from_bytes(block)
    for _ in range(iterations - 1):
        block = hmac.digest(password.encode(), block, mechanism.digest)
        salted ^= int.from_bytes(block)
    expected = salted.to_bytes(len(block))
    assert salted_password(mechanism, password, iterations=iterations, salt=salt) == expected
    credential = ScramCredential.of_password(mechanism, password, iterations=iterations, salt=salt)
    client_key = hmac.digest(expected, b"Client Key", mechanism.digest)
    assert credential.stored_key == hashlib.new(mechanism.digest, client_key).digest()
    assert credential.server_key == hmac.digest(expected, b"Server Key", mechanism.digest)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_credential_comes_back_from_its_record(mechanism: ScramMechanism) -> None:
    credential = ScramCredential.of_password(mechanism, "secret", iterations=4097)
    fields = credential.fields("alice")
    assert (fields["name"], fields["mechanism"]) == ("alice", int(mechanism))
    assert ScramCredential.of_fields(fields) == credential


def test_its_text_does_not_show_the_keys() -> None:
    credential = ScramCredential.of_password(ScramMechanism.SHA_256, "secret")
    for secret in (credential.salt, credential.stored_key, credential.server_key):
        assert repr(secret) not in repr(credential)


def test_names_and_numbers_are_kafkas() -> None:
    assert {name: int(mechanism) for name, mechanism in SCRAM_MECHANISMS.items()} == {
        "SCRAM-SHA-256": 1,
        "SCRAM-SHA-512": 2,
    }


def test_salts_are_numbers_to_the_base_of_36() -> None:
    first, second = random_salt(), random_salt()
    assert first != second
    assert int(first, 36) < 1 << 130
    for number in (0, 35, 36, 12345678901234567890):
        assert int(salt_of(number), 36) == number
    assert salt_of(1 << 130 | 7) == b"7"
