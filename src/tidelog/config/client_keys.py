"""Keys of a client of Kafka: those of ``AdminClientConfig`` in Kafka 4.4, and the names of a consumer's own keys.

The columns are the fields of ``Key``. Keys of TLS and SASL are the broker's rows. A file that Kafka's consumers use is
accepted too: the consumer's own keys are known here and have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from tidelog.config.columns import BOOLEAN, HIGH, INT, INT_MAX, LIST, LONG, LOW, MEDIUM, READ_ONLY, STRING, USED
from tidelog.config.key import Effect, Key, table
from tidelog.config.security_keys import SECURITY_KEYS, STORE_KEYS
from tidelog.config.valid import ANY, ITEMS, Between, Valid, at_least, one_of, one_of_any_case

# fmt: off
CONNECTION_KEYS: Final = table(
    Key("bootstrap.controllers", LIST, (), ITEMS, HIGH, READ_ONLY,
        "Controllers to connect to instead of brokers."),
    Key("bootstrap.resolve.timeout.ms", LONG, 0, at_least(0), HIGH, READ_ONLY,
        "How long the resolution of the first servers' names may take."),
    Key("bootstrap.servers", LIST, (), ITEMS, HIGH, READ_ONLY,
        "The servers to connect to first, as `HOST:PORT`.", effect=USED),
    Key("client.dns.lookup", STRING, "use_all_dns_ips",
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"), MEDIUM, READ_ONLY,
        "Whether the first servers' names are used, or the canonical names of their addresses.", effect=USED),
    Key("client.id", STRING, "", ANY, MEDIUM, READ_ONLY,
        "The client's name in the broker's logs, metrics and quotas.", effect=USED),
    Key("config.providers", LIST, (), ITEMS, LOW, READ_ONLY,
        "Names of the classes that provide values."),
    Key("connections.max.idle.ms", LONG, 300_000, ANY, MEDIUM, READ_ONLY,
        "A connection without requests for this long is closed.", effect=USED),
    Key("default.api.timeout.ms", INT, 60_000, at_least(0), MEDIUM, READ_ONLY,
        "How long an operation may take with its retries.", effect=USED),
    Key("enable.metrics.push", BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether the client sends its metrics to the cluster."),
    Key("metadata.cluster.check.enable", BOOLEAN, True, ANY, LOW, READ_ONLY,
        "Whether a server of another cluster is refused."),
    Key("metadata.max.age.ms", LONG, 300_000, at_least(0), LOW, READ_ONLY,
        "Metadata is refreshed after this long.", effect=USED),
    Key("metadata.recovery.rebootstrap.trigger.ms", LONG, 300_000, at_least(0), LOW, READ_ONLY,
        "How long metadata may be missing before only the first servers are asked.", effect=USED),
    Key("metadata.recovery.strategy", STRING, "rebootstrap", one_of_any_case("REBOOTSTRAP", "NONE"), LOW, READ_ONLY,
        "Whether the first servers are asked again if no known broker responds.", effect=USED),
    Key("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), ITEMS, LOW, READ_ONLY,
        "Classes that report metrics."),
    Key("metrics.num.samples", INT, 2, at_least(1), LOW, READ_ONLY,
        "Number of samples of a metric."),
    Key("metrics.recording.level", STRING, "INFO", one_of("INFO", "DEBUG", "TRACE"), LOW, READ_ONLY,
        "The most detailed level of metrics."),
    Key("metrics.sample.window.ms", LONG, 30_000, at_least(0), LOW, READ_ONLY,
        "Time that a sample covers."),
    Key("receive.buffer.bytes", INT, 65_536, at_least(-1), MEDIUM, READ_ONLY,
        "The receive buffer of a socket; -1 for the operating system's size.", effect=USED),
    Key("reconnect.backoff.max.ms", LONG, 1_000, at_least(0), LOW, READ_ONLY,
        "The longest wait between two attempts to connect.", effect=USED),
    Key("reconnect.backoff.ms", LONG, 50, at_least(0), LOW, READ_ONLY,
        "The first wait between two attempts to connect.", effect=USED),
    Key("request.timeout.ms", INT, 30_000, at_least(0), MEDIUM, READ_ONLY,
        "How long the client waits for a response.", effect=USED),
    Key("retries", INT, INT_MAX, Between(0, INT_MAX), LOW, READ_ONLY,
        "How often a failed request is repeated.", effect=USED),
    Key("retry.backoff.max.ms", LONG, 1_000, at_least(0), LOW, READ_ONLY,
        "The longest wait before a failed request is repeated.", effect=USED),
    Key("retry.backoff.ms", LONG, 100, at_least(0), LOW, READ_ONLY,
        "The first wait before a failed request is repeated.", effect=USED),
    Key("sasl.mechanism", STRING, "GSSAPI", ANY, MEDIUM, READ_ONLY,
        "The SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.", effect=USED),
    Key("sasl.oauthbearer.header.urlencode", BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether the credentials of OAuth are URL-encoded."),
    Key("security.protocol", STRING, "PLAINTEXT",
        one_of_any_case("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"), MEDIUM, READ_ONLY,
        "Whether the connection uses TLS (SSL), SASL, both or neither.", effect=USED),
    Key("security.providers", STRING, None, ANY, LOW, READ_ONLY,
        "Classes that add Java security providers."),
    Key("send.buffer.bytes", INT, 131_072, at_least(-1), MEDIUM, READ_ONLY,
        "The send buffer of a socket; -1 for the operating system's size.", effect=USED),
    Key("socket.connection.setup.timeout.max.ms", LONG, 30_000, ANY, MEDIUM, READ_ONLY,
        "The longest time for the set-up of a connection.", effect=USED),
    Key("socket.connection.setup.timeout.ms", LONG, 10_000, ANY, MEDIUM, READ_ONLY,
        "The first time for the set-up of a connection.", effect=USED),
)
OWN_KEYS: Final = table(
    Key("receive.message.max.bytes", INT, 100_000_000, Between(1_000, INT_MAX), MEDIUM, READ_ONLY,
        "The largest response that is accepted, as in librdkafka.", effect=USED),
)
# fmt: on
"""Keys that Kafka's own clients do not have."""

