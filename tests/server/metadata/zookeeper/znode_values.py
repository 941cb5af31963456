"""Hypothesis strategies for znodes, and the decoder of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from tidelog.replication.registration_request import BrokerEndpoint, VersionRange
from tidelog.security.security_protocol import SecurityProtocol
from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.metadata.zookeeper.acl_znode import decode_acls, encode_acls
from tidelog.server.metadata.zookeeper.znodes import (
    BrokerZnode,
    ClusterIdZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureZnode,
    ProducerIdsZnode,
    StateZnode,
    TopicZnode,
)

PATTERN = Pattern(AclResourceType.TOPIC, "orders", PatternType.LITERAL)

DECODERS: Mapping[str, Callable[[str, bytes], Any]] = {
    "topic": TopicZnode.decode,
    "state": StateZnode.decode,
    "config": ConfigZnode.decode,
    "broker": BrokerZnode.decode,
    "controller": ControllerZnode.decode,
    "controller epoch": ControllerEpochZnode.decode,
    "cluster id": ClusterIdZnode.decode,
    "producer ids": ProducerIdsZnode.decode,
    "feature": FeatureZnode.decode,
    "acls": lambda path, data: decode_acls(path, data, PATTERN),
}


def encoded(kind: str, value: Any) -> bytes:
    """Return the data of a value of that kind."""
    data: bytes = encode_acls(value) if kind == "acls" else value.encode()
    return data


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ints = st.integers(0, 2**31 - 1)
broker_ids = st.lists(ints, min_size=1, max_size=4).map(tuple)
names = st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True)
ranges = st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda pair: VersionRange(*sorted(pair)))
endpoints = st.builds(
    BrokerEndpoint,
    names,
    st.sampled_from(["localhost", "10.0.0.1", "::1", ""]),
    st.integers(0, 65535),
    st.sampled_from(list(SecurityProtocol)).map(int),
)
acls = st.builds(
    Acl,
    pattern=st.just(PATTERN),
    principal=texts.map("User:{}".format),
    host=texts,
    operation=st.sampled_from([one for one in Operation if 1 < one < Operation.TWO_PHASE_COMMIT]),
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


@st.composite
def topics(draw: st.DrawFn) -> TopicZnode:
    """Return a topic, some of whose partitions are being reassigned."""
    replicas = draw(st.dictionaries(ints, broker_ids, max_size=60))
    moving = st.dictionaries(st.sampled_from(sorted(replicas)), broker_ids) if replicas else st.just({})
    return TopicZnode(
        topic_id=draw(st.none() | st.uuids()), replicas=replicas, adding=draw(moving), removing=draw(moving)
    )


VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "topic": topics(),
    "state": st.builds(
        StateZnode,
        leader=st.integers(-1, 2**31 - 1),
        leader_epoch=ints,
        controller_epoch=ints,
        isr=broker_ids,
        is_recovering=st.booleans(),
    ),
    "config": st.builds(ConfigZnode, st.dictionaries(texts, texts, max_size=60)),
    "broker": st.builds(
        BrokerZnode,
        listeners=st.lists(endpoints, max_size=4, unique_by=lambda one: one.name).map(tuple),
        timestamp_ms=ints,
        jmx_port=st.integers(-1, 65535),
        rack=st.none() | texts,
        features=st.dictionaries(texts, ranges, max_size=3),
    ),
    "controller": st.builds(ControllerZnode, broker_id=ints, timestamp_ms=ints, kraft_epoch=st.integers(-1, 99)),
    "controller epoch": st.builds(ControllerEpochZnode, ints),
    "cluster id": st.builds(ClusterIdZnode, texts),
    "producer ids": st.builds(ProducerIdsZnode, broker_id=ints, first=ints, last=ints),
    "feature": st.builds(
        FeatureZnode, is_enabled=st.booleans(), levels=st.dictionaries(texts, st.integers(1, 99), max_size=3)
    ),
    "acls": st.lists(acls, max_size=5, unique=True).map(sorted),
}
