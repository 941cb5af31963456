"""The client of Kafka's protocol on asyncio, for every part that talks to other brokers.

::

    config = ClientConfig.load(Path("client.properties"), {"bootstrap.servers": "kafka-1:9092"})  # Kafka's client keys
    settings = ClientSettings.of(config)
    async with ClusterClient(settings) as cluster:
        metadata = await cluster.metadata_of(["flights"])
        leader = metadata.leader_of("flights", 0)  # None: no leader is known; refresh later
        response = await cluster.send(leader.leader_id, ApiKey.LIST_OFFSETS, {"topics": [...]})

``response`` is a Struct with the fields of every version (``protocol.messages``). The caller reads its error codes.
``settings`` has every time and limit. A failure raises a ``ClientError``, and its ``is_retriable`` tells if a later
attempt may succeed. An error such as NOT_LEADER_OR_FOLLOWER means old metadata. Then call ``cluster.learn_leader`` with
the response's hint, or ``await cluster.refresh([topic])``, and wait for the time that ``Backoff`` returns.

=========================  ============================================================================================
for                        use
=========================  ============================================================================================
a Fetch that waits         ``purpose="fetch-0"``: a broker handles the requests of a connection one after the other
records                    ``decode=read_fetch_response`` (``protocol.fetch_response``) with a Fetch: views, not copies
a certain version          ``at_most``, ``at_least``, or ``(await cluster.connection(node)).versions``
one server, no cluster     ``connection = await open_connection(address, settings)``, then ``connection.send``
=========================  ============================================================================================

The floor ``cluster`` is above ``connection``, ``security`` and ``model``. Thread rule: one event loop, asyncio's or
uvloop's.
"""

from tidelog.client.cluster.cluster_client import ClusterClient
from tidelog.client.cluster.cluster_metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.connection.connection import Connection
from tidelog.client.connection.opening import open_connection
from tidelog.client.model.address import Address, parse_servers
from tidelog.client.model.backoff import Backoff
from tidelog.client.model.errors import (
    AuthenticationError,
    BrokenResponseError,
    ClientClosedError,
    ClientError,
    DisconnectedError,
    IdleConnectionError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from tidelog.config.client_config import ClientConfig

__all__ = [
    "Address",
    "AuthenticationError",
    "Backoff",
    "BrokenResponseError",
    "ClientClosedError",
    "ClientConfig",
    "ClientError",
    "ClientSettings",
    "ClusterClient",
    "ClusterMetadata",
    "Connection",
    "DisconnectedError",
    "IdleConnectionError",
    "Node",
    "PartitionMetadata",
    "RequestTimedOutError",
    "TopicMetadata",
    "UnsupportedVersionError",
    "open_connection",
    "parse_servers",
]
