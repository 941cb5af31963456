"""A partition over the wire compared with its model, a list.

The rules produce, fetch and delete records, list offsets and restart the broker.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from log_maker import BASE_TIME
from server.data.data_home import DataHome, data_home
from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import Record, TimestampType
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.record.attributes import GZIP, LZ4, NONE, SNAPPY, ZSTD
from tidelog.record.build import build_batch
from tidelog.record.decode import decode_chunk
from tidelog.record.rows import iter_records

LATEST, EARLIEST = -1, -2
EVERYTHING = 1 << 20


class LogMachine(RuleBasedStateMachine):
    """``records`` contains value and timestamp by offset. Records below ``start`` are deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.resources = ExitStack()
        self.records: list[tuple[bytes, int]] = []
        self.start = 0

    @initialize(segment_bytes=st.sampled_from(["300", "1048576"]))
    def create(self, segment_bytes: str) -> None:
        directory = self.resources.enter_context(tempfile.TemporaryDirectory())
        self.data: DataHome = self.resources.enter_context(data_home(Path(directory)))
        self.data.create(index_interval_bytes="100", internal_segment_bytes=segment_bytes)
        for values in ([b"a", b"b", b"c"], [b"d"], [b"e", b"f"]):
            self.produce(values, NONE, acks=-1, later_ms=len(values))

    def teardown(self) -> None:
        self.resources.close()

    @rule(
        values=st.lists(st.binary(max_size=30), min_size=1, max_size=8),
        codec=st.sampled_from([NONE, NONE, GZIP, SNAPPY, LZ4, ZSTD]),
        acks=st.sampled_from([-1, 1]),
        later_ms=st.integers(0, 1000),
    )
    def produce(self, values: list[bytes], codec: int, acks: int, later_ms: int) -> None:
        timestamp = BASE_TIME + later_ms
        batch = build_batch([Record(0, timestamp, TimestampType.CREATE, None, value) for value in values], codec=codec)
        answer = self.data.produce(bytes(batch), acks=acks)
        assert (answer.error_code, answer.base_offset) == (0, len(self.records))
        self.records += [(value, timestamp) for value in values]

    @rule(data=st.data(), max_bytes=st.sampled_from([1, 150, EVERYTHING]))
    def fetch(self, data: st.DataObject, max_bytes: int) -> None:
        for offset in data.draw(st.sets(st.integers(self.start, len(self.records)), min_size=1)):
            self.check_fetch(offset, max_bytes)

    def check_fetch(self, offset: int, max_bytes: int) -> None:
        answer = self.data.fetch(offset=offset, max_bytes=max_bytes)
        assert (answer.error_code, answer.high_watermark) == (0, len(self.records))
        assert answer.log_start_offset == self.start
        found = {at: record for at, record in decoded(answer.records).items() if at >= offset}
        assert found == {at: self.records[at] for at in range(offset, offset + len(found))}
        assert bool(found) == (offset < len(self.records))

    @rule(beyond=st.integers(1, 3))
    def fetch_beyond(self, beyond: int) -> None:
        for offset in (self.start - beyond, len(self.records) + beyond):
            assert self.data.fetch(offset=offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    @rule(at_ms=st.integers(BASE_TIME - 1, BASE_TIME + 1001))
    def list_by_time(self, at_ms: int) -> None:
        later = [at for at in range(self.start, len(self.records)) if self.records[at][1] >= at_ms]
        assert self.list_offset(at_ms) == (later[0] if later else -1)

    @rule()
    def list_ends(self) -> None:
        assert (self.list_offset(EARLIEST), self.list_offset(LATEST)) == (self.start, len(self.records))

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, len(self.records)))
        partition = {"partition_index": 0, "offset": self.start}
        topics = [{"name": "t", "partitions": [partition]}]
        response = self.data.client.call(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=1000)
        answer = response.topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (0, self.start)

    @precondition(lambda self: self.records)
    @rule()
    def restart(self) -> None:
        self.data.home.restart()
        self.data.client.close()
        self.data.client = self.data.home.client()

    def list_offset(self, timestamp: int) -> int:
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
        response = self.data.client.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=topics)
        answer = response.topics[0].partitions[0]
        assert answer.error_code == 0
        offset: int = answer.offset
        return offset


def decoded(data: bytes) -> dict[int, tuple[bytes, int]]:
    """Return value and timestamp by offset, without an incomplete batch at the end."""
    decoder = ColumnDecoder()
    table = scan_batches(data)
    decode_chunk(data, table, decoder)
    return {record.offset: (record.value or b"", record.timestamp) for record in iter_records(decoder.finish())}


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=6, stateful_step_count=20, deadline=None)
