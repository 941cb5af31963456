"""The client's configuration: Kafka's keys, their effect, and clear errors without secrets."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from server.security.certificates import PASSWORD as STORE_PASSWORD
from server.security.certificates import authority, client_identity, write_files
from tidelog.client import Address, ClientConfig, ClientSettings
from tidelog.client.security.sasl_login import SaslLogin
from tidelog.config.client_keys import CLIENT_KEYS
from tidelog.model import ConfigError

KEY = re.compile(r"`([a-z.]+)`")
SERVER = {"bootstrap.servers": "localhost:9092"}
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="pa ss";'


def settings(**texts: str) -> ClientSettings:
    overrides = SERVER | {key.replace("_", "."): text for key, text in texts.items()}
    return ClientSettings.of(ClientConfig.load(overrides=overrides))


def refusal(**texts: str) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(**texts)
    return str(caught.value)


def test_a_properties_file_under_overrides(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=a:1, [::1]:2 ,a:1\nrequest.timeout.ms=7\nclient.id=me\nmetrics.num.samples=3\ngroup.id=g\n"
    )
    config = ClientConfig.load(file, {"request.timeout.ms": "8"})
    found = ClientSettings.of(config)
    assert found.bootstrap == (Address("a", 1), Address("::1", 2))
    assert str(found.bootstrap[1]) == "[::1]:2"
    assert (found.request_timeout_ms, found.client_id) == (8, "me")
    assert config.without_effect == ("metrics.num.samples", "group.id")


def test_every_number_reaches_its_setting() -> None:
    names = {
        "request.timeout.ms": "request_timeout_ms",
        "socket.connection.setup.timeout.ms": "connection_setup_timeout_ms",
        "socket.connection.setup.timeout.max.ms": "connection_setup_timeout_max_ms",
        "connections.max.idle.ms": "connections_max_idle_ms",
        "reconnect.backoff.ms": "reconnect_backoff_ms",
        "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
        "retries": "retries",
        "retry.backoff.ms": "retry_backoff_ms",
        "retry.backoff.max.ms": "retry_backoff_max_ms",
        "default.api.timeout.ms": "default_api_timeout_ms",
        "metadata.max.age.ms": "metadata_max_age_ms",
        "metadata.recovery.rebootstrap.trigger.ms": "rebootstrap_trigger_ms",
        "send.buffer.bytes": "send_buffer_bytes",
        "receive.buffer.bytes": "receive_buffer_bytes",
        "receive.message.max.bytes": "max_response_bytes",
    }
    texts = {key: str(10_000 + number) for number, key in enumerate(names)}
    found = ClientSettings.of(ClientConfig.load(overrides=SERVER | texts))
    assert {key: str(getattr(found, name)) for key, name in names.items()} == texts


def test_the_strategies_of_names_and_of_recovery() -> None:
    assert not settings(metadata_recovery_strategy="None").rebootstraps
    assert settings(metadata_recovery_strategy="REBOOTSTRAP").rebootstraps
    assert settings(client_dns_lookup="resolve_canonical_bootstrap_servers_only").uses_canonical_names
    assert "client.dns.lookup" in refusal(client_dns_lookup="default")


def test_the_defaults_are_kafkas_but_for_the_sockets_buffers() -> None:
    assert settings() == ClientSettings(bootstrap=(Address("localhost", 9092),))
    assert settings().receive_buffer_bytes == settings().send_buffer_bytes == -1
    assert settings(receive_buffer_bytes="65536").receive_buffer_bytes == 65536


def test_unknown_and_wrong_settings_are_all_named_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.mechanisms=PLAIN\nrequest.timeout.ms=soon\n\nsecurity.protocol=TLS\nc2VjcmV0IHBhc3N3b3Jk\n")
    with pytest.raises(ConfigError) as caught:
        ClientConfig.load(file)
    text = str(caught.value)
    assert "sasl.mechanisms is not a key of Kafka's clients; did you mean sasl.mechanism? (client.properties:1)" in text
    assert "Invalid value soon for configuration request.timeout.ms: Not a number of type INT (client.prop" in text
    assert "Invalid value TLS for configuration security.protocol" in text
    assert "the line is no setting (client.properties:5)" in text
    assert "c2Vj" not in text, "it may be a part of a secret"


@pytest.mark.parametrize("servers", ["localhost", "localhost:", "host:99999", "a b:1", ":9092", "[::1:9092"])
def test_servers_that_are_none(servers: str) -> None:
    assert "is not HOST:PORT, such as kafka-1:9092" in refusal(bootstrap_servers=servers)


def test_no_server() -> None:
    assert "bootstrap.servers names no server" in refusal(bootstrap_servers="")


# --- SASL ---


def test_a_login() -> None:
    found = settings(security_protocol="sasl_plaintext", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=SCRAM)
    assert found.security.tls is None
    assert found.security.sasl == SaslLogin(mechanism="SCRAM-SHA-512", user="alice", password="pa ss")
    assert "pa ss" not in repr(found) + repr(found.security)


def test_a_login_has_no_effect_without_sasl() -> None:
    assert settings(sasl_mechanism="PLAIN", sasl_jaas_config="nonsense").security.sasl is None


@pytest.mark.parametrize(
    ("mechanism", "jaas", "text"),
    [
        ("GSSAPI", SCRAM, "sasl.mechanism: GSSAPI is not supported; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ("PLAIN", "", "sasl.jaas.config has to be set: org.apache.kafka.common.security.plain.PlainLoginModule requir"),
        ("PLAIN", SCRAM, "ScramLoginModule is not for PLAIN; use org.apache.kafka.common.security.plain.PlainLogin"),
        ("SCRAM-SHA-256", SCRAM.replace("username", "user"), "username or password is missing"),
        ("SCRAM-SHA-256", SCRAM.replace(' password="pa ss"', ""), "username or password is missing"),
        ("SCRAM-SHA-256", SCRAM[:-1], "it ends where a semicolon is expected"),
        ("SCRAM-SHA-256", SCRAM.replace(";", ' tokenauth="true";'), "delegation tokens (tokenauth) are not supported"),
    ],
)
def test_logins_that_are_refused(mechanism: str, jaas: str, text: str) -> None:
    error = refusal(security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=jaas)
    assert text in error
    assert "pa ss" not in error


def test_custom_classes_are_refused() -> None:
    for key in ("sasl_login_class", "sasl_login_callback_handler_class", "sasl_client_callback_handler_class"):
        text = refusal(
            security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=SCRAM, **{key: "a.B"}
        )
        assert text == f"{key.replace('_', '.')}: custom classes are not supported"


# --- TLS ---


def test_trust_stores(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    inline = {"ssl_truststore_type": "PEM", "ssl_truststore_certificates": authority().pem}
    pem = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(files.authority)}
    pkcs12 = {
        "ssl_truststore_type": "PKCS12",
        "ssl_truststore_location": str(files.trust_store),
        "ssl_truststore_password": STORE_PASSWORD,
    }
    for texts in (inline, pem, pkcs12):
        context = settings(security_protocol="SSL", **texts).security.tls
        assert context is not None
        (trusted,) = context.get_ca_certs()
        assert int(str(trusted["serialNumber"]), 16) == authority().certificate.serial_number
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_the_names_of_certificates() -> None:
    for text, is_checked in (("https", True), ("HTTPS", True), ("", False)):
        context = settings(security_protocol="SSL", ssl_endpoint_identification_algorithm=text).security.tls
        assert context is not None
        assert context.check_hostname is is_checked
        assert context.verify_mode is ssl.CERT_REQUIRED, "the chain is verified in any case"
    assert "LDAPS is not supported" in refusal(security_protocol="SSL", ssl_endpoint_identification_algorithm="LDAPS")


def test_tls_mistakes(tmp_path: Path) -> None:
    missing = refusal(security_protocol="SSL", ssl_truststore_location=str(tmp_path / "none"))
    assert missing.startswith("ssl.truststore.location: ")
    assert "cannot be read: No such file or directory" in missing
    store = tmp_path / "store.p12"
    store.write_bytes(client_identity().store())
    wrong = refusal(
        security_protocol="SSL",
        ssl_keystore_type="PKCS12",
        ssl_keystore_location=str(store),
        ssl_keystore_password="wrong secret",
    )
    assert "is not a PKCS12 file, or the password is wrong" in wrong
    assert "wrong secret" not in wrong
    assert "TLSv1.1 is not supported" in refusal(security_protocol="SSL", ssl_enabled_protocols="TLSv1.1")


# --- the page ---

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text()


def test_the_page_has_every_key_with_an_effect() -> None:
    in_tables = {key for line in PAGE.splitlines() if line.startswith("| `") for key in KEY.findall(line.split("|")[1])}
    named = in_tables | {"security.protocol"}
    assert "`security.protocol` is" in PAGE
    assert named == {key.name for key in CLIENT_KEYS.values() if key.used}


def test_the_pages_defaults_are_the_clients() -> None:
    defaults = {"send.buffer.bytes": "-1", "receive.buffer.bytes": "-1", "client.id": "`tidelog`"}
    for key, told in re.findall(r"^\| `([a-z.]+)` \| ([^|]*?) ?\| ", PAGE.partition("\n## TLS")[0], flags=re.MULTILINE):
        assert told == defaults.get(key, CLIENT_KEYS[key].default_text), key
