"""Passwords in the dynamic settings of brokers, encrypted with ZooKeeper and as they are without."""

from __future__ import annotations

import pytest

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.server.configs.changes import ChangeKind, SettingChange
from tidelog.server.configs.stored_passwords import decoded_texts, encoded_changes, encoded_texts

KEYSTORE = "listener.name.inside.ssl.keystore.password"
TEXTS = {KEYSTORE: "swordfish", "listener.name.inside.ssl.keystore.location": "/key.p12", "unknown": "x"}


def config(**keys: str) -> BrokerConfig:
    texts = {"zookeeper.connect": "localhost:2181", "password.encoder.secret": "encoder-secret", "broker.id": "1"}
    return BrokerConfig.load(overrides=texts | {key.replace("_", "."): text for key, text in keys.items()})


def test_passwords_are_encrypted_and_the_other_settings_are_not() -> None:
    encoded = encoded_texts(config(), TEXTS)
    assert encoded[KEYSTORE].startswith("keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC")
    assert encoded | {KEYSTORE: TEXTS[KEYSTORE]} == TEXTS
    assert decoded_texts(config(), encoded) == TEXTS


def test_the_settings_of_the_encoder_count() -> None:
    encoded = encoded_texts(
        config(password_encoder_cipher_algorithm="AES/GCM/NoPadding", password_encoder_iterations="1024"), TEXTS
    )
    assert "cipherAlgorithm:AES/GCM/NoPadding,keyLength:128" in encoded[KEYSTORE]
    assert "iterations:1024" in encoded[KEYSTORE]
    assert decoded_texts(config(), encoded) == TEXTS


def test_changes_have_encrypted_passwords() -> None:
    changes = [
        SettingChange(KEYSTORE, ChangeKind.SET, "swordfish"),
        SettingChange(KEYSTORE, ChangeKind.DELETE, None),
        SettingChange("log.retention.ms", ChangeKind.SET, "5"),
    ]
    first, *others = encoded_changes(config(), changes)
    assert others == changes[1:]
    assert first.value is not None
    assert decoded_texts(config(), {KEYSTORE: first.value}) == {KEYSTORE: "swordfish"}


def test_the_old_secret_is_tried_too(caplog: pytest.LogCaptureFixture) -> None:
    encoded = encoded_texts(config(), TEXTS)
    new = {"password_encoder_secret": "new"}
    assert decoded_texts(config(**new, password_encoder_old_secret="encoder-secret"), encoded) == TEXTS
    assert decoded_texts(config(**new), encoded) == {name: TEXTS[name] for name in TEXTS if name != KEYSTORE}
    assert f"The dynamic setting {KEYSTORE} is ignored: an encrypted password cannot be decrypted" in caplog.text
    assert "swordfish" not in caplog.text


def test_without_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    without = BrokerConfig.load(overrides={"zookeeper.connect": "localhost:2181"})
    with pytest.raises(ConfigError, match=r"Password encoder secret not configured: set password.encoder.secret"):
        encoded_texts(without, TEXTS)
    assert KEYSTORE not in decoded_texts(without, TEXTS)
    assert "Password encoder secret not configured" in caplog.text


def test_a_metadata_log_has_passwords_as_they_are() -> None:
    embedded = BrokerConfig.load()
    changes = [SettingChange(KEYSTORE, ChangeKind.SET, "swordfish")]
    assert encoded_texts(embedded, TEXTS) == decoded_texts(embedded, TEXTS) == TEXTS
    assert encoded_changes(embedded, changes) == changes
