"""Certificates for tests: an authority and certificates that it signs, in every form that settings accept."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store secret"
_DAY = datetime.timedelta(days=1)


class Identity(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    issuer: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def chain_pem(self) -> str:
        return self.certificate_pem + self.issuer.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption: KeySerializationEncryption = (
            BestAvailableEncryption(password.encode()) if password else NoEncryption()
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def store(self, password: str = PASSWORD) -> bytes:
        """Return a PKCS12 store with the key and its issuer."""
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"kafka", self.key, self.certificate, [self.issuer], encryption)


class OddCertificate(NamedTuple):
    """A certificate whose name may contain bytes that contradict their tag. Not every library reads it."""

    der: bytes
    key_pem: str

    @property
    def pem(self) -> str:
        """The certificate with its key."""
        return self.key_pem + ssl.DER_cert_to_PEM_cert(self.der)


class Authority:
    def __init__(self, name: str, *, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None) -> None:
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._signed(self._name, self._key.public_key(), is_authority=True)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def trust_store(self, password: str = PASSWORD) -> bytes:
        """Return a PKCS12 store with only the certificate, as Java's keytool writes it."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        return pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(password.encode()))

    def issue(self, *attributes: x509.NameAttribute[str], expired: bool = False) -> Identity:
        """Issue a certificate for this machine, and for a client with this name."""
        return self.issue_parts([x509.RelativeDistinguishedName([one]) for one in attributes], expired=expired)

    def issue_parts(self, parts: Sequence[x509.RelativeDistinguishedName], *, expired: bool = False) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        return Identity(self._signed(x509.Name(parts), key.public_key(), expired=expired), key, self.certificate)

    def issue_named(self, name: str, *, expired: bool = False) -> Identity:
        return self.issue(x509.NameAttribute(NameOID.COMMON_NAME, name), expired=expired)

    def issue_weak(self, name: str) -> tuple[x509.Certificate, rsa.RSAPrivateKey]:
        """Issue a certificate with a key of 1024 bits."""
        key = rsa.generate_private_key(65537, 1024)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._signed(subject, key.public_key()), key

    def issue_value(self, tag: int, name: bytes) -> OddCertificate:
        placeholder = "P" * len(name)
        issued = self.issue_named(placeholder)
        whole, signed = issued.certificate.public_bytes(Encoding.DER), issued.certificate.tbs_certificate_bytes
        value = bytes([0x0C, len(name)]) + placeholder.encode()
        assert signed.count(value) == 1
        changed = signed.replace(value, bytes([tag, len(name)]) + name)
        begin = whole.index(signed)
        algorithm_size = 2 + whole[begin + len(signed) + 1]
        algorithm = whole[begin + len(signed) : begin + len(signed) + algorithm_size]
        assert isinstance(self._key, ec.EllipticCurvePrivateKey)
        signature = b"\0" + self._key.sign(changed, ec.ECDSA(hashes.SHA256()))
        body = changed + algorithm + bytes([0x03, len(signature)]) + signature
        return OddCertificate(b"\x30\x82" + len(body).to_bytes(2) + body, issued.key_pem())

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
        *,
        is_authority: bool = False,
        expired: bool = False,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        names: Sequence[x509.GeneralName] = (x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1")))
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=is_authority,
            crl_sign=is_authority,
            encipher_only=False,
            decipher_only=False,
        )
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * _DAY)
            .not_valid_after(now - _DAY if expired else now + 30 * _DAY)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )


class WeakAuthority(Authority):
    """Signs certificates with SHA-1, which the library can verify but no longer write."""

    _SHA256, _SHA1 = bytes.fromhex("2a864886f70d01010b"), bytes.fromhex("2a864886f70d010105")
    """The object identifiers of RSA signatures."""

    def __init__(self, name: str) -> None:
        self._rsa = rsa.generate_private_key(65537, 2048)
        super().__init__(name, key=self._rsa)

    def issue_named(self, name: str, *, expired: bool = False) -> Identity:
        issued = super().issue_named(name, expired=expired)
        signed = issued.certificate.tbs_certificate_bytes
        changed = signed.replace(self._SHA256, self._SHA1)
        signature = self._rsa.sign(changed, padding.PKCS1v15(), hashes.SHA1())
        whole = issued.certificate.public_bytes(Encoding.DER).replace(signed, changed).replace(self._SHA256, self._SHA1)
        certificate = x509.load_der_x509_certificate(whole[: -len(signature)] + signature)
        return issued._replace(certificate=certificate)


@cache
def authority() -> Authority:
    """Return the authority that tests trust."""
    return Authority("tests")


@cache
def server_identity() -> Identity:
    return authority().issue_named("localhost")


@cache
def client_identity() -> Identity:
    return authority().issue(
        x509.NameAttribute(NameOID.COUNTRY_NAME, "SE"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example, Inc."),
        x509.NameAttribute(NameOID.COMMON_NAME, "alice"),
    )


CLIENT_NAME = "CN=alice,O=Example\\, Inc.,C=SE"
"""The client's name in Java's format."""


class Files(NamedTuple):
    """The files of clients and servers."""

    server: Path
    """Key and chain in PEM, also in ``client``."""
    client: Path
    authority: Path
    server_store: Path
    """PKCS12, also in the next two files."""
    client_store: Path
    trust_store: Path


def write_files(directory: Path) -> Files:
    directory.mkdir(parents=True, exist_ok=True)
    names = ("server.pem", "client.pem", "authority.pem", "server.p12", "client.p12", "trust.p12")
    files = Files(*(directory / name for name in names))
    server, client = server_identity(), client_identity()
    files.server.write_text(server.key_pem() + server.chain_pem)
    files.client.write_text(client.key_pem() + client.chain_pem)
    files.authority.write_text(authority().pem)
    files.server_store.write_bytes(server.store())
    files.client_store.write_bytes(client.store())
    files.trust_store.write_bytes(authority().trust_store())
    return files
