"""The write of a leader's checked batches to a follower's log. No lock here: the caller holds it."""

from __future__ import annotations

from tidelog.kernel import BatchTable
from tidelog.storage.log.append.batch_write import fits_fast_path, write_set, write_single
from tidelog.storage.log.append.producer_check import Appender
from tidelog.storage.log.state.log_state import LogState
from tidelog.storage.producer import AppendOrigin

_APPENDER = Appender(AppendOrigin.REPLICATION)


def write_fetched(state: LogState, data: memoryview, table: BatchTable, now_ms: int) -> None:
    """Append batches unchanged. A single v2 batch at the log end, the usual case, takes the faster path.

    Raise the errors of ``write_set``, with nothing written.
    """
    if len(table) == 1 and table.magic[0] == 2 and table.base_offset[0] == state.offsets.log_end.message_offset:
        start, last, max_timestamp = int(table.position[0]), table.summary.last_offset, int(table.max_timestamp[0])
        batch = data[start : start + int(table.size[0])]
        if fits_fast_path(state, batch, last, max_timestamp, table.summary.leader_epoch, now_ms):
            write_single(state, batch, last, max_timestamp, _APPENDER)
            return
    write_set(state, data, table, _APPENDER, now_ms)
