"""The state of share groups: snapshots, updates, tombstones and undecodable records."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from log_maker import batch, write_segment
from tidelog.inspect.share_state import ShareLog, StateBatch, combine_batches, read_share_logs
from tidelog.record.internal_records.frames import encode_key, encode_value
from tidelog.record.internal_records.share_tables import SHARE_TYPES
from tidelog.storage.fs import LOCAL

TOPIC_ID = "A" * 22


def record(at: int, number: int, fields: dict[str, Any] | None, *, group: str = "g") -> bytes:
    key = encode_key(SHARE_TYPES, number, {"groupId": group, "topicId": TOPIC_ID, "partition": 3})
    return batch(at, [None if fields is None else encode_value(SHARE_TYPES, number, fields, 0)], key=key)


def snapshot(at: int, start: int, *batches: StateBatch, complete: int = -1, group: str = "g") -> bytes:
    fields = {"snapshotEpoch": 0, "stateEpoch": 2, "leaderEpoch": 0, "startOffset": start, "createTimestamp": 1}
    fields |= {"writeTimestamp": 9, "deliveryCompleteCount": complete}
    return record(at, 0, {**fields, "stateBatches": listed(batches)}, group=group)


def update(at: int, start: int, *batches: StateBatch, complete: int = -1) -> bytes:
    fields = {"snapshotEpoch": 0, "leaderEpoch": 1, "startOffset": start, "deliveryCompleteCount": complete}
    return record(at, 1, {**fields, "stateBatches": listed(batches)})


def listed(batches: tuple[StateBatch, ...]) -> list[dict[str, int]]:
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    return [dict(zip(names, one, strict=True)) for one in batches]


def read(root: Path, *batches: bytes) -> ShareLog:
    write_segment(root / "__share_group_state-0", 0, batches)
    (found,) = read_share_logs(LOCAL, root)
    return found


def test_updates_change_the_snapshot(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        snapshot(0, 10, StateBatch(10, 19, 0, 1), complete=0),
        update(1, -1, StateBatch(12, 14, 2, 1), complete=3),
        update(2, 11, StateBatch(15, 30, 4, 5), complete=19),
    )
    (state,) = found.states.values()
    assert (state.start_offset, state.complete, state.source_offset) == (11, 19, 2)
    assert (state.state_epoch, state.leader_epoch, state.written_ms) == (2, 1, 9)
    assert state.batches == (StateBatch(11, 11, 0, 1), StateBatch(12, 14, 2, 1), StateBatch(15, 30, 4, 5))
    assert state.backlog(40) == 40 - 11 - 19
    assert state.backlog(5) == 0


def test_a_snapshot_replaces_and_a_tombstone_removes(tmp_path: Path) -> None:
    replaced = read(tmp_path, snapshot(0, 1, StateBatch(1, 9, 2, 1)), snapshot(1, 5))
    (state,) = replaced.states.values()
    assert (state.start_offset, state.batches, state.backlog(10)) == (5, (), 5)
    assert read(tmp_path, snapshot(0, 1), record(1, 0, None)).states == {}


def test_without_a_count_the_batches_tell_the_backlog(tmp_path: Path) -> None:
    (state,) = read(tmp_path, snapshot(0, 0, StateBatch(0, 4, 2, 1), StateBatch(5, 6, 0, 2))).states.values()
    assert (state.complete, state.backlog(10)) == (None, 5)


def test_a_group_that_has_not_begun(tmp_path: Path) -> None:
    (state,) = read(tmp_path, snapshot(0, -1)).states.values()
    assert (state.start_offset, state.backlog(10)) == (None, None)


def test_undecodable_records_are_counted(tmp_path: Path) -> None:
    cut = batch(1, [b"\0\0\1"], key=encode_key(SHARE_TYPES, 0, {"groupId": "x", "topicId": TOPIC_ID, "partition": 0}))
    found = read(tmp_path, snapshot(0, 1), cut, batch(2, [b"\0\0"], key=b"\0\x09"), batch(3, [b"x"], key=b"\0"))
    assert (len(found.states), found.undecoded, found.error) == (1, 3, None)


RANGES = st.tuples(st.integers(0, 30), st.integers(-2, 8), st.sampled_from([0, 2, 4]), st.integers(1, 2)).map(
    lambda made: StateBatch(made[0], made[0] + made[1], made[2], made[3])
)


@given(updates=st.lists(st.lists(RANGES, max_size=4), max_size=5), start=st.integers(0, 20))
def test_combined_batches_are_those_of_each_offset(updates: list[list[StateBatch]], start: int) -> None:
    by_offset: dict[int, tuple[int, int]] = {}
    combined: tuple[StateBatch, ...] = ()
    for one in updates:
        combined = combine_batches(combined, one, start)
        for part in one:
            by_offset |= dict.fromkeys(range(part.first, part.last + 1), (part.state, part.deliveries))
    found = {at: (part.state, part.deliveries) for part in combined for at in range(part.first, part.last + 1)}
    assert found == {at: state for at, state in by_offset.items() if at >= start}
    assert all(left.last < right.first for left, right in pairwise(combined))
