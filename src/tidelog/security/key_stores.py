"""The key and the trusted certificates of a listener or a client, from Kafka's key store and trust store settings.

=========  =================================================  ====================================================
type       key store                                          trust store
=========  =================================================  ====================================================
PEM        a file with the key and its chain, or both as      a file of certificates, or the setting's value
           values of settings
PKCS12     a file; needs the library ``cryptography``         a file of certificates, without a key
JKS        a PKCS12 file, as Java accepts it too; a real JKS  the same
           file is refused, with the command that converts
           it
=========  =================================================  ====================================================

In a properties file, line breaks of PEM text may be spaces or missing, as in Kafka's ``PemStore``.
Source: Kafka's ``DefaultSslEngineFactory``; KIP-651.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.model import ConfigError
from tidelog.security.ssl_config import SslConfig

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import pkcs12

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
_JAVAS_OWN = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and JCEKS files."""
INSTALL = "pip install 'tidelog[tls]'"


class KeyChain(NamedTuple):
    """A private key and its certificates in PEM. The ``repr`` hides the key."""

    chain: str
    key: str
    password: str | None

    def __repr__(self) -> str:
        return f"KeyChain({self.chain.count('BEGIN')} certificates)"


def key_chain(config: SslConfig) -> KeyChain:
    """Return the key and its certificates. Raise ConfigError if there are none, or if they cannot be read."""
    key, chain = config.text("ssl.keystore.key"), config.text("ssl.keystore.certificate.chain")
    location, password = config.text("ssl.keystore.location"), config.text("ssl.keystore.password")
    kind = _kind(config, "ssl.keystore.type")
    if key or chain:
        _check_inline(config, kind, "ssl.keystore", bool(location or password), bool(key and chain))
        return _of_pem(config.named("ssl.keystore.key"), f"{key}\n{chain}", config.text("ssl.key.password"))
    if location is None:
        raise ConfigError(f"{config.named('ssl.keystore.location')}: {config.owner} needs a key")
    where = f"{config.named('ssl.keystore.location')}: {location}"
    data = _read(where, location)
    if kind == PEM:
        if password:
            raise ConfigError(
                f"{config.named('ssl.keystore.password')}: a PEM file has no store password;"
                " set ssl.key.password instead"
            )
        return _of_pem(where, data.decode(errors="replace"), config.text("ssl.key.password"))
    if password is None:
        raise ConfigError(f"{config.named('ssl.keystore.password')} has to be set for {location}")
    return _of_pkcs12(where, data, password)


def trusted_certificates(config: SslConfig) -> str | None:
    """Return the certificates in PEM, or None without a trust store. Raise ConfigError if it cannot be read."""
    inline, location = config.text("ssl.truststore.certificates"), config.text("ssl.truststore.location")
    password = config.text("ssl.truststore.password")
    kind = _kind(config, "ssl.truststore.type")
    if inline:
        _check_inline(config, kind, "ssl.truststore", bool(location or password), True)
        where, found = config.named("ssl.truststore.certificates"), certificates(inline)
    elif location is None:
        return None
    else:
        where = f"{config.named('ssl.truststore.location')}: {location}"
        data = _read(where, location)
        if kind == PEM and password:
            raise ConfigError(f"{config.named('ssl.truststore.password')}: a PEM file has no password; remove this key")
        found = certificates(data.decode(errors="replace")) if kind == PEM else _trusted_of(where, data, password)
    if not found:
        raise ConfigError(f"{where}: there is no certificate in it")
    return found


def _kind(config: SslConfig, key: str) -> str:
    kind = str(config[key]).upper()
    if kind not in (PEM, PKCS12, JKS):
        raise ConfigError(f"{config.named(key)}: {config[key]} is not supported; use PEM or PKCS12")
    return kind


def _check_inline(config: SslConfig, kind: str, group: str, has_file: bool, is_whole: bool) -> None:
    """Raise ConfigError if settings conflict with PEM text in the settings themselves."""
    if kind != PEM:
        raise ConfigError(f"{config.named(group + '.type')} must be PEM if the PEM text is in the settings themselves")
    if has_file:
        raise ConfigError(
            f"{group}.location and {group}.password must not be set if the PEM text is in the settings themselves"
        )
    if not is_whole:
        raise ConfigError("ssl.keystore.key and ssl.keystore.certificate.chain have to be set together")


def _read(where: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror}") from None


def _of_pem(where: str, text: str, password: str | None) -> KeyChain:
    found = KeyChain(certificates(text), private_key(text), password)
    if not found.key or not found.chain:
        raise ConfigError(f"{where}: there is no {'private key' if not found.key else 'certificate'} in PEM")
    return found


def _of_pkcs12(where: str, data: bytes, password: str) -> KeyChain:
    store = _loaded(where, data, password)
    if store.key is None or store.cert is None:
        raise ConfigError(f"{where}: there is no private key with a certificate in it")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = _ordered(store.cert.certificate, [one.certificate for one in store.additional_certs])
    return KeyChain("".join(one.public_bytes(Encoding.PEM).decode() for one in chain), key.decode(), None)


def _trusted_of(where: str, data: bytes, password: str | None) -> str:
    store = _loaded(where, data, password)
    if store.key is not None:
        raise ConfigError(
            f"{where}: it contains a private key, so it is unclear which certificates are trusted; "
            "a trust store must contain only certificates"
        )
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(one.certificate.public_bytes(Encoding.PEM).decode() for one in store.additional_certs)


def _loaded(where: str, data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    if data.startswith(_JAVAS_OWN):
        raise ConfigError(
            f"{where} is a Java key store (JKS); convert it to PKCS12: keytool -importkeystore "
            "-srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"
        )
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ConfigError(f"{where}: a library to read PKCS12 is missing; run: {INSTALL}") from None
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise ConfigError(f"{where} is not a PKCS12 file, or the password is wrong") from None


def _ordered(leaf: x509.Certificate, others: list[x509.Certificate]) -> Iterator[x509.Certificate]:
    """Yield the key's certificate, then each issuer, as far as they are present."""
    yield leaf
    while (issuer := next((one for one in others if one.subject == leaf.issuer), None)) is not None:
        others.remove(issuer)
        yield issuer
        leaf = issuer


_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=label)-----", re.DOTALL)
_CERTIFICATE = "CERTIFICATE"
_KEY = "PRIVATE KEY"
"""The end of every private key's label."""


def certificates(text: str) -> str:
    """Return the certificates in ``text``, with OpenSSL's line breaks; empty if there are none."""
    return "".join(_written(match) for match in _BLOCK.finditer(text) if match["label"] == _CERTIFICATE)


def private_key(text: str) -> str:
    """Return the first private key in ``text``; empty if there is none."""
    return next((_written(match) for match in _BLOCK.finditer(text) if match["label"].endswith(_KEY)), "")


def _written(match: re.Match[str]) -> str:
    label, body = match["label"], match["body"]
    if ":" not in body:  # a body with headers has its line breaks already
        body = "\n" + "\n".join(textwrap.wrap("".join(body.split()), 64)) + "\n"
    return f"-----BEGIN {label}-----{body}-----END {label}-----\n"
