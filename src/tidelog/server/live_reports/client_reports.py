"""Connections, requests, and the quotas of clients. Thread rule: the event loop only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.live_reports.reported_node import Report, ReportedNode, Wanted
from tidelog.server.live_reports.turns import Top, Turns
from tidelog.server.network.connection import Connection
from tidelog.server.quotas.client_quotas import CONTROLLER_MUTATION_RATE
from tidelog.server.quotas.quota_usage import QuotaUsage, UsageKey

_API_NAMES = {int(api): api.title for api in ApiKey}


async def report_connections(reported: ReportedNode, wanted: Wanted, turns: Turns) -> Report:
    """Return the connections with a request under way, then the others by their last activity."""
    top: Top[Connection] = Top(wanted.most)
    connections = [one for listener in reported.node.listeners for one in listener.connections]
    async for one in turns.each(connections):
        client = one.client
        if wanted.fits(client.client_id, client.host, str(client.principal), client.listener):
            top.add((one.state != "reading", one.last_active_ms), one)
    now_s = perf_counter()
    return {**top.rows(lambda one: _connection_row(reported, one, now_s)), "open": len(connections)}


async def report_requests(reported: ReportedNode, _wanted: Wanted, _turns: Turns) -> Report:
    """Return the APIs that were requested, the most requested first."""
    counts, errors = reported.node.server_metrics.counts(), reported.node.server_metrics.errors
    rows = []
    for number, times in sorted(reported.times.apis.items(), key=lambda item: -item[1].count):
        api, rates = ApiKey(number), reported.times.rates(number)
        refused: Mapping[int, int] = errors.get(api, {})
        done = max(times.done, 1)
        rows.append(
            {
                "api": api.title,
                "versions": sorted(counts.get(api, ())),
                "count": times.count,
                "last_minute": rates.last_minute,
                "rate": round(rates.requests, 2),
                "waiting": times.waiting,
                "errors": sum(refused.values()),
                "errors_by_code": {_error_name(code): count for code, count in sorted(refused.items())},
                "local_mean_ms": _ms(times.local_s / max(times.count, 1)),
                "total_mean_ms": _ms(times.total_s / done),
                "total_p50_ms": _ms(times.percentile_s(0.5)),
                "total_p99_ms": _ms(times.percentile_s(0.99)),
                "total_max_ms": _ms(times.longest_s),
                "throttled": times.throttled,
                "throttle_ms": times.throttle_ms,
                "bytes_in": times.bytes_in,
                "bytes_out": times.bytes_out,
                "bytes_in_rate": int(rates.bytes_in),
                "bytes_out_rate": int(rates.bytes_out),
            }
        )
    return {"rows": rows, "total": len(rows)}


async def report_quotas(reported: ReportedNode, wanted: Wanted, turns: Turns) -> Report:
    """Return the quotas in force."""
    metadata, top = reported.metadata, Top[dict[str, Any]](wanted.most)
    quotas = {} if metadata is None else metadata.image.client_quotas
    async for entity, limits in turns.each(list(quotas.items())):
        text = ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)
        if wanted.fits(text):
            for key, limit in sorted(limits.items()):
                top.add(0, {"entity": text, "quota": key, "limit": number_or_none(limit)})
    return top.rows(dict)


async def report_throttled(reported: ReportedNode, wanted: Wanted, turns: Turns) -> Report:
    """Return the usage of quotas by clients, those with the longest recent throttle times first."""
    quotas, top = reported.quotas, Top[dict[str, Any]](wanted.most)
    async for key, usage in turns.each([] if quotas is None else list(quotas.usages)):
        if quotas is not None and wanted.fits(key.sharers.user, key.sharers.client_id):
            limit = quotas.limit_of(key.key, key.sharers.user, key.sharers.client_id)
            row = _usage_row(key, usage, limit, reported.monotonic_ms)
            top.add((row["longest_throttle_ms"] or 0, row["usage"] or 0), row)
    return {**top.rows(dict), "is_on": quotas is not None and quotas.is_on, "replication": _replication(reported)}


def _connection_row(reported: ReportedNode, one: Connection, now_s: float) -> Report:
    client = one.client
    return {
        "client": f"{client.host}:{client.port}",
        "listener": client.listener,
        "principal": str(client.principal) if client.is_authenticated else None,
        "client_id": client.client_id,
        "software": " ".join(client.software),
        "opened_ms": reported.wall_ms(one.opened_ms),
        "idle_ms": reported.monotonic_ms - one.last_active_ms,
        "requests": client.requests.count,
        "bytes_in": client.requests.bytes_in,
        "bytes_out": client.requests.bytes_out,
        "in_flight": int(one.state == "working"),
        "state": one.state,
        "last_api": _API_NAMES.get(client.requests.api),
        "waiting_ms": int((now_s - client.requests.begun_s) * 1000) if one.state == "working" else None,
        "request_bytes": one.request_bytes,
    }


def _usage_row(key: UsageKey, usage: QuotaUsage, limit: float | None, now_ms: int) -> Report:
    is_bucket = key.key == CONTROLLER_MUTATION_RATE
    return {
        "quota": key.key,
        "user": key.sharers.user or None,
        "client_id": key.sharers.client_id or None,
        "usage": number_or_none(usage.bucket.tokens if is_bucket else usage.rate.seen_per_second(now_ms)),
        "limit": None if limit is None else number_or_none(limit),
        "mean_throttle_ms": number_or_none(usage.waits.mean_ms),
        "longest_throttle_ms": number_or_none(usage.waits.longest_ms),
    }


def _replication(reported: ReportedNode) -> list[Report]:
    """Return the throttles of replication that have a limit."""
    replicas = reported.replicas
    sides = {} if replicas is None else {"leader": replicas.leader_quota, "follower": replicas.follower_quota}
    return [
        {"side": side, "limit": quota.limit, "rate": round(quota.rate, 2), "is_exceeded": quota.is_exceeded}
        for side, quota in sides.items()
        if quota.limit is not None
    ]


def number_or_none(value: float) -> float | None:
    """Return None for NaN and infinity, which JSON does not have."""
    return round(value, 2) if math.isfinite(value) else None


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
