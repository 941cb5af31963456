"""The rules that brokers of a story keep once they had time, and no fault is left."""

from __future__ import annotations

from collections.abc import Iterator

from server.metadata.zookeeper_cluster.metadata_cluster import MetadataCluster, ModelBroker, parts_of
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.session import SessionState


def unsettled(cluster: MetadataCluster) -> Iterator[str]:
    """Yield the rules that are not kept yet."""
    running = [broker for broker in cluster.brokers.values() if broker.is_up]
    if not all(broker.has_joined for broker in running):
        yield "a broker has not started yet"
        return
    tree = cluster.image()
    for broker in running:
        yield from _broker(cluster, broker, tree)
    if running:
        yield from _controller(cluster, running)
        yield from _duties(cluster, tree)
        yield from _leaders(tree)


def _broker(cluster: MetadataCluster, broker: ModelBroker, tree: MetadataImage) -> Iterator[str]:
    name = f"broker {broker.node_id}"
    if broker.session.state is not SessionState.CONNECTED:
        yield f"{name} is not connected"
    found = cluster.zookeeper.read(paths.broker(broker.node_id))
    registered = None if found is None else (found.czxid, found.ephemeral_owner)
    if registered != (broker.metadata.broker_epoch, broker.session.session_id):
        yield f"{name} is not registered in its epoch {broker.metadata.broker_epoch}: {registered}"
    mine, theirs = parts_of(broker.image), parts_of(tree)
    for part in mine:
        if mine[part] != theirs[part]:
            yield f"{name} has other {part} than the tree: {mine[part]}, {theirs[part]}"


def _controller(cluster: MetadataCluster, running: list[ModelBroker]) -> Iterator[str]:
    active = [broker for broker in running if broker.metadata.is_controller]
    found = cluster.zookeeper.read(paths.CONTROLLER)
    if found is None or [found.ephemeral_owner] != [broker.session.session_id for broker in active]:
        yield f"the controllers are {[broker.node_id for broker in active]}, in the tree it is {found}"


def _duties(cluster: MetadataCluster, tree: MetadataImage) -> Iterator[str]:
    for path in (paths.REASSIGNMENT, paths.PREFERRED_ELECTION):
        if cluster.zookeeper.read(path) is not None:
            yield f"the request {path} is not done"
    table = cluster.zookeeper.table
    doomed = table.children(paths.DELETED_TOPICS) or ()
    for name in table.children(paths.TOPICS) or ():
        if name not in doomed and name not in tree.topics:
            yield f"topic {name} has no id"
    for name in doomed:
        replicas = cluster.replicas_of(name)
        if replicas <= tree.brokers.keys():
            yield f"topic {name} is not deleted"
    for topic, number, state in tree.partitions():
        has_state = table.read(paths.state(topic.name, number)) is not None
        if not has_state and any(map(tree.is_active, state.replicas)):
            yield f"partition {topic.name}-{number} has no state"


def _leaders(tree: MetadataImage) -> Iterator[str]:
    for topic, number, state in tree.partitions():
        name = f"partition {topic.name}-{number}"
        if state.has_leader and not tree.is_active(state.leader):
            yield f"{name} is led by {state.leader}, which is not registered"
        if not state.has_leader and any(map(tree.is_active, state.isr)):
            yield f"{name} has no leader, but a live replica in sync: {state}"
        if len(state.isr) > 1 and not all(map(tree.is_active, state.isr)):
            yield f"{name} has replicas in sync that are not registered: {state}"
