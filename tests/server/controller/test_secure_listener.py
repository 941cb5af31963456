"""A controller's listener with TLS and SASL: brokers authenticate, and only permitted ones register."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from server.controller.controller_harness import ControllerHome
from server.security.certificates import authority, write_files
from tidelog.client import AuthenticationError, ClientConfig, ClientSettings, open_connection
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.metadata.features import SUPPORTED

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return {
        "listener_security_protocol_map": "CONTROLLER:SASL_SSL",
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(write_files(tmp_path / "keys").server),
        "sasl_enabled_mechanisms": "PLAIN",
        "listener_name_controller_plain_sasl_jaas_config": f'{_PLAIN} user_broker="b" user_client="c";',
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:broker",
    }


def register(home: ControllerHome, user: str, password: str) -> int:
    """Register broker 1 as a user, and return the error code."""
    own = {
        "bootstrap.servers": f"localhost:{home.port}",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority().pem,
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_PLAIN} username="{user}" password="{password}";',
    }
    client = ClientSettings.of(ClientConfig.load(overrides=own))

    async def work() -> int:
        connection = await open_connection(client.bootstrap[0], client)
        try:
            response = await connection.send(
                ApiKey.BROKER_REGISTRATION,
                {
                    "broker_id": 1,
                    "cluster_id": home.cluster_id,
                    "incarnation_id": uuid.uuid4(),
                    "listeners": [],
                    "features": [
                        {"name": name, "min_supported_version": levels.oldest, "max_supported_version": levels.latest}
                        for name, levels in SUPPORTED.items()
                    ],
                    "rack": None,
                    "log_dirs": [uuid.UUID(int=1001)],
                },
            )
            return int(response.error_code)
        finally:
            connection.close()

    return asyncio.run(work())


def test_a_broker_registers_as_a_permitted_user(home: ControllerHome) -> None:
    assert register(home, "client", "c") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert register(home, "broker", "b") == ErrorCode.NONE
    assert set(home.node.metadata.image.brokers) == {1}
    with pytest.raises(AuthenticationError):
        register(home, "broker", "wrong")
