"""The sections of the broker's page about its clients: requests, connections and quotas."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.web.page import Column, Kind, Section
from tidelog.web.pages.broker_section import LiveReports, bars

_NUMBER = Kind.NUMBER


def client_sections(live: LiveReports) -> Iterator[Section]:
    yield _requests(live)
    yield _connections(live)
    yield from _quotas(live)
    yield _listeners(live)


def _requests(live: LiveReports) -> Section:
    report = live.report("requests")
    rows = [
        {
            **row,
            "versions_text": _ranges(row["versions"]),
            "errors_text": ", ".join(f"{code} {count:,}" for code, count in row["errors_by_code"].items()) or None,
        }
        for row in report["rows"]
    ]
    minute = [{"api": row["api"], "requests": row["last_minute"]} for row in rows]
    return live.section(
        "requests",
        "Requests",
        {**report, "rows": rows},
        [
            Column(name="api", title="API"),
            Column(name="versions_text", title="versions"),
            Column(name="count", kind=_NUMBER, help="Requests since the start"),
            Column(name="rate", title="a second", kind=_NUMBER, help="The rate of the last minute"),
            Column(name="waiting", kind=_NUMBER, help="Requests whose response is not ready"),
            Column(name="local_mean_ms", title="local ms", kind=_NUMBER, help="Mean time of the handler"),
            Column(name="total_mean_ms", title="total ms", kind=_NUMBER, help="Mean time until the response is ready"),
            Column(name="total_p99_ms", title="p99 ms", kind=_NUMBER, help="Of the last 1,024 total times"),
            Column(name="total_max_ms", title="longest ms", kind=_NUMBER),
            Column(name="throttled", kind=_NUMBER, help="Responses after which the client was throttled"),
            Column(name="errors_text", title="errors", help="Requests that were refused as a whole, by error code"),
            Column(name="bytes_in", title="received", kind=Kind.BYTES),
            Column(name="bytes_out", title="sent", kind=Kind.BYTES),
        ],
        text="Requests since these pages began to count, at the start of the broker. The bars are the requests of the"
        " last minute. The local time is that of the handler; the rest of the total time is a wait, for replicas, for"
        " new records or for a thread. Requests do not queue.",
        empty="No request has come yet.",
        picture=bars(minute, title="Requests of the last minute by API", name="api", value="requests"),
    )


def _connections(live: LiveReports) -> Section:
    report, now_ms = live.report("connections"), live.request.now_ms
    rows = [{**row, "open_ms": max(0, now_ms - row["opened_ms"])} for row in report["rows"]]
    return live.section(
        "connections",
        "Connections",
        {**report, "rows": rows},
        [
            Column(name="client", kind=Kind.CODE),
            Column(name="client_id", kind=Kind.CODE),
            Column(name="principal"),
            Column(name="listener"),
            Column(name="software"),
            Column(name="open_ms", title="open for", kind=Kind.DURATION),
            Column(name="state", help="reading: it waits for its client; working: a request is under way"),
            Column(name="last_api", title="last API"),
            Column(name="waiting_ms", title="waits for", kind=Kind.DURATION, help="The time of the request under way"),
            Column(name="idle_ms", title="idle for", kind=Kind.DURATION, help="The time since bytes were received"),
            Column(name="requests", kind=_NUMBER),
            Column(name="bytes_in", title="received", kind=Kind.BYTES),
            Column(name="bytes_out", title="sent", kind=Kind.BYTES),
        ],
        text=f"{report.get('open', 0):,} connections are open. Those with a request under way come first.",
        empty="No connection is open." if not report.get("open") else "No connection has this name.",
    )


def _quotas(live: LiveReports) -> Iterator[Section]:
    throttled, quotas = live.report("throttled"), live.report("quotas")
    if quotas["total"] or throttled["total"]:
        yield live.section(
            "throttled",
            "Quotas in use",
            throttled,
            [
                Column(name="quota"),
                Column(name="user", kind=Kind.CODE),
                Column(name="client_id", kind=Kind.CODE),
                Column(name="usage", kind=_NUMBER, help="The rate of the last windows; of changes, the tokens left"),
                Column(name="limit", kind=_NUMBER),
                Column(name="mean_throttle_ms", title="mean throttle time, ms", kind=_NUMBER),
                Column(name="longest_throttle_ms", title="longest throttle time, ms", kind=_NUMBER),
            ],
            text="Clients that a quota applies to. Throttle times are those of the last 30 to 60 seconds; the clients"
            " with the longest ones come first.",
            empty="No client with a quota has sent a request.",
        )
        yield live.section(
            "quotas",
            "Quotas in force",
            quotas,
            [Column(name="entity"), Column(name="quota"), Column(name="limit", kind=_NUMBER)],
            empty="No quota has this name.",
        )
    replication = throttled.get("replication", [])
    if replication:
        yield live.section(
            "replication_quotas",
            "Throttles of replication",
            {"rows": replication},
            [
                Column(name="side"),
                Column(name="rate", title="bytes a second", kind=_NUMBER),
                Column(name="limit", kind=_NUMBER),
                Column(name="is_exceeded", title="exceeded"),
            ],
        )


def _listeners(live: LiveReports) -> Section:
    return live.section(
        "listeners",
        "Listeners",
        live.report("listeners"),
        [
            Column(name="listener"),
            Column(name="address", kind=Kind.CODE),
            Column(name="protocol"),
            Column(name="connections", kind=_NUMBER, link=lambda _row: "#connections"),
            Column(name="accepted", kind=_NUMBER),
            Column(name="rejected", kind=_NUMBER, help="Closed unserved: too many or too fast"),
            Column(name="authenticated", kind=_NUMBER),
            Column(name="failed_authentications", kind=_NUMBER),
            Column(name="request_bytes", title="requests in memory", kind=Kind.BYTES),
        ],
    )


def _ranges(versions: list[int]) -> str:
    """Return versions as text: ``3, 7-9``."""
    parts: list[list[int]] = []
    for version in versions:
        if parts and parts[-1][-1] == version - 1:
            parts[-1].append(version)
        else:
            parts.append([version])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
