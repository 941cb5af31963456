"""Every quota of Kafka 4.4 (``QuotaConfig``): users and clients, addresses, a broker's replication.

The columns are the fields of ``Key``. The default of each is no limit. A broker's quotas are not allowed in its
properties file: they are set only at run time.
"""

from __future__ import annotations

from tidelog.config.columns import CLUSTER_WIDE, DOUBLE, INT, INT_MAX, LONG, LONG_MAX, MEDIUM, USED
from tidelog.config.key import Key, table
from tidelog.config.valid import ANY, at_least

# fmt: off
CLIENT_QUOTAS = table(
    Key("consumer_byte_rate", LONG, LONG_MAX, ANY, MEDIUM, CLUSTER_WIDE,
        "Bytes a second that the clients may fetch from this broker.", effect=USED),
    Key("controller_mutation_rate", DOUBLE, float(INT_MAX), ANY, MEDIUM, CLUSTER_WIDE,
        "Partitions a second that the clients may create or delete.", effect=USED),
    Key("producer_byte_rate", LONG, LONG_MAX, ANY, MEDIUM, CLUSTER_WIDE,
        "Bytes a second that the clients may produce to this broker.", effect=USED),
    Key("request_percentage", DOUBLE, float(INT_MAX), ANY, MEDIUM, CLUSTER_WIDE,
        "Share of this broker's time that the clients' requests may take, in percent.", effect=USED),
)
"""The quotas of users and client ids (``userAndClientQuotaConfigs``)."""

ADDRESS_QUOTAS = table(
    Key("connection_creation_rate", INT, INT_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Connections a second that this broker accepts from the address.", effect=USED),
)
"""The quotas of an address or host (``ipConfigs``)."""

REPLICATION_RATES = table(
    Key("follower.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Bytes a second that followers fetch for the replicas a topic names as throttled.", effect=USED),
    Key("leader.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Bytes a second that leaders serve to followers for the replicas a topic names as throttled.", effect=USED),
    Key("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Bytes a second that moves between log directories may write.", effect=USED),
)
"""The quotas of a broker (``brokerQuotaConfigs``)."""
# fmt: on
