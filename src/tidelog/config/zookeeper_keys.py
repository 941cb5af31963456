"""Broker keys of Kafka 3.9 that Kafka 4 no longer has, most of them about ZooKeeper.

Only a broker with ``zookeeper.connect`` and without ``process.roles`` has them, in addition to those of Kafka 4.4. Its
topics can have three more settings, which are kept and shown, because Kafka 3.9 may use the cluster again. The columns
are the fields of ``Key``. ``zookeeper.sasl.jaas.config`` is our own: Kafka takes SASL from a file of the JVM.
Source: Kafka's ``ZkConfigs``, ``KafkaConfig`` of 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidelog.config.columns import (
    BOOLEAN,
    CHECKED,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    PASSWORD,
    READ_ONLY,
    SHORT,
    STRING,
    USED,
)
from tidelog.config.key import Key, table
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.valid import ANY, Between, at_least

SASL_KEY = "zookeeper.sasl.jaas.config"
"""The key that Kafka does not have."""

# fmt: off
ZOOKEEPER_KEYS = table(
    Key("auto.include.jmx.reporter", BOOLEAN, True, ANY, LOW, READ_ONLY,
        "Whether the JMX reporter is used even if metric.reporters lacks it."),
    Key("broker.id.generation.enable", BOOLEAN, True, ANY, MEDIUM, READ_ONLY,
        "Whether a broker without broker.id gets an id from ZooKeeper.", effect=USED),
    Key("control.plane.listener.name", STRING, None, ANY, HIGH, READ_ONLY,
        "Listener for the controller's requests. Here no controller sends requests to brokers."),
    Key("controlled.shutdown.max.retries", INT, 3, ANY, MEDIUM, READ_ONLY,
        "How often a controlled shutdown is tried again."),
    Key("controlled.shutdown.retry.backoff.ms", LONG, 5000, ANY, MEDIUM, READ_ONLY,
        "Wait before a controlled shutdown is tried again."),
    Key("delegation.token.master.key", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "The old name of delegation.token.secret.key."),
    Key("eligible.leader.replicas.enable", BOOLEAN, False, ANY, HIGH, READ_ONLY,
        "Whether a controller keeps eligible leader replicas. ZooKeeper has no place for them."),
    Key("group.share.max.groups", SHORT, 10, Between(1, 100), MEDIUM, READ_ONLY,
        "The most share groups."),
    Key("inter.broker.protocol.version", STRING, "3.9-IV0", ANY, MEDIUM, READ_ONLY,
        "Release whose protocol brokers use among each other. The formats here are always those of Kafka 3.9."),
    Key("leader.imbalance.per.broker.percentage", INT, 10, ANY, HIGH, READ_ONLY,
        "Share of a broker's leaderships that may be elsewhere before they are balanced. Here all are balanced."),
    Key("log.message.downconversion.enable", BOOLEAN, True, ANY, LOW, CLUSTER_WIDE,
        "Whether records are converted for clients that know older formats only. Those clients are not served."),
    Key("log.message.format.version", STRING, "3.0-IV1", ANY, MEDIUM, READ_ONLY,
        "Format of new records. Kafka 3.9 ignores it too, unless inter.broker.protocol.version is below 3.0."),
    Key("log.message.timestamp.difference.max.ms", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The old name of log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms."),
    Key("offsets.commit.required.acks", SHORT, -1, ANY, HIGH, READ_ONLY,
        "Acknowledgements that a commit of offsets needs; -1 for all in-sync replicas, as here always."),
    Key("password.encoder.cipher.algorithm", STRING, "AES/CBC/PKCS5Padding", ANY, LOW, READ_ONLY,
        "Cipher of passwords in the dynamic settings of brokers.", effect=USED),
    Key("password.encoder.iterations", INT, 4096, at_least(1024), LOW, READ_ONLY,
        "Iterations that derive the key for passwords in dynamic settings.", effect=USED),
    Key("password.encoder.key.length", INT, 128, at_least(8), LOW, READ_ONLY,
        "Bits of the key for passwords in dynamic settings.", effect=USED),
    Key("password.encoder.keyfactory.algorithm", STRING, None, ANY, LOW, READ_ONLY,
        "Algorithm that derives the key for passwords in dynamic settings.", effect=USED),
    Key("password.encoder.old.secret", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "The secret before the current password.encoder.secret.", effect=USED),
    Key("password.encoder.secret", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "Secret that encrypts passwords in the dynamic settings of brokers.", effect=USED),
    Key("reserved.broker.max.id", INT, 1000, at_least(0), MEDIUM, READ_ONLY,
        "The largest id that broker.id may set while ids are also generated. Generated ids are above it.", effect=USED),
    Key("zookeeper.clientCnxnSocket", STRING, None, ANY, MEDIUM, READ_ONLY,
        "Java class of the connection to ZooKeeper."),
    Key("zookeeper.connect", STRING, None, ANY, HIGH, READ_ONLY,
        "ZooKeeper's servers and the chroot of the cluster: `host:2181,host2:2181/chroot`.", effect=USED),
    Key("zookeeper.connection.timeout.ms", INT, None, ANY, HIGH, READ_ONLY,
        "How long a connection to ZooKeeper may take; by default zookeeper.session.timeout.ms.", effect=USED),
    Key("zookeeper.max.in.flight.requests", INT, 10, at_least(1), HIGH, READ_ONLY,
        "The most requests to ZooKeeper that wait for a response. Here a fixed number of them may wait."),
    Key("zookeeper.metadata.migration.enable", BOOLEAN, False, ANY, HIGH, READ_ONLY,
        "Whether Kafka moves the metadata from ZooKeeper to controllers. Here only `tidelog import` does that.",
        effect=CHECKED),
    Key("zookeeper.session.timeout.ms", INT, 18_000, ANY, HIGH, READ_ONLY,
        "The session of a broker without heartbeats ends after this long, and its leaderships move.", effect=USED),
    Key("zookeeper.set.acl", BOOLEAN, False, ANY, HIGH, READ_ONLY,
        "Whether only brokers may change the znodes.", effect=USED),
    Key("zookeeper.ssl.cipher.suites", LIST, None, ANY, LOW, READ_ONLY,
        "TLS ciphers of the connection to ZooKeeper.", effect=USED),
    Key("zookeeper.ssl.client.enable", BOOLEAN, False, ANY, MEDIUM, READ_ONLY,
        "Whether the connection to ZooKeeper uses TLS.", effect=USED),
    Key("zookeeper.ssl.crl.enable", BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether lists of revoked certificates are checked."),
    Key("zookeeper.ssl.enabled.protocols", LIST, None, ANY, LOW, READ_ONLY,
        "TLS versions of the connection to ZooKeeper.", effect=USED),
    Key("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", ANY, LOW, READ_ONLY,
        "`HTTPS`: ZooKeeper's certificate must name its host; empty for no check.", effect=USED),
    Key("zookeeper.ssl.keystore.location", STRING, None, ANY, MEDIUM, READ_ONLY,
        "File with this broker's key and certificate for ZooKeeper.", effect=USED),
    Key("zookeeper.ssl.keystore.password", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "Password of that file.", effect=USED),
    Key("zookeeper.ssl.keystore.type", STRING, None, ANY, MEDIUM, READ_ONLY,
        "Format of that file; by default its suffix decides.", effect=USED),
    Key("zookeeper.ssl.ocsp.enable", BOOLEAN, False, ANY, LOW, READ_ONLY,
        "Whether a certificate's state is asked for with OCSP."),
    Key("zookeeper.ssl.protocol", STRING, "TLSv1.2", ANY, LOW, READ_ONLY,
        "TLS version of the connection to ZooKeeper, if zookeeper.ssl.enabled.protocols is not set."),
    Key("zookeeper.ssl.truststore.location", STRING, None, ANY, MEDIUM, READ_ONLY,
        "File with the certificates of the CAs that sign ZooKeeper's.", effect=USED),
    Key("zookeeper.ssl.truststore.password", PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "Password of that file.", effect=USED),
    Key("zookeeper.ssl.truststore.type", STRING, None, ANY, MEDIUM, READ_ONLY,
        "Format of that file; by default its suffix decides.", effect=USED),
    Key(SASL_KEY, PASSWORD, None, ANY, MEDIUM, READ_ONLY,
        "SASL for ZooKeeper: `org.apache.zookeeper.server.auth.DigestLoginModule required username=... password=...;`",
        effect=USED),
)

ZOOKEEPER_TOPIC_KEYS = table(
    Key("message.downconversion.enable", BOOLEAN, True, ANY, LOW, CLUSTER_WIDE,
        "Whether records are converted for clients that know older formats only. Those clients are not served."),
    Key("message.format.version", STRING, "3.0-IV1", ANY, MEDIUM, CLUSTER_WIDE,
        "Format of new records. Kafka 3.9 ignores it too, unless inter.broker.protocol.version is below 3.0."),
    Key("message.timestamp.difference.max.ms", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The old name of message.timestamp.before.max.ms and message.timestamp.after.max.ms."),
)
"""The settings of topics that a cluster with ZooKeeper has in addition to those of Kafka 4.4."""
# fmt: on

SEGMENT_BYTES: Final = "segment.bytes"
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"
LEAST_SEGMENT_BYTES: Final = 14
"""Kafka 3.9's minimum of ``segment.bytes``. That of Kafka 4 is 1 MiB (KIP-1030)."""
ALL_TOPIC_KEYS: Final[Mapping[str, Key]] = {
    **TOPIC_KEYS,
    **ZOOKEEPER_TOPIC_KEYS,
    SEGMENT_BYTES: replace(TOPIC_KEYS[SEGMENT_BYTES], valid=at_least(LEAST_SEGMENT_BYTES)),
}
"""The settings of topics in a cluster with ZooKeeper."""


def log_settings(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return a topic's settings for its logs, whose segments may be smaller than Kafka 4 allows.

    Raise ConfigError if the size of a segment is not valid in Kafka 3.9 either.
    """
    text = settings.get(SEGMENT_BYTES)
    if text is None or INTERNAL_SEGMENT_BYTES in settings:
        return settings
    size = ALL_TOPIC_KEYS[SEGMENT_BYTES].parse(text)
    if TOPIC_KEYS[SEGMENT_BYTES].valid.refusal(SEGMENT_BYTES, size) is None:
        return settings
    return {**{key: one for key, one in settings.items() if key != SEGMENT_BYTES}, INTERNAL_SEGMENT_BYTES: text}
