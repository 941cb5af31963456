"""The SASL authentication of a client: a handshake for the mechanism, then its tokens.

The name and the password come from the login module in ``sasl.jaas.config``. No message shows a password.
Thread rule: the event loop; a password is hashed in a thread. Source: Kafka's ``SaslClientAuthenticator``, KIP-43,
KIP-368.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tidelog.client.model.errors import AuthenticationError
from tidelog.client.security.client_security import Exchange
from tidelog.client.security.scram_client import ScramClient
from tidelog.model import ConfigError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode, error_text
from tidelog.security.jaas_config import parse_jaas_config
from tidelog.security.scram_credential import SCRAM_MECHANISMS

PLAIN: Final = "PLAIN"
_MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_MECHANISMS, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
_CLASSES: Final = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class")


class LoginConfig(Protocol):
    """The settings of a login: those of a client, or of a node's connections to its cluster."""

    def text(self, key: str) -> str | None: ...
    def named(self, key: str) -> str:
        """Return the name under which the value of ``key`` is set, for messages."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslLogin:
    mechanism: str
    user: str
    password: str = field(repr=False)

    @classmethod
    def of(cls, config: LoginConfig) -> SaslLogin:
        """Return the login of the settings. Raise ConfigError with the mistake, but without a secret."""
        mechanism = config.text("sasl.mechanism") or ""
        if mechanism not in _MODULES:
            raise ConfigError(
                f"{config.named('sasl.mechanism')}: {mechanism} is not supported; use {', '.join(_MODULES)}"
            )
        for key in _CLASSES:
            if config.text(key):
                raise ConfigError(f"{config.named(key)}: custom classes are not supported")
        text, key = config.text("sasl.jaas.config"), config.named("sasl.jaas.config")
        example = f'{_MODULES[mechanism]} required username="NAME" password="PASSWORD";'
        if text is None:
            raise ConfigError(f"{key} has to be set: {example} (a JAAS file is not read)")
        try:
            module = parse_jaas_config(text)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error.message}") from None
        if module.name != _MODULES[mechanism]:
            raise ConfigError(f"{key}: login module {module.name} is not for {mechanism}; use {example}")
        user, password = module.options.get("username", ""), module.options.get("password", "")
        if not user or not password:
            raise ConfigError(f"{key}: username or password is missing; use {example}")
        if "tokenauth" in module.options:
            raise ConfigError("sasl.jaas.config: delegation tokens (tokenauth) are not supported")
        return cls(mechanism=mechanism, user=user, password=password)

    async def authenticate(self, exchange: Exchange, broker: str) -> int:
        """Authenticate as ``Authenticator`` says."""
        response = await exchange(ApiKey.SASL_HANDSHAKE, {"mechanism": self.mechanism})
        if response.error_code != ErrorCode.NONE:
            offered = ", ".join(response.mechanisms) or "none"
            raise AuthenticationError(
                f"{broker} refuses SASL mechanism {self.mechanism} ({error_text(response.error_code)}); "
                f"it offers {offered} (sasl.mechanism)"
            )
        if self.mechanism == PLAIN:
            response = await self._token(exchange, broker, f"\0{self.user}\0{self.password}".encode())
        else:
            response = await self._scram(exchange, broker)
        return int(response.session_lifetime)

    async def _scram(self, exchange: Exchange, broker: str) -> Any:
        scram = ScramClient(SCRAM_MECHANISMS[self.mechanism], self.user, self.password)
        response = await self._token(exchange, broker, scram.first())
        try:
            token = await asyncio.to_thread(scram.final, response.auth_bytes)
            response = await self._token(exchange, broker, token)
            scram.verify(response.auth_bytes)
        except AuthenticationError as error:
            if error.message.startswith(broker):
                raise
            raise AuthenticationError(f"{broker} is refused: {error.message}") from None
        return response

    async def _token(self, exchange: Exchange, broker: str, token: bytes) -> Any:
        response = await exchange(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": token})
        if response.error_code != ErrorCode.NONE:
            raise AuthenticationError(
                f"{broker} refuses user {self.user} by SASL {self.mechanism}: "
                f"{response.error_message or error_text(response.error_code)} (sasl.jaas.config)"
            )
        return response
