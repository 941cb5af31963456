"""Keys and certificates from all sources that Kafka's settings support, and the errors that name invalid ones."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import Certificate

from server.security.certificates import (
    PASSWORD,
    Authority,
    Files,
    WeakAuthority,
    authority,
    client_identity,
    server_identity,
    write_files,
)
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.java_properties import load_properties
from tidelog.model import ConfigError
from tidelog.server.security.listener_config import ListenerConfig
from tidelog.server.security.tls_settings import TlsSettings

KEY_PASSWORD = "hunter2"
NO_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_files(tmp_path_factory.mktemp("certificates"))


def tls(texts: Mapping[str, str], *, has_sasl: bool = False) -> TlsSettings:
    return TlsSettings.of(ListenerConfig(BrokerConfig.load(overrides=texts), "OWN"), has_sasl=has_sasl)


def pem(files: Files) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
    }


def pkcs12(files: Files, kind: str = "PKCS12") -> dict[str, str]:
    return {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(files.server_store),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(files.trust_store),
        "ssl.truststore.password": PASSWORD,
    }


def inline(key_password: str | None = None) -> dict[str, str]:
    identity = server_identity()
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(key_password),
        "ssl.keystore.certificate.chain": identity.chain_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority().pem,
        **({"ssl.key.password": key_password} if key_password else {}),
    }


def shake_hands(settings: TlsSettings, *, client: ssl.SSLContext | None = None) -> ssl.SSLObject:
    """Complete both sides of a handshake and return the server's. Raise SSLError if either side fails."""
    client = client or ssl.create_default_context(cadata=authority().pem)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(back, there, server_hostname="localhost"),
        settings.context.wrap_bio(there, back, server_side=True),
    )
    left = list(sides)
    for _ in range(10):
        for side in list(left):
            try:
                side.do_handshake()
                left.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not left
    return sides[1]


def mutual(files: Files) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority().pem)
    context.load_cert_chain(files.client)
    return context


def test_a_key_is_found_in_each_kind_of_store(files: Files) -> None:
    lines = {key: text.replace("\n", " ") for key, text in inline().items()}
    for texts in (pem(files), pkcs12(files), pkcs12(files, "JKS"), inline(), inline(KEY_PASSWORD), lines):
        required = texts | {"ssl.client.auth": "required"}
        assert shake_hands(tls(required), client=mutual(files)).getpeercert(binary_form=True)


def test_a_listeners_own_store_goes_before_that_of_all(files: Files) -> None:
    own = {f"listener.name.own.{key}": text for key, text in pem(files).items()}
    shake_hands(tls(own | {"ssl.keystore.location": "/nowhere", "ssl.keystore.type": "JKS"}))


def test_properties_files_may_break_the_lines_of_pem(files: Files) -> None:
    """Kafka's documentation breaks them this way."""
    text = "ssl.keystore.key=" + inline()["ssl.keystore.key"].strip().replace("\n", " \\\n") + "\n"
    key = load_properties(text)["ssl.keystore.key"]
    assert "\n" not in key
    shake_hands(tls(inline() | {"ssl.keystore.key": key}))


@pytest.mark.parametrize("asked", ["none", "requested", "required"])
@pytest.mark.parametrize("shows", [False, True])
def test_a_client_shows_a_certificate_where_it_is_asked(files: Files, asked: str, shows: bool) -> None:
    settings = tls(pem(files) | {"ssl.client.auth": asked})
    client = mutual(files) if shows else None
    if asked == "required" and not shows:
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            shake_hands(settings, client=client)
    else:
        certificate = shake_hands(settings, client=client).getpeercert(binary_form=True)
        assert (certificate is not None) == (shows and asked != "none")


def test_a_certificate_has_to_be_of_who_is_trusted_and_not_expired(files: Files, tmp_path: Path) -> None:
    settings = tls(pem(files) | {"ssl.client.auth": "requested"})
    for identity in (Authority("others").issue_named("alice"), authority().issue_named("alice", expired=True)):
        (tmp_path / "bad.pem").write_text(identity.key_pem() + identity.certificate_pem)
        client = ssl.create_default_context(cadata=authority().pem)
        client.load_cert_chain(tmp_path / "bad.pem")
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(settings, client=client)


