"""The facts about the node itself, its listeners and its meters. Thread rule: the event loop only."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.server.live_reports.reported_node import Report, ReportedNode, Wanted
from tidelog.server.live_reports.turns import Top, Turns
from tidelog.server.network.listener import Listener
from tidelog.version import __version__


async def report_node(reported: ReportedNode, _wanted: Wanted, _turns: Turns) -> Report:
    """Return the node's identity, state, epochs, memory and counts."""
    node, metadata, sessions = reported.node, reported.metadata, reported.fetch_sessions
    roles = [] if node.service is None else ["broker"]
    return {
        "node_id": node.node_id,
        "roles": [*roles, *(["controller"] if node.has_controller else [])],
        "state": node.state.name,
        "version": __version__,
        "process": os.getpid(),
        "started_ms": reported.started_ms,
        "uptime_ms": reported.now_ms - reported.started_ms,
        "memory_bytes": resident_bytes(),
        "cpu_ms": int(time.process_time() * 1000),
        "threads": threading.active_count(),
        "cluster_id": None if metadata is None else metadata.image.cluster_id or None,
        "metadata_offset": None if metadata is None else metadata.applied_offset,
        "broker_epoch": None if metadata is None else metadata.broker_epoch,
        "brokers": None if metadata is None else len(metadata.image.brokers),
        "fenced_brokers": None if metadata is None else sum(one.is_fenced for one in metadata.image.brokers.values()),
        "fetch_sessions": None if sessions is None else len(sessions),
        "fetch_session_partitions": None if sessions is None else sessions.partition_count,
        "report_errors": node.metrics.errors,
        **_controller(reported),
    }


async def report_listeners(reported: ReportedNode, _wanted: Wanted, _turns: Turns) -> Report:
    """Return a row for each listener."""
    rows = [_listener_row(listener) for listener in reported.node.listeners]
    return {"rows": rows, "total": len(rows)}


async def report_metrics(reported: ReportedNode, wanted: Wanted, turns: Turns) -> Report:
    """Return the meters, histograms and timers. Gauges are left out: their report reads every partition."""
    top: Top[tuple[str, dict[str, Any]]] = Top(wanted.most)
    async for sample in turns.each(reported.node.metrics.measured()):
        top.add(sample.values["Count"], (str(sample.name), dict(sample.values)))
    return top.rows(lambda one: _meter_row(*one))


def resident_bytes() -> int | None:
    """Return the resident memory of this process, or None if it is not known."""
    if sys.platform != "linux":
        return None
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _controller(reported: ReportedNode) -> Report:
    """Return the active controller's id, its epoch where this node knows it, and the kind of the metadata."""
    node, metadata = reported.node, reported.metadata
    quorum = getattr(node, "quorum_controller", None)
    if quorum is not None:
        status = quorum.quorum
        return {"metadata": "KRaft", "controller_id": status.leader_id, "controller_epoch": status.epoch}
    if node.zookeeper is not None:
        controller_id = None if metadata is None else metadata.image.controller_id
        epoch = getattr(metadata, "controller_epoch", None)
        return {"metadata": "ZooKeeper", "controller_id": controller_id, "controller_epoch": epoch}
    leader = None if node.controllers is None else node.controllers.leader
    return {"metadata": "KRaft", "controller_id": None if leader is None else leader.id, "controller_epoch": None}


def _listener_row(listener: Listener) -> Report:
    counts = listener.authentications
    return {
        "listener": listener.endpoint.name,
        "address": f"{listener.endpoint.host}:{listener.port}",
        "protocol": listener.endpoint.protocol.name,
        "connections": len(listener.connections),
        "accepted": listener.accepted,
        "rejected": listener.rejected,
        "authenticated": counts.successful,
        "failed_authentications": counts.failed,
        "request_bytes": listener.request_bytes,
    }


def _meter_row(name: str, values: dict[str, Any]) -> Report:
    return {
        "metric": name,
        "count": values["Count"],
        "one_minute_rate": values.get("OneMinuteRate"),
        "fifteen_minute_rate": values.get("FifteenMinuteRate"),
        "mean": values.get("Mean"),
        "p99": values.get("99thPercentile"),
        "max": values.get("Max"),
    }


def directory_id_text(directory_id: Any) -> str | None:
    """Return a log directory's id as Kafka writes it."""
    return None if directory_id is None else uuid_to_text(directory_id)
