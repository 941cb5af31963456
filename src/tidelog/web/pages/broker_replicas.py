"""The sections of the broker's page about its replicas: in-sync replicas, fetchers and purgatories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidelog.inspect.durations import duration_text
from tidelog.web.page import Column, Kind, Section
from tidelog.web.pages.broker_section import LiveReports, bars, partition_name
from tidelog.web.pages.row_links import topic_column

_NUMBER = Kind.NUMBER


def replica_sections(live: LiveReports) -> Iterator[Section]:
    yield _led(live)
    fetchers = live.report("fetchers")
    if fetchers["rows"] or fetchers.get("failed"):
        yield _fetchers(live, fetchers)
        yield _followed(live, fetchers["partitions"])
    yield _purgatories(live)


def _led(live: LiveReports) -> Section:
    report = live.report("partitions")
    rows = [{**row, "followers_text": "; ".join(map(_follower_text, row["followers"]))} for row in report["rows"]]
    lags = [{"partition": partition_name(row), "lag": row["largest_lag"]} for row in rows]
    return live.section(
        "followers",
        "Followers of led partitions",
        {**report, "rows": rows},
        [
            topic_column(),
            Column(name="partition", kind=_NUMBER, link=live.log_link),
            Column(name="leader_epoch", kind=_NUMBER),
            Column(name="replicas"),
            Column(name="isr", title="in sync"),
            Column(name="min_isr", title="minimum", kind=_NUMBER, help="min.insync.replicas"),
            Column(name="proposed_isr", title="proposed", help="Sent to the controller, without a response yet"),
            Column(name="high_watermark", kind=_NUMBER),
            Column(name="log_end", kind=_NUMBER),
            Column(name="largest_lag", title="lag", kind=_NUMBER, help="Offsets that the last follower lacks"),
            Column(name="longest_behind_ms", title="behind for", kind=Kind.DURATION),
            Column(name="followers_text", title="followers"),
        ],
        text="Each led partition with followers: under-replicated ones first, then by lag. A follower that has not"
        " been caught up for replica.lag.time.max.ms leaves the in-sync replicas.",
        empty="No partition with followers is led by this broker, or none has this name.",
        picture=bars(lags, title="The largest lag of a follower", name="partition", value="lag"),
    )


def _follower_text(row: Mapping[str, Any]) -> str:
    state = "" if row["in_sync"] else " (out of sync)"
    if row["lag"] is None:
        return f"broker {row['broker']}{state}: no fetch yet"
    if not row["lag"]:
        return f"broker {row['broker']}{state}: caught up"
    behind = "" if row["behind_ms"] is None else f", for {duration_text(row['behind_ms'])}"
    return f"broker {row['broker']}{state}: {row['lag']:,} behind{behind}"


def _fetchers(live: LiveReports, report: Any) -> Section:
    rows = [
        {**row, "phases_text": ", ".join(f"{count:,} {phase}" for phase, count in sorted(row["phases"].items()))}
        for row in report["rows"]
    ]
    text = "A fetcher copies partitions from one leader. The lag counts to the leader's high watermark."
    failed = report.get("failed", [])
    if failed:
        shown = ", ".join(failed[:10]) + (" and others" if len(failed) > 10 else "")
        text += f" Not fetched because of an error, until the next leader epoch: {shown}."
    return live.section(
        "fetchers",
        "Fetchers",
        {**report, "rows": rows},
        [
            Column(name="leader", kind=_NUMBER),
            Column(name="fetcher", kind=_NUMBER),
            Column(name="state", help="failing: requests fail and are tried again; dead: ended by a defect"),
            Column(name="partitions", kind=_NUMBER),
            Column(name="phases_text", title="phases of partitions"),
            Column(name="lag", kind=_NUMBER),
            Column(name="largest_lag", kind=_NUMBER),
            Column(name="throttled", kind=_NUMBER),
            Column(name="failures", kind=_NUMBER, help="Failed requests since the last response"),
            Column(name="requests_rate", title="requests a second", kind=_NUMBER),
            Column(name="bytes_rate", title="bytes a second", kind=_NUMBER),
        ],
        text=text,
    )


def _followed(live: LiveReports, report: Any) -> Section:
    lags = [{"partition": partition_name(row), "lag": row["lag"]} for row in report["rows"]]
    return live.section(
        "followed",
        "Followed partitions",
        report,
        [
            topic_column(),
            Column(name="partition", kind=_NUMBER, link=live.log_link),
            Column(name="leader", kind=_NUMBER),
            Column(name="fetcher", kind=_NUMBER),
            Column(name="phase"),
            Column(name="lag", kind=_NUMBER),
            Column(name="log_end", kind=_NUMBER),
            Column(name="is_throttled", title="throttled"),
            Column(name="ready_in_ms", title="waits for", kind=Kind.DURATION, help="The rest of a back-off"),
        ],
        text="The partitions with the largest lag first.",
        empty="No followed partition has this name.",
        picture=bars(lags, title="Lag of followed partitions", name="partition", value="lag"),
    )


def _purgatories(live: LiveReports) -> Section:
    report = live.report("purgatories")
    return live.section(
        "purgatories",
        "Purgatories",
        report,
        [
            topic_column(),
            Column(name="partition", kind=_NUMBER, link=live.log_link),
            Column(name="replications", kind=_NUMBER, help="acks=all, and writes of coordinators"),
            Column(name="others", kind=_NUMBER, help="Fetches, record deletions, and transactions"),
        ],
        text=f"Delayed operations: {report.get('replications', 0):,} wait for replicas, and {report.get('others', 0):,}"
        " for new records or another change. A fetch of several partitions counts in each of them.",
        empty="Nothing is delayed.",
    )
