"""The running broker at this moment, from its own memory.

The broker makes bounded reports on its event loop. It chooses the rows, and the page sorts the chosen ones. The page
asks for all reports at once, and loads itself again every few seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidelog.web.broker_link import BrokerLinkError
from tidelog.web.page import Fact, FormField, Kind, Link, Page, Section
from tidelog.web.pages.broker_clients import client_sections
from tidelog.web.pages.broker_groups import group_sections
from tidelog.web.pages.broker_logs import log_sections
from tidelog.web.pages.broker_replicas import replica_sections
from tidelog.web.pages.broker_section import LiveReports
from tidelog.web.request import PageRequest
from tidelog.web.sources import NotFoundError

REPORTS = (
    "node",
    "requests",
    "connections",
    "throttled",
    "quotas",
    "listeners",
    "groups",
    "partitions",
    "fetchers",
    "purgatories",
    "log_dirs",
    "cleaner",
    "tasks",
    "metrics",
)
_MOST_ROWS = 200
_REFRESH_S = 2
_LONGEST_REFRESH_S = 3600


def broker_page(request: PageRequest) -> Page:
    """Return the page of the running broker. Raise NotFoundError if these pages are not those of one."""
    if request.broker is None:
        raise NotFoundError(
            "these pages are not those of a running broker: start it with tidelog serve --web, or print the page of a"
            " running inspector with tidelog inspect http://HOST:PORT --page /broker"
        )
    name = request.query.text("name")
    refresh_s = request.query.integer("refresh", _REFRESH_S, maximum=_LONGEST_REFRESH_S)
    form = [FormField(name="name", title="Name", value=name, hint="of a client, group or topic")]
    links = [_refresh_link(request, refresh_s)]
    try:
        reports = request.broker.reports(REPORTS, name=name, most=_MOST_ROWS)
    except BrokerLinkError as error:
        note = f"The broker cannot be asked at this moment: {error.message}."
        return Page(title="Broker", form=form, links=links, notes=[note], refresh_seconds=refresh_s or None)
    live, node = LiveReports(request, reports), reports["node"]
    return Page(
        title=f"{_kind(node)} {node['node_id']}",
        facts=_facts(node, reports["connections"]),
        form=form,
        links=links,
        notes=list(_notes(reports)),
        sections=list(_sections(live, node)),
        refresh_seconds=refresh_s or None,
    )


def _sections(live: LiveReports, node: Any) -> Iterable[Section]:
    yield from client_sections(live)
    if "broker" in node["roles"]:
        yield from group_sections(live)
        yield from replica_sections(live)
    yield from log_sections(live)


def _refresh_link(request: PageRequest, refresh_s: int) -> Link:
    if refresh_s:
        return Link("Stop refreshing", request.query.with_changes({"refresh": "0"}))
    return Link(f"Refresh every {_REFRESH_S} s", request.query.with_changes({"refresh": None}))


def _kind(node: Any) -> str:
    return "Broker" if "broker" in node["roles"] else "Controller"


def _facts(node: Any, connections: Any) -> list[Fact]:
    number = Kind.NUMBER
    return [
        Fact(name="state", value=node["state"].lower().replace("_", " ")),
        Fact(name="roles", value=node["roles"]),
        Fact(name="cluster_id", title="cluster", value=node["cluster_id"], kind=Kind.CODE),
        Fact(name="metadata", value=node["metadata"], help="Where the cluster metadata is kept"),
        Fact(name="controller_id", title="active controller", value=node["controller_id"], kind=number),
        Fact(name="controller_epoch", value=node["controller_epoch"], kind=number),
        Fact(name="broker_epoch", value=node["broker_epoch"], kind=number, help="The epoch of its registration"),
        Fact(name="metadata_offset", value=node["metadata_offset"], kind=number, help="The last record in its image"),
        Fact(name="brokers", value=node["brokers"], kind=number),
        Fact(name="fenced_brokers", value=node["fenced_brokers"], kind=number),
        Fact(name="connections", value=connections["open"], kind=number),
        Fact(name="fetch_sessions", value=node["fetch_sessions"], kind=number),
        Fact(name="started_ms", title="started", value=node["started_ms"], kind=Kind.TIME),
        Fact(name="uptime_ms", title="up for", value=node["uptime_ms"], kind=Kind.DURATION),
        Fact(name="memory_bytes", title="memory", value=node["memory_bytes"], kind=Kind.BYTES, help="Resident"),
        Fact(name="cpu_ms", title="CPU time", value=node["cpu_ms"], kind=Kind.DURATION),
        Fact(name="threads", value=node["threads"], kind=number),
        Fact(name="process", value=node["process"], kind=Kind.CODE),
        Fact(name="version", value=node["version"]),
    ]


def _notes(reports: Any) -> Iterator[str]:
    for name, report in reports.items():
        if not report["is_complete"]:
            yield (
                f"The report {name} was ended after a tenth of a second, to leave the broker its time: some rows are"
                " missing, and sums are too small. A name selects fewer."
            )
    counts = reports["partitions"].get("counts", {})
    for key, text in (
        ("offline", "replicas here are offline"),
        ("under_min_isr", "led partitions have fewer in-sync replicas than min.insync.replicas: acks=all fails"),
        ("under_replicated", "led partitions are under-replicated"),
    ):
        if counts.get(key):
            yield f"{counts[key]:,} {text}."
    for row in reports["log_dirs"]["rows"]:
        if row.get("error"):
            yield f"The log directory {row['path']} is offline: {row['error']}."
