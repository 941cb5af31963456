"""The parts of a TLS context that a listener and a client have in common, from Kafka's ``ssl`` keys.

===========================  ==========================================================================================
key                          meaning here
===========================  ==========================================================================================
``ssl.enabled.protocols``    TLSv1.2, TLSv1.3 or both; older versions are refused
``ssl.protocol``             validated, but without effect: ``ssl.enabled.protocols`` decides
``ssl.cipher.suites``        Java's names: ``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`` is ``ECDHE-RSA-AES128-GCM-SHA256``.
                             ``@SECLEVEL=1`` is OpenSSL's: the minimum strength of keys and signatures
===========================  ==========================================================================================

Python's ssl offers all suites of TLS 1.3 or none. OpenSSL reads the key from a path. On Linux that path is anonymous
memory, so the key is not written to a disk. Source: Kafka's ``SslFactory``, ``DefaultSslEngineFactory``.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tidelog.model import ConfigError
from tidelog.security.key_stores import KeyChain
from tidelog.security.ssl_config import SslConfig

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PROTOCOLS = ("TLS", *_VERSIONS)
_HIGHEST_LEVEL = 5
"""The highest of OpenSSL's security levels; 0 allows everything."""
_KEY_ERRORS = {
    "KEY_VALUES_MISMATCH": "the private key does not belong to the certificate",
    "CA_MD_TOO_WEAK": (
        "a certificate is signed with SHA-1 or MD5, which OpenSSL refuses at this security level; sign it again"
        " with SHA-256, or allow it with @SECLEVEL=0 in ssl.cipher.suites"
    ),
    "EE_KEY_TOO_SMALL": (
        "the key is smaller than OpenSSL's security level allows; create one of at least 2048 bits, or allow it with a"
        " lower @SECLEVEL in ssl.cipher.suites"
    ),
}
"""The problem and its remedy by OpenSSL's reason."""
_REFUSED = ("ssl.engine.factory.class", "ssl.provider")


def new_context(config: SslConfig, *, is_server: bool) -> ssl.SSLContext:
    """Return a context with the configured versions and cipher suites. Raise ConfigError with the mistake."""
    for key in _REFUSED:
        if config.text(key):
            raise ConfigError(f"{config.named(key)}: custom classes are not supported")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # any trusted certificate may end a chain, as in Java
    _set_versions(context, config)
    return context


