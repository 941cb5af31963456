"""A sentence that says where and why a read ends: the rule of ``LogView``'s table for one directory."""

from __future__ import annotations

from tidelog.model import Isolation
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState
from tidelog.storage.log.view.log_view import Until

_CONDITIONS = {
    DirectoryCondition.CLEAN: "its last shutdown was clean",
    DirectoryCondition.UNCLEAN: "its last shutdown was unclean",
}


def read_end(
    state: DirectoryState, isolation: Isolation = Isolation.READ_UNCOMMITTED, until: Until | None = None
) -> str:
    """Return the sentence, such as ``/data: read up to the high watermark in its checkpoint (process 7 holds it)``."""
    if state.condition is DirectoryCondition.HELD:
        why = f"process {state.holder} holds it"
    else:
        why = f"no process holds it, {_CONDITIONS[state.condition]}"
    if until is None:
        until = Until.HIGH_WATERMARK if state.condition is DirectoryCondition.HELD else Until.LOG_END
    end = {
        Until.LOG_END: "the last valid batch",
        Until.HIGH_WATERMARK: "the high watermark in its checkpoint",
        Until.CHECKPOINT: "the recovery point in its checkpoint",
    }[until]
    if isolation is Isolation.READ_COMMITTED:
        end = f"the last stable offset below {end}, without aborted records"
    return f"{state.path}: read up to {end} ({why})"
