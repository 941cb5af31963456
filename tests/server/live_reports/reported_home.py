"""A broker in this process whose requests are measured, and its reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from server.harness import BrokerHome
from tidelog.server.broker import Broker as Server
from tidelog.server.live_reports.reported_node import ReportedNode, Wanted
from tidelog.server.live_reports.reports import make_report

STARTED_MS = 1_700_000_000_000


class ReportedHome(BrokerHome):
    reported: ReportedNode

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """Take settings as Kafka's keys with ``_`` for ``.``."""
        super().__init__(directory, manual_time=False, **(settings or {}))

    def report(self, name: str, /, **wanted: Any) -> dict[str, Any]:
        """Make a report on the broker's loop."""
        return self.run(lambda: make_report(self.reported, name, Wanted(**wanted)))

    def rows(self, name: str, /, **wanted: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.report(name, **wanted)["rows"]
        return rows

    def _made(self) -> Server:
        server = super()._made()
        self.reported = ReportedNode(node=server, started_ms=STARTED_MS)
        assert server.service is not None
        server.service = self.reported.times.measured(server.service)
        return server
