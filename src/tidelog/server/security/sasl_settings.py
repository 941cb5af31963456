"""The SASL mechanisms of a listener and their settings; validated when the broker starts.

============================================  =========================================================================
key                                           meaning here
============================================  =========================================================================
``sasl.enabled.mechanisms``                   PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; Kafka's default, GSSAPI, is refused
``listener.name.NAME.plain.sasl.jaas.config``  the users of PLAIN and their passwords, as ``user_NAME="password"``
``….scram-sha-256.sasl.jaas.config``          no effect: users are in the cluster metadata; Kafka requires the key
``connections.max.reauth.ms``                 the lifetime of an authentication, by mechanism, listener or for all; 0
                                              means no limit
``sasl.server.max.receive.size``              the most bytes of a request before the authentication
============================================  =========================================================================

Source: Kafka's ``SaslChannelBuilder``, ``JaasContext``; KIP-103, KIP-368.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.model import ConfigError
from tidelog.security.jaas_config import LoginModule, parse_jaas_config
from tidelog.security.scram_credential import SCRAM_MECHANISMS, ScramMechanism
from tidelog.server.security.listener_config import ListenerConfig
from tidelog.server.security.sasl_exchange import PlainExchange, SaslExchange
from tidelog.server.security.scram_exchange import ScramCredentials, ScramExchange

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS)
_USER = "user_"
_HANDLER = "sasl.server.callback.handler.class"
_MODULES = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_MECHANISMS, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}

ScramCredentialsOf = Callable[[ScramMechanism], ScramCredentials]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    mechanisms: tuple[str, ...]
    """The mechanisms in the order of the setting."""
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The passwords of PLAIN by user."""
    max_reauth_ms: Mapping[str, int]
    """The lifetime of an authentication by mechanism; 0 means no limit."""
    max_receive_bytes: int
    failure_delay_ms: int
    """The delay of the response to a failed authentication."""

    @classmethod
    def of(cls, config: ListenerConfig) -> SaslSettings:
        """Return the settings of a listener. Raise ConfigError with every mistake."""
        mechanisms = tuple(dict.fromkeys(config.texts("sasl.enabled.mechanisms")))
        mistakes = list(_mistakes(config, mechanisms))
        passwords: Mapping[str, str] = {}
        for mechanism in filter(_MODULES.__contains__, mechanisms):
            try:
                module = _login_module(config, mechanism)
            except ConfigError as error:
                mistakes.append(error.message)
                continue
            if mechanism == PLAIN and module is not None:
                passwords = _passwords(module)
        if mistakes:
            raise ConfigError("; ".join(mistakes))
        return cls(
            mechanisms=mechanisms,
            passwords=passwords,
            max_reauth_ms={mechanism: _max_reauth_ms(config, mechanism) for mechanism in mechanisms},
            max_receive_bytes=_number(config, "sasl.server.max.receive.size"),
            failure_delay_ms=_number(config, "connection.failed.authentication.delay.ms"),
        )

    def exchange(self, mechanism: str, credentials_of: ScramCredentialsOf) -> SaslExchange:
        """Return a new exchange of one of the enabled mechanisms."""
        if mechanism == PLAIN:
            return PlainExchange(self.passwords)
        scram = SCRAM_MECHANISMS[mechanism]
        return ScramExchange(scram, credentials_of(scram))


def _mistakes(config: ListenerConfig, mechanisms: tuple[str, ...]) -> Iterator[str]:
    if not mechanisms:
        yield f"{config.named('sasl.enabled.mechanisms')}: listener {config.listener} offers no mechanism"
    for mechanism in mechanisms:
        if mechanism not in MECHANISMS:
            key, known = config.named("sasl.enabled.mechanisms"), ", ".join(MECHANISMS)
            yield f"{key}: {mechanism} is not supported for listener {config.listener}; use {known}"
        if config.of_mechanism(mechanism, _HANDLER) is not None:
            yield f"{config.prefix}{mechanism.lower()}.{_HANDLER}: custom classes are not supported"
    if config[_HANDLER] is not None:
        yield f"{config.named(_HANDLER)}: custom classes are not supported"


def _login_module(config: ListenerConfig, mechanism: str) -> LoginModule | None:
    """Return the login module, or None for SCRAM without one, which needs none."""
    key = f"{config.prefix}{mechanism.lower()}.sasl.jaas.config"
    value = config.of_mechanism(mechanism, "sasl.jaas.config")
    if value is None:
        if mechanism == PLAIN:
            raise ConfigError(
                f'{key} has to be set: {_MODULES[PLAIN]} required user_NAME="password"; (a JAAS file is not read)'
            )
        return None
    try:
        module = parse_jaas_config(getattr(value, "text", ""))
    except ConfigError as error:
        raise ConfigError(f"{key}: {error.message}") from None
    if module.name != _MODULES[mechanism]:
        raise ConfigError(
            f"{key}: login module {module.name} is not supported; for {mechanism} use {_MODULES[mechanism]}"
        )
    return module


def _passwords(module: LoginModule) -> Mapping[str, str]:
    return {name.removeprefix(_USER): text for name, text in module.options.items() if name.startswith(_USER)}


def _max_reauth_ms(config: ListenerConfig, mechanism: str) -> int:
    own = config.of_mechanism(mechanism, "connections.max.reauth.ms")
    return max(0, own if isinstance(own, int) else _number(config, "connections.max.reauth.ms"))


def _number(config: ListenerConfig, key: str) -> int:
    value = config[key]
    assert isinstance(value, int), key
    return value
