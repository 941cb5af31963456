"""The encrypted text of a password in ZooKeeper: Kafka's ``PasswordEncoder``. The functions only need random salts.

The text has fields with commas between them, in any sequence::

    keyFactoryAlgorithm:PBKDF2WithHmacSHA512  keyLength:128  iterations:4096  salt:(base64)    the key from the secret
    cipherAlgorithm:AES/CBC/PKCS5Padding  initializationVector:(base64)                        the cipher
    authenticationTagLength:128                                                                only with GCM
    encryptedPassword:(base64)  passwordLength:10                                              in UTF-16 units

A text says how it was encoded, so other settings for new texts do not concern it. AES with CBC or GCM is supported. A
wrong secret is found by the padding or the length. Source: Kafka's ``EncryptingPasswordEncoder``, ``GcmParamsEncoder``.
"""

from __future__ import annotations

import binascii
import hashlib
import os
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

from tidelog.model import ConfigError
from tidelog.security.key_stores import INSTALL

_CBC: Final = "AES/CBC/PKCS5Padding"
_GCM: Final = "AES/GCM/NoPadding"
_KEY_FACTORY: Final = "PBKDF2WithHmac"
_HASHES: Final = frozenset({"SHA1", "SHA224", "SHA256", "SHA384", "SHA512"})
_KEY_BITS: Final = (128, 192, 256)
_ITERATIONS: Final = range(1, 1_000_001)
"""The accepted iterations. A million take about a second."""
_SALT_BYTES: Final = 256
_BLOCK_BYTES: Final = 16
_GCM_NONCE_BYTES: Final = 12
_TAG_BITS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordEncoding:
    """The ``password.encoder`` settings for new texts, with Kafka's defaults."""

    cipher: str = _CBC
    key_factory: str | None = None
    """PBKDF2WithHmacSHA512 if it is None."""
    key_bits: int = 128
    iterations: int = 4096


def encode_password(password: str, secret: str, encoding: PasswordEncoding) -> str:
    """Return the encrypted text. Raise ConfigError if the settings are not supported."""
    factory = encoding.key_factory or f"{_KEY_FACTORY}SHA512"
    salt = os.urandom(_SALT_BYTES)
    key = _derived_key(secret, factory, salt, encoding.iterations, encoding.key_bits)
    vector = os.urandom(_GCM_NONCE_BYTES if encoding.cipher == _GCM else _BLOCK_BYTES)
    fields = {
        "keyFactoryAlgorithm": factory,
        "cipherAlgorithm": encoding.cipher,
        "keyLength": str(encoding.key_bits),
        "salt": _text(salt),
        "iterations": str(encoding.iterations),
        "encryptedPassword": _text(_encrypted(encoding.cipher, key, vector, password.encode())),
        "passwordLength": str(_java_length(password)),
        "initializationVector": _text(vector),
        **({"authenticationTagLength": str(_TAG_BITS)} if encoding.cipher == _GCM else {}),
    }
    return ",".join(f"{name}:{value}" for name, value in fields.items())


def decode_password(text: str, secret: str) -> str:
    """Return the password. Raise ConfigError for another secret, and for a text that is not valid or not supported."""
    fields = dict(_field(part) for part in text.split(","))
    try:
        cipher, bits = fields["cipherAlgorithm"], int(fields["keyLength"])
        iterations, salt = int(fields["iterations"]), _data(fields["salt"])
        vector, encrypted = _data(fields["initializationVector"]), _data(fields["encryptedPassword"])
        length, tag_bits = int(fields["passwordLength"]), int(fields.get("authenticationTagLength", _TAG_BITS))
        factory = fields["keyFactoryAlgorithm"]
    except (KeyError, ValueError):
        raise ConfigError("an encrypted password is not valid: Kafka did not write it") from None
    if tag_bits != _TAG_BITS:
        raise ConfigError(f"an encrypted password has an authentication tag of {tag_bits} bits, which is not supported")
    key = _derived_key(secret, factory, salt, iterations, bits)
    try:
        password = _decrypted(cipher, key, vector, encrypted).decode()
    except ValueError:
        password = None
    if password is None or _java_length(password) != length:
        raise ConfigError("an encrypted password cannot be decrypted: password.encoder.secret is another one")
    return password


def _field(part: str) -> tuple[str, str]:
    name, _, value = part.rpartition(":")
    return name.strip(), value.strip()


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _data(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(text) from None


def _java_length(password: str) -> int:
    """Return the length in UTF-16 units."""
    return len(password.encode("utf-16-le", "surrogatepass")) // 2


def _derived_key(secret: str, factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
    name = factory.removeprefix(_KEY_FACTORY)
    if name not in _HASHES or not factory.startswith(_KEY_FACTORY):
        raise ConfigError(f"password.encoder.keyfactory.algorithm: {factory} is not supported")
    if bits not in _KEY_BITS:
        raise ConfigError(f"password.encoder.key.length: {bits} is not a key length of AES, which has 128, 192 or 256")
    if iterations not in _ITERATIONS:
        raise ConfigError(f"password.encoder.iterations: {iterations} is not between 1 and {_ITERATIONS[-1]}")
    return hashlib.pbkdf2_hmac(name.lower(), secret.encode(), salt, iterations, bits // 8)


def _encrypted(cipher: str, key: bytes, vector: bytes, data: bytes) -> bytes:
    if _require_supported(cipher) == _GCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(key).encrypt(vector, data, None)
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    padder = PKCS7(8 * _BLOCK_BYTES).padder()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    return encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()


def _decrypted(cipher: str, key: bytes, vector: bytes, encrypted: bytes) -> bytes:
    """Raise ValueError for a wrong key, and for data that is not valid."""
    if _require_supported(cipher) == _GCM:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(key).decrypt(vector, encrypted, None)
        except InvalidTag:
            raise ValueError("another key") from None
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    decryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()
    unpadder = PKCS7(8 * _BLOCK_BYTES).unpadder()
    return unpadder.update(decryptor.update(encrypted) + decryptor.finalize()) + unpadder.finalize()


def _require_supported(cipher: str) -> str:
    """Return the cipher. Raise ConfigError if it is not supported, or if the library for it is missing."""
    if cipher not in (_CBC, _GCM):
        raise ConfigError(f"password.encoder.cipher.algorithm: {cipher} is not supported; use {_CBC} or {_GCM}")
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"password.encoder.secret: a library to encrypt passwords is missing; run: {INSTALL}"
        ) from None
    return cipher
