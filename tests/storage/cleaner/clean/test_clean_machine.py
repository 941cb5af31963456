"""A clean changes nothing that a reader of last values sees or that a reloaded log knows, after any history.

Random steps append as producers in and out of transactions, with tombstones and every codec. They roll, start leader
epochs, clean with maps of a few keys, let delete horizons pass, shut down cleanly, and kill with full recovery. The
test compares before and after each clean and each reload:

- the last value of each key, where a tombstone counts as no value, with and without open transactions;
- each remaining record's offset, timestamp, key, value and headers;
- log end, last stable offset, leader epochs, producers and their open transactions. The epoch of a producer is exempt
  if only an emptied marker remains of it: the batch has the epoch, but recovery does not read it, as in Kafka.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from log_maker import CONTROL, TRANSACTIONAL, batch
from state_machines import run_machine
from storage.cleaner.clean_home import CleanHome, batches, records, some_map
from tidelog.model import Header, Isolation, Record, TimestampType
from tidelog.record.build import build_batch
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.producer import AppendOrigin

HORIZON_MS = 100
KEYS = st.integers(0, 5)
VALUES = st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=4)
"""Keys, each with True for a tombstone."""
Values = Sequence[tuple[int, bool]]


class Known(NamedTuple):
    """The facts that must stay the same."""

    uncommitted: dict[bytes, bytes]
    committed: dict[bytes, bytes]
    end_offset: int
    last_stable: int
    epochs: tuple[object, ...]
    producers: dict[int, tuple[int, int, int | None]]


class CleanMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.home = CleanHome(Path(self.directory.name) / "t-0")
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        """Data offsets of open transactions, by producer."""
        self.aborted: set[int] = set()
        self.leader_epoch = self.dirty = self.values = 0
        self.log_or_none: PartitionLog | None = None

    @initialize(
        segment_bytes=st.sampled_from([600, 1500, 6000]), interval=st.sampled_from([0, 200]), codec=st.integers(0, 4)
    )
    def begin(self, segment_bytes: int, interval: int, codec: int) -> None:
        self.codec = codec
        self.options: dict[str, Any] = {
            "segment_bytes": segment_bytes,
            "index_interval_bytes": interval,
            "delete_retention_ms": HORIZON_MS,
        }
        self.log_or_none = self.home.open(**self.options)

    @property
    def log(self) -> PartitionLog:
        assert self.log_or_none is not None
        return self.log_or_none

    def teardown(self) -> None:
        self.home.close()
        self.directory.cleanup()

    # --- steps ---

    @rule(values=VALUES)
    def append(self, values: Values) -> None:
        self._append(values)

    @rule(values=VALUES, producer=st.integers(1, 2))
    def produce(self, values: Values, producer: int) -> None:
        self._append(values, producer)

    @rule(values=VALUES, producer=st.integers(11, 13))
    def transact(self, values: Values, producer: int) -> None:
        self.open.setdefault(producer, []).extend(self._append(values, producer, transactional=True))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), committed=st.booleans(), bumped=st.booleans())
    def end(self, data: st.DataObject, committed: bool, bumped: bool) -> None:
        """End a transaction. If ``bumped``, the coordinator fences the producer with a new epoch (KIP-890)."""
        producer = data.draw(st.sampled_from(sorted(self.open)))
        if bumped:
            self.epochs[producer] = self.epochs.get(producer, 0) + 1
            self.sequences[producer] = 0
        content = batch(
            0,
            [bytes(6)],
            key=b"\0\0\0" + bytes([committed]),
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=producer,
            producer_epoch=self.epochs.get(producer, 0),
            sequence=-1,
            timestamp=self.home.clock.now,
        )
        epoch = self.leader_epoch
        self.log.append_as_leader(bytearray(content), leader_epoch=epoch, origin=AppendOrigin.COORDINATOR)
        offsets = self.open.pop(producer)
        if not committed:
            self.aborted.update(offsets)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def lead(self) -> None:
        """Start a leader epoch that later appends carry."""
        self.leader_epoch += 1

    @rule(later_ms=st.sampled_from([1, HORIZON_MS]))
    def wait(self, later_ms: int) -> None:
        self.home.clock.now += later_ms

    @rule()
    def forget_what_is_clean(self) -> None:
        self.dirty = 0

    # --- steps that must change nothing ---

    @rule(slots=st.sampled_from([2, 4, 8, 100]), chunk_bytes=st.sampled_from([200, 1 << 20]), at_once=st.booleans())
    def clean(self, slots: int, chunk_bytes: int, at_once: bool) -> None:
        before, there = self.known(), {record.offset: record for record in records(self.log)}
        end = min(self.log.offsets().last_stable.message_offset, self.log.base_offsets[-1])
        result = self.home.clean(
            self.log, min(self.dirty, end), end, offset_map=some_map(slots), chunk_bytes=chunk_bytes, at_once=at_once
        )
        assert result.next_dirty_offset >= min(self.dirty, end)
        self.dirty = result.next_dirty_offset
        assert self.known() == before
        left = records(self.log)
        assert left == [there[record.offset] for record in left]

    @rule(killed=st.booleans(), without_snapshots=st.booleans())
    def reload(self, killed: bool, without_snapshots: bool) -> None:
        before = self.known()
        if killed:
            self.log.flush()
            self.log.close_handlers()
        else:
            self.log.close()
        if killed and without_snapshots:
            for path in self.home.directory.glob("*.snapshot"):
                path.unlink()
        self.log_or_none = self.home.open(clean=not killed, **self.options)
        after = self.known()
        for producer in self.left_as_empty_markers() if killed else ():
            for known in (before, after):
                assert known.producers.pop(producer, (-1, -1, None))[1:] == (-1, None)
        assert after == before
        assert not [path for path in self.home.directory.iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")]

    # --- helpers ---

    def left_as_empty_markers(self) -> set[int]:
        rows = [row for row in batches(self.log).rows() if row.producer_id >= 0]
        return {row.producer_id for row in rows} - {
            row.producer_id for row in rows if row.record_count or not row.attributes & CONTROL
        }

    def _append(self, values: Values, producer: int = -1, *, transactional: bool = False) -> range:
        fields: dict[str, Any] = {}
        if producer >= 0:
            fields["producer_id"] = producer
            fields["producer_epoch"] = self.epochs.get(producer, 0)
            fields["base_sequence"] = self.sequences.get(producer, 0)
            self.sequences[producer] = fields["base_sequence"] + len(values)
        self.home.clock.now += 1
        made = [self._record(number, *value) for number, value in enumerate(values)]
        content = build_batch(made, codec=self.codec, transactional=transactional, **fields)
        return self.log.append_as_leader(bytearray(content), leader_epoch=self.leader_epoch).offsets

    def _record(self, number: int, key: int, is_tombstone: bool) -> Record:
        self.values += 1
        value = None if is_tombstone else b"%d" % self.values
        headers = (Header("number", b"%d" % self.values),) if self.values % 3 == 0 else ()
        timestamp = self.home.clock.now + number % 2
        return Record(number, timestamp, TimestampType.CREATE, b"%d" % key, value, headers)

    def known(self) -> Known:
        log = self.log
        log.flush()
        view = LogView(LOCAL, self.home.directory)
        committed = [
            record
            for chunk in view.columns(view.range(isolation=Isolation.READ_COMMITTED))
            for record in iter_records(chunk.columns)
        ]
        return Known(
            uncommitted=last_values([record for record in records(log) if record.offset not in self.aborted]),
            committed=last_values(committed),
            end_offset=log.end_offset,
            last_stable=log.offsets().last_stable.message_offset,
            epochs=log.epochs.entries,
            producers={
                entry.producer_id: (entry.producer_epoch, entry.last_sequence, entry.transaction_first_offset)
                for entry in log.producers.values()
            },
        )


def last_values(found: Sequence[Record]) -> dict[bytes, bytes]:
    last = {record.key: record.value for record in found}
    return {key: value for key, value in last.items() if key is not None and value is not None}


def test_some_histories() -> None:
    run_machine(CleanMachine, steps=40, examples=15)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_histories() -> None:
    run_machine(CleanMachine, steps=80, examples=1500)