def test_with_sasl_certificates_are_asked_for_where_the_listener_itself_says_so(files: Files) -> None:
    assert tls(pem(files) | {"ssl.client.auth": "required"}, has_sasl=True).context.verify_mode is ssl.CERT_NONE
    own = pem(files) | {"listener.name.own.ssl.client.auth": "required"}
    assert tls(own, has_sasl=True).context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("enabled", "client", "is_let_in"),
    [
        ("TLSv1.2,TLSv1.3", ssl.TLSVersion.TLSv1_2, True),
        ("TLSv1.2,TLSv1.3", ssl.TLSVersion.TLSv1_3, True),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_2, False),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_3, True),
        ("TLSv1.2", ssl.TLSVersion.TLSv1_3, False),
    ],
)
def test_versions_are_those_that_are_enabled(
    files: Files, enabled: str, client: ssl.TLSVersion, is_let_in: bool
) -> None:
    context = ssl.create_default_context(cadata=authority().pem)
    context.minimum_version = context.maximum_version = client
    settings = tls(pem(files) | {"ssl.enabled.protocols": enabled})
    if is_let_in:
        shake_hands(settings, client=context)
    else:
        with pytest.raises(ssl.SSLError):
            shake_hands(settings, client=context)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_older_versions_are_never_spoken(files: Files, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cadata=authority().pem)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with pytest.raises(ssl.SSLError):
        shake_hands(tls(pem(files)), client=context)


