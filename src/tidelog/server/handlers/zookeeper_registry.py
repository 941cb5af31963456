"""The registry of a broker that keeps its metadata in ZooKeeper.

It lacks the APIs of a cluster with a metadata log. A client learns that from ApiVersions, and its own error names the
API. Like a broker of Kafka 3.9 with ZooKeeper, this one advertises the APIs of the new consumer groups and refuses them
with UNSUPPORTED_VERSION, because the cluster has no ``group.version``.

====================  =================================================================================================
missing API           reason
====================  =================================================================================================
DescribeQuorum        there is no quorum
UnregisterBroker      a registration ends with the broker's session
UpdateFeatures        the cluster has no features to update
====================  =================================================================================================

Source: Kafka's message definitions of 3.9 (``zkBroker``).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tidelog.protocol.api_key import ApiKey
from tidelog.server.handlers.api_groups import ApiGroup
from tidelog.server.handlers.cluster import api_versions
from tidelog.server.handlers.registry import BROKER_APIS, Handler, Handlers, Registry

_OF_A_METADATA_LOG: Final = frozenset({ApiKey.DESCRIBE_QUORUM, ApiKey.UNREGISTER_BROKER, ApiKey.UPDATE_FEATURES})


def _cluster() -> Handlers:
    """Return the handlers of the cluster's APIs; ApiVersions has those of this registry."""
    respond = partial(api_versions.respond, tuple(ZOOKEEPER_APIS.groups))
    own = BROKER_APIS.loaders[ApiGroup.CLUSTER]()
    return {**own, ApiKey.API_VERSIONS: Handler(respond, read=api_versions.read)}


ZOOKEEPER_APIS: Final = Registry(
    {api: group for api, group in BROKER_APIS.groups.items() if api not in _OF_A_METADATA_LOG},
    {**BROKER_APIS.loaders, ApiGroup.CLUSTER: _cluster},
)
"""The APIs of a broker that keeps its metadata in ZooKeeper."""
