"""The stream reader for PySpark 4.2 and newer, where Spark passes the start and the limit of a batch.

Only one of Spark's limits counts: ``ReadAllAvailable`` means ``Trigger.Once`` if the options have limits, and reads
everything. Otherwise the options decide, because they can express more than Spark's classes. Spark then passes the
result of ``getDefaultReadLimit``. Importing this module fails before 4.2.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.spark.stream.stream_offsets import from_json, to_json
from tidelog.spark.stream.stream_reader import LogStreamReader
from tidelog.spark.worker import short_errors


class AdmittingStreamReader(LogStreamReader, SupportsTriggerAvailableNow):
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        limits = self.options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    @short_errors
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        everything = isinstance(limit, ReadAllAvailable)
        return to_json(self.progress.next_end(from_json(start), is_limited=not everything))

    @short_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.progress.stop_at_present()

    @short_errors
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the offsets available at the last trigger. Compared with the batch end, they give the query's lag."""
        latest = self.progress.latest
        return None if latest is None else to_json(latest)
