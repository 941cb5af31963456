"""Key stores that Java's keytool writes, as Kafka's users have them."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from server.security.test_tls_settings import shake_hands, tls
from tidelog.model import ConfigError

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PASSWORD = "changeit"


def keytool(directory: Path, *arguments: str) -> str:
    command = ["keytool", *arguments, "-storepass", PASSWORD, "-noprompt", "-J-XX:TieredStopAtLevel=1"]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=400, text=True).stdout


def test_its_stores_are_read_and_old_ones_refused_with_the_command_that_converts_them(tmp_path: Path) -> None:
    name = ("-alias", "kafka", "-dname", "CN=localhost,O=Example")
    key = ("-keyalg", "RSA", "-keysize", "2048", "-ext", "SAN=dns:localhost")
    keytool(tmp_path, "-genkeypair", *name, *key, "-keystore", "server.p12", "-storetype", "PKCS12")
    certificate = keytool(tmp_path, "-exportcert", "-rfc", "-alias", "kafka", "-keystore", "server.p12")
    (tmp_path / "server.crt").write_text(certificate)
    keytool(tmp_path, "-importcert", "-alias", "ca", "-file", "server.crt", "-keystore", "trust.p12")
    texts = {
        "ssl.keystore.location": str(tmp_path / "server.p12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(tmp_path / "trust.p12"),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "requested",
    }
    shake_hands(tls(texts), client=ssl.create_default_context(cadata=certificate))
    old = ("-keystore", "server.jks", "-storetype", "JKS")
    keytool(tmp_path, "-genkeypair", *name, *key, *old, "-keypass", PASSWORD)
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        tls(texts | {"ssl.keystore.location": str(tmp_path / "server.jks")})
