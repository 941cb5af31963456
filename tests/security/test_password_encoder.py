"""Encrypted passwords as Kafka writes and reads them."""

from __future__ import annotations

import pytest

from tidelog.model import ConfigError
from tidelog.security.password_encoder import PasswordEncoding, decode_password, encode_password

SECRET = "encoder-secret"
PASSWORD = "pass,word: \u00e4\U0001f600"

KAFKAS = {
    "AES/CBC, SHA512": (
        "initializationVector:Db8ZC08BFk5W548w7Xd4jg==,keyLength:128,salt:02mH7a3iGF6COUvnfAb92eYjpTeK7klQnLg"
        "MzGiPf5Npnd3QBSrJdDTDm3mfSMmrSOUozxrr+2nMblwJKjFBvZloGDiAXuiTh1iiKyzU5cLGiKLdHvBRhBTWHhR/NTcLCbVQcUV"
        "R6wN6TdJXCApXuGigQjV5zO3DKB2bicKi8604k4BQVtdyxgbDBW5RKL5VWtia2gEgK59MVKxcsyoZSwQXXllQjcZn0xOHChoI3yP"
        "dLLWIvzdab9Gtgk+Ls+QH0qVqjdjFWey2hJd2h1ma3hPCQSmMBfXN4IQIr0asz3BVuyoqsQpg9gRhXO2YWGQJTMnjfLfx93fsWtH"
        "0DRTeRQ==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4"
        "096,passwordLength:14,encryptedPassword:/6aT3L28Iv4I60xoksazFnOHeK29/JUo9hOviy6U6UU="
    ),
    "AES/CBC, SHA1, 256 bits": (
        "initializationVector:u4WnlqwZ4uJpoaWo2HM0oA==,keyLength:256,salt:+0pf81qi8HaVXCzPMnYDCG8brqmKTFG9Gf/"
        "TO4kq9zy5TuBPqy2vYJHVfJ4bwpWPWZx7lpfz2zIgUDLJpnn4QeA0OM5W2kaauNCJUOFJYMxo7Hj2zXcNijYWQ/30+Azn4gnuYgF"
        "f8l3SkEI3TOn04NrMFvGUQjihTF1P9eSEVJhyF7LTHbL4itDDHScy3KpJgb/ZIPx8tWJ+LzeqyT//XouuCMFNp4LtvRXOCxatskw"
        "HFydT29R0x7TVlMTXLyDQVRFfQl+pNMpNvpEL74VhZvePBQoQiEjPPIiMhcNS4ohEahmJo0DaeBQwU2W/uZ/iGymIpWQNhRi5aus"
        "zii65MA==,keyFactoryAlgorithm:PBKDF2WithHmacSHA1,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:102"
        "4,passwordLength:14,encryptedPassword:KPWRDT4hpaKRQlfQ5zaJ/AvGY8MuEd3bK5Nu+TXtJls="
    ),
    "AES/GCM, SHA256": (
        "initializationVector:bT+LWMm9Bc/1syXI,keyLength:128,salt:7fSQcYVDdNdD5XYP3y8st6EQtZIv4p8ijjzOu5A9Lhd"
        "OemPltmcPTNnhu+3OtznckIjFtB0kTOOHqWqsUQm1NzIT2a5FOA3oAEBlPWpeSTC6ZlfDCuoA4Te2bkvybwg41kBPyB/2qTeWCqk"
        "gT9KVnOmBDEaQMkuKL8rvmk62Dh5XGQaHxhrGNhx03nwcbfwhYgsX6UkWy64kbXfu7m7UvdMHLcUgAjbD48UmQqdjb4d7GGBRIAA"
        "as29l5GbxHd4ETVP3LqlpePvAPewiZ1OeWp3ByKBXBqmZdbDjby5DBK/auR7rCOyxMxfZISscuMNaN81VGgoQLO/0wGOlHE1Cew="
        "=,keyFactoryAlgorithm:PBKDF2WithHmacSHA256,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength"
        ":128,iterations:2048,passwordLength:14,encryptedPassword:Zr/Ag64akYiNcuLQnfK0+Ukz2F5ByHOxKOHKEPGZifr"
        "w"
    ),
}
"""The texts that ``EncryptingPasswordEncoder`` of Kafka 3.9.1 wrote."""


@pytest.mark.parametrize("text", KAFKAS.values(), ids=KAFKAS)
def test_kafkas_texts_are_decrypted(text: str) -> None:
    assert decode_password(text, SECRET) == PASSWORD
    assert decode_password(", ".join(reversed(text.split(","))), SECRET) == PASSWORD


@pytest.mark.parametrize(
    "encoding",
    [
        PasswordEncoding(),
        PasswordEncoding(key_factory="PBKDF2WithHmacSHA1", key_bits=256, iterations=1024),
        PasswordEncoding(cipher="AES/GCM/NoPadding", key_factory="PBKDF2WithHmacSHA256", key_bits=192),
    ],
)
@pytest.mark.parametrize("password", ["", "p", "exactly 16 bytes", PASSWORD])
def test_there_and_back(encoding: PasswordEncoding, password: str) -> None:
    text = encode_password(password, SECRET, encoding)
    assert decode_password(text, SECRET) == password
    assert text != encode_password(password, SECRET, encoding), "each text has its own salt"


@pytest.mark.parametrize("text", KAFKAS.values(), ids=KAFKAS)
def test_another_secret(text: str) -> None:
    with pytest.raises(ConfigError, match=r"password.encoder.secret is another one"):
        decode_password(text, "another")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("passwordLength:14", "passwordLength:13", "password.encoder.secret is another one"),
        ("encryptedPassword:", "encryptedPassword:AAAA", "password.encoder.secret is another one"),
        ("iterations:4096", "iterations:x", "Kafka did not write it"),
        ("iterations:4096", "iterations:1000000001", "1000000001 is not between 1 and 1000000"),
        ("salt:", "salt:!", "Kafka did not write it"),
        ("salt:", "pepper:", "Kafka did not write it"),
        ("keyLength:128", "keyLength:64", "64 is not a key length of AES"),
        ("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding is not supported"),
        ("PBKDF2WithHmacSHA512", "PBEWithMD5AndDES", "PBEWithMD5AndDES is not supported"),
        ("iterations:4096", "iterations:4096,authenticationTagLength:96", "tag of 96 bits, which is not supported"),
    ],
)
def test_texts_that_are_not_valid(before: str, after: str, reason: str) -> None:
    text = KAFKAS["AES/CBC, SHA512"]
    assert before in text
    with pytest.raises(ConfigError, match=reason) as raised:
        decode_password(text.replace(before, after), SECRET)
    assert SECRET not in str(raised.value)


def test_a_text_without_encryption() -> None:
    with pytest.raises(ConfigError, match="Kafka did not write it"):
        decode_password("swordfish", SECRET)