def _set_versions(context: ssl.SSLContext, config: SslConfig) -> None:
    """Set the versions and the cipher suites. If suites are configured, a version without any is disabled."""
    protocol = config.text("ssl.protocol")
    if protocol not in (None, *_PROTOCOLS):
        raise ConfigError(
            f"{config.named('ssl.protocol')}: {protocol} is not supported; use one of {_listed(_PROTOCOLS)}"
        )
    names = config.texts("ssl.enabled.protocols") or tuple(_VERSIONS)
    key = config.named("ssl.enabled.protocols")
    for name in names:
        if name not in _VERSIONS:
            raise ConfigError(f"{key}: {name} is not supported; use {_listed(_VERSIONS)}")
    versions = {_VERSIONS[name] for name in names}
    level, suites = split_security_level(config.texts("ssl.cipher.suites"))
    if level is not None:
        _set_security_level(context, level, config.named("ssl.cipher.suites"))
    if suites:
        versions &= _set_suites(context, suites, versions, config.named("ssl.cipher.suites"))
    if not versions:
        raise ConfigError(f"{config.named('ssl.cipher.suites')}: no suite fits the enabled protocols {_listed(names)}")
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _set_security_level(context: ssl.SSLContext, level: str, key: str) -> None:
    """Set the security level, and keep the default suites."""
    suites = [suite["name"] for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"]
    number = level.partition("=")[2]
    if not (number.isascii() and number.isdigit() and int(number) <= _HIGHEST_LEVEL):
        raise ConfigError(f"{key}: {level} is not a security level; use @SECLEVEL=0 to @SECLEVEL={_HIGHEST_LEVEL}")
    context.set_ciphers(":".join([level, *suites]))


def _set_suites(
    context: ssl.SSLContext, suites: Sequence[str], versions: set[ssl.TLSVersion], key: str
) -> set[ssl.TLSVersion]:
    """Set the suites and return the versions that have any."""
    newest = TLS_13_SUITES.intersection(suites)
    if newest and newest != TLS_13_SUITES and ssl.TLSVersion.TLSv1_3 in versions:
        missing = _listed(sorted(TLS_13_SUITES - newest))
        raise ConfigError(f"{key}: list all suites of TLS 1.3 or none; {missing} is missing")
    older = {suite: openssl_name(suite) for suite in suites if suite not in TLS_13_SUITES}
    for suite, name in older.items():
        try:
            context.set_ciphers(name or "")
        except ssl.SSLError:
            raise ConfigError(f"{key}: {suite} is not known to {ssl.OPENSSL_VERSION}") from None
    if older:
        context.set_ciphers(":".join(filter(None, older.values())))
    return {
        *([ssl.TLSVersion.TLSv1_3] if newest else []),
        *([ssl.TLSVersion.TLSv1_2] if older else []),
    }


def load_key(context: ssl.SSLContext, found: KeyChain, where: str) -> None:
    """Use a private key with its certificates. Raise ConfigError, without a secret, if they cannot be used."""

    def password() -> str:
        if found.password is None:
            raise ConfigError(f"{where}: the private key is encrypted; ssl.key.password has to be set")
        return found.password

    with _named_memory(f"{found.key}{found.chain}".encode()) as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            raise ConfigError(f"{where}: key and certificate cannot be used: {_reason_of(error)}") from None


def _reason_of(error: ssl.SSLError) -> str:
    """Return the reason. OpenSSL gives none for an invalid PEM, or if the password of the key is wrong."""
    if not error.reason:
        return "they are not valid PEM, or ssl.key.password is not the key's password"
    explained = _KEY_ERRORS.get(error.reason)
    return f"{explained} ({error.reason})" if explained else f"OpenSSL reports {error.reason}"


def load_trusted(context: ssl.SSLContext, trusted: str, where: str) -> None:
    """Trust these certificates. Raise ConfigError if they cannot be used."""
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise ConfigError(f"{where}: {error.reason}") from None


@contextmanager
def _named_memory(data: bytes) -> Iterator[str]:
    """Yield a path of ``data`` for this process: anonymous memory if the system has it, else a temporary file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tidelog")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name


def _listed(names: Sequence[str] | dict[str, ssl.TLSVersion]) -> str:
    return ", ".join(names)


TLS_13_SUITES: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})

_SECURITY_LEVEL: Final = "@SECLEVEL="
_NAME = re.compile(r"TLS_(?P<exchange>[A-Z_]+)_WITH_(?P<cipher>[A-Z0-9_]+)_(?P<hash>SHA(?:256|384)?)")


def split_security_level(entries: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the last security level, None if there is none, and the names of suites."""
    levels = [entry for entry in entries if entry.startswith(_SECURITY_LEVEL)]
    return levels[-1] if levels else None, [entry for entry in entries if entry not in levels]


def openssl_name(suite: str) -> str | None:
    """Return OpenSSL's name of a TLS 1.2 suite, or None if ``suite`` is not the name of one."""
    match = _NAME.fullmatch(suite)
    if match is None:
        return None
    exchange = "" if match["exchange"] == "RSA" else match["exchange"].replace("_", "-") + "-"
    cipher = re.sub(r"AES_(\d+)", r"AES\1", match["cipher"]).removesuffix("_CBC").replace("_", "-")
    digest = "" if cipher.startswith("CHACHA20") else f"-{match['hash']}"
    return exchange + cipher + digest