_USED_SECURITY: Final = STORE_KEYS | {
    "sasl.jaas.config",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
}
_MORE_IMPORTANT: Final = STORE_KEYS - {"ssl.keystore.type", "ssl.truststore.type"}
_LESS_IMPORTANT: Final = frozenset(
    {
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "ssl.cipher.suites",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
    }
)
_RANGES: Final[Mapping[str, Valid]] = {
    "sasl.login.refresh.buffer.seconds": Between(0, 3600),
    "sasl.login.refresh.min.period.seconds": Between(0, 900),
    "sasl.login.refresh.window.factor": Between(0.5, 1.0),
    "sasl.login.refresh.window.jitter": Between(0.0, 0.25),
}
"""The ranges that only a client's table has."""
_CHECKED_SECURITY: Final = frozenset(
    {
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "ssl.engine.factory.class",
        "ssl.protocol",
        "ssl.provider",
    }
)
_SERVERS_ALONE: Final = frozenset(
    {
        "sasl.enabled.mechanisms",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.mechanism.controller.protocol",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.server.callback.handler.class",
        "sasl.server.max.receive.size",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "ssl.client.auth",
        "ssl.principal.mapping.rules",
    }
)


def _of_client(keys: Iterable[Key]) -> dict[str, Key]:
    """Return the broker's rows of TLS and SASL that a client has too, with their effect in the client."""
    found = {}
    for key in keys:
        if key.name.startswith(("ssl.", "sasl.")) and key.name not in _SERVERS_ALONE:
            is_checked = key.name in _CHECKED_SECURITY
            effect = Effect.CHECKED if is_checked else Effect.USED if key.name in _USED_SECURITY else Effect.NONE
            importance = HIGH if key.name in _MORE_IMPORTANT else LOW if key.name in _LESS_IMPORTANT else key.importance
            valid = _RANGES.get(key.name, key.valid)
            found[key.name] = replace(key, mode=READ_ONLY, effect=effect, importance=importance, valid=valid)
    return found


ADMIN_KEYS: Final[Mapping[str, Key]] = {**CONNECTION_KEYS, **_of_client(SECURITY_KEYS.values())}
"""The keys of ``AdminClientConfig``."""
CLIENT_KEYS: Final[Mapping[str, Key]] = {**ADMIN_KEYS, **OWN_KEYS}

CONSUMER_NAMES: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "client.rack",
        "enable.auto.commit",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "interceptor.classes",
        "internal.throw.on.fetch.stable.offset.unsupported",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "share.acknowledgement.mode",
        "share.acquire.mode",
        "value.deserializer",
    }
)
"""The keys that only a consumer has."""