def test_suites_have_javas_names(files: Files) -> None:
    chosen = {
        "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
    }
    settings = tls(pem(files) | chosen)
    assert settings.context.maximum_version is ssl.TLSVersion.TLSv1_2, "no suite of TLS 1.3 is named"
    assert shake_hands(settings).cipher() == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)
    newest = {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"}
    assert tls(pem(files) | newest).context.minimum_version is ssl.TLSVersion.TLSv1_3


class TestSecurityLevel:
    """Keys and signatures that OpenSSL considers too weak are refused by name, unless the administrator allows them."""

    def served(self, certificate: Certificate, key: str, authority_pem: str, entries: str = "") -> None:
        """Complete a handshake. Raise ConfigError if the certificate is refused."""
        texts = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": certificate.public_bytes(Encoding.PEM).decode(),
            "ssl.cipher.suites": entries,
        }
        client = ssl.create_default_context(cadata=authority_pem)
        client.set_ciphers("DEFAULT:@SECLEVEL=0")
        shake_hands(tls(texts), client=client)

    def test_a_certificate_that_is_signed_with_sha1(self) -> None:
        old = WeakAuthority("old")
        issued = old.issue_named("localhost")
        for entries in ("", "@SECLEVEL=1"):
            with pytest.raises(ConfigError, match=r"signed with SHA-1 or MD5.*@SECLEVEL=0.*\(CA_MD_TOO_WEAK\)"):
                self.served(issued.certificate, issued.key_pem(), old.pem, entries)
        for entries in ("@SECLEVEL=0", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,@SECLEVEL=0"):
            self.served(issued.certificate, issued.key_pem(), old.pem, entries)

    def test_a_small_key(self) -> None:
        certificate, key = authority().issue_weak("localhost")
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        with pytest.raises(ConfigError, match=r"smaller than OpenSSL's security level.*\(EE_KEY_TOO_SMALL\)"):
            self.served(certificate, text, authority().pem)
        self.served(certificate, text, authority().pem, "@SECLEVEL=1")

    def test_a_client_that_shows_a_weak_certificate(self, files: Files, tmp_path: Path) -> None:
        old = WeakAuthority("old")
        issued = old.issue_named("alice")
        (tmp_path / "alice.pem").write_text(issued.key_pem() + issued.certificate_pem)
        client = ssl.create_default_context(cadata=authority().pem)
        client.set_ciphers("DEFAULT:@SECLEVEL=0")
        client.load_cert_chain(tmp_path / "alice.pem")
        (tmp_path / "old.pem").write_text(old.pem)
        texts = pem(files) | {"ssl.truststore.location": str(tmp_path / "old.pem"), "ssl.client.auth": "required"}
        with pytest.raises(ssl.SSLCertVerificationError, match="digest algorithm too weak"):
            shake_hands(tls(texts), client=client)
        shake_hands(tls(texts | {"ssl.cipher.suites": "@SECLEVEL=0"}), client=client)

    def test_it_changes_no_suites(self, files: Files) -> None:
        def suites(entries: str) -> list[str]:
            return [suite["name"] for suite in tls(pem(files) | {"ssl.cipher.suites": entries}).context.get_ciphers()]

        assert suites("@SECLEVEL=1") == suites("")
        named = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
        assert suites(f"@SECLEVEL=1,{named}") == suites(named)


def test_a_users_name_is_what_the_rules_make_of_its_certificate(files: Files) -> None:
    shown = shake_hands(tls(pem(files) | {"ssl.client.auth": "required"}), client=mutual(files))
    certificate = shown.getpeercert(binary_form=True)
    rules = {"ssl.principal.mapping.rules": r"RULE:^CN=(\w+),.*$/$1/U"}
    assert str(tls(pem(files) | rules).principal_of(certificate)) == "User:ALICE"
    assert tls(pem(files) | {"ssl.principal.mapping.rules": "RULE:CN=bob/b/"}).principal_of(certificate) is None
    assert str(tls(pem(files)).principal_of(None)) == "User:ANONYMOUS"


def mistakes(files: Files) -> list[tuple[dict[str, str], str]]:
    of_other = inline() | {"ssl.keystore.key": client_identity().key_pem()}
    return [
        ({}, "ssl.keystore.location: listener OWN needs a key"),
        (pem(files) | {"ssl.keystore.location": "/nowhere"}, "/nowhere cannot be read: No such file"),
        (pem(files) | {"ssl.keystore.location": str(files.authority)}, "there is no private key in PEM"),
        (
            pem(files) | {"ssl.keystore.password": KEY_PASSWORD},
            "a PEM file has no store password; set ssl.key.password instead",
        ),
        (pem(files) | {"ssl.truststore.password": KEY_PASSWORD}, "ssl.truststore.password: a PEM file has no password"),
        (pem(files) | {"ssl.truststore.location": str(files.trust_store)}, "there is no certificate in it"),
        (pem(files) | {"ssl.keystore.type": "BCFKS"}, "BCFKS is not supported; use PEM or PKCS12"),
        (of_other, "the private key does not belong to the certificate"),
        (inline(KEY_PASSWORD) | {"ssl.key.password": ""}, "the private key is encrypted; ssl.key.password"),
        (inline(KEY_PASSWORD) | {"ssl.key.password": "guess"}, "ssl.key.password is not the key's password"),
        (inline() | {"ssl.keystore.certificate.chain": NO_CERTIFICATE}, "they are not valid PEM"),
        (inline() | {"ssl.keystore.type": "PKCS12"}, "ssl.keystore.type must be PEM"),
        (inline() | {"ssl.keystore.key": ""}, "have to be set together"),
        (inline() | {"ssl.keystore.location": "x"}, "must not be set if the PEM text is in the settings"),
        (pkcs12(files) | {"ssl.keystore.password": "guess"}, "is not a PKCS12 file, or the password is wrong"),
        (pkcs12(files) | {"ssl.keystore.password": ""}, "ssl.keystore.password has to be set"),
        (pkcs12(files) | {"ssl.truststore.location": str(files.client_store)}, "it contains a private key"),
        (pkcs12(files) | {"ssl.keystore.location": str(files.trust_store)}, "no private key with a certificate"),
        (
            pem(files) | {"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"},
            "TLSv1.1 is not supported; use TLSv1.2, TLSv1.3",
        ),
        (pem(files) | {"ssl.protocol": "SSLv3"}, "ssl.protocol: SSLv3 is not supported"),
        (pem(files) | {"ssl.cipher.suites": "TLS_NOTHING"}, "TLS_NOTHING is not known to OpenSSL"),
        (pem(files) | {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "list all suites of TLS 1.3 or none"),
        (
            pem(files) | {"ssl.cipher.suites": "@SECLEVEL=6"},
            "@SECLEVEL=6 is not a security level; use @SECLEVEL=0 to @SECLEVEL=5",
        ),
        (pem(files) | {"ssl.cipher.suites": "@SECLEVEL="}, "@SECLEVEL= is not a security level"),
        (
            pem(files) | {"ssl.engine.factory.class": "com.example.F"},
            "ssl.engine.factory.class: custom classes are not supported",
        ),
        (
            inline() | {"ssl.client.auth": "required", "ssl.truststore.certificates": ""},
            "needs ssl.truststore.location",
        ),
        (pem(files) | {"ssl.principal.mapping.rules": "RULE:x"}, "does not begin with a rule"),
    ]


def test_a_mistake_is_named_without_a_secret(files: Files) -> None:
    for texts, mistake in mistakes(files):
        with pytest.raises(ConfigError) as raised:
            tls(texts)
        assert mistake in str(raised.value), texts
        assert "PRIVATE KEY-" not in str(raised.value)
        assert KEY_PASSWORD not in str(raised.value)
        assert PASSWORD not in str(raised.value)


def test_a_java_key_store_is_refused_with_the_command_that_converts_it(files: Files, tmp_path: Path) -> None:
    store = tmp_path / "server.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed" + bytes(60))
    with pytest.raises(ConfigError, match=r"keytool -importkeystore .* -deststoretype PKCS12"):
        tls(pkcs12(files, "JKS") | {"ssl.keystore.location": str(store)})
