"""The reading of a Schema Registry's topic ``_schemas`` from its log. Reads only. Thread rule: one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.inspect.avro.registry_log import MOST_TEXT_BYTES, RegistryLog
from tidelog.inspect.bounded_rows import BoundedRows, ByteBudget, search_next
from tidelog.inspect.record_scan import FoundRecord, RecordScan, ScanRequest
from tidelog.storage.log.view.log_view import LogView

_LOG_BYTES: Final = 1024 * 1024 * 1024


def read_registry_log(view: LogView, advance: Callable[[int], None]) -> RegistryLog:
    """Replay a log of the topic ``_schemas``. Damaged bytes are passed over. ``advance`` receives bytes."""
    log = RegistryLog()
    start, end = view.log_start, view.log_end
    budget = ByteBudget(left=_LOG_BYTES)
    request = ScanRequest(start=start, end=end, keep_bytes=0, whole_bytes=2 * MOST_TEXT_BYTES)
    before = budget.left
    for found in RecordScan(BoundedRows(view, start, end, budget, find_next=search_next(view)), request, budget):
        advance(before - budget.left)
        before = budget.left
        if isinstance(found, FoundRecord):
            log.apply(None if found.key is None else found.key.data, None if found.value is None else found.value.data)
    return log
