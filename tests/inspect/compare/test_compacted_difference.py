"""Replicas of a compacted log: differences that their own cleaners explain, and other differences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster_maker import MadeReplica, write_replica
from log_maker import CONTROL, TRANSACTIONAL, batch, marker
from tidelog.inspect.compare.compacted_difference import first_compacted_difference
from tidelog.inspect.compare.difference import Difference, DifferenceKind
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView


def one(offset: int, key: bytes | None, value: bytes | None, **fields: int) -> bytes:
    return batch(offset, [value], key=key, **fields)


A1, B1, A2, C1 = one(0, b"a", b"1"), one(1, b"b", b"1"), one(2, b"a", b"2"), one(3, b"c", b"1")
ALL = [A1, B1, A2, C1]


def difference(tmp_path: Path, left: Sequence[bytes], right: Sequence[bytes], end: int = 10) -> Difference | None:
    """Compare two logs after an unclean shutdown: their aborted transactions are found without an index."""
    views = []
    for number, batches in enumerate((left, right)):
        directory = tmp_path / str(number) / "t-0"
        write_replica(directory, MadeReplica(segments={0: [*batches, one(9, b"z", b"last")]}))
        views.append(LogView(LOCAL, directory))
    return first_compacted_difference(views[0], views[1], 0, end)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(ALL, ALL, id="equal"),
        pytest.param(ALL, [B1, A2, C1], id="superseded"),
        pytest.param([*ALL, one(4, b"b", b"2")], [A2, C1, one(4, b"b", b"2")], id="superseded-later"),
        pytest.param([*ALL[:3], one(3, b"b", None)], [A2], id="tombstone-and-what-it-deleted"),
        pytest.param([*ALL[:3], one(3, None, b"x")], ALL[:3], id="without-key"),
        pytest.param(
            [A1, one(1, b"b", b"x", attributes=TRANSACTIONAL, producer_id=7), marker(2, committed=False), C1],
            [A1, C1],
            id="aborted",
        ),
        pytest.param([A1, marker(1, committed=True), C1], [A1, C1], id="marker"),
    ],
)
def test_the_cleaners_work_is_no_difference(
    tmp_path: Path, left: list[bytes], right: list[bytes], swapped: bool
) -> None:
    assert difference(tmp_path, *((right, left) if swapped else (left, right))) is None


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("left", "right", "kind", "offset"),
    [
        pytest.param(ALL, [A1, A2, C1], DifferenceKind.MISSING, 1, id="latest-record-missing"),
        pytest.param(ALL, [A1, B1, one(2, b"a", b"3"), C1], DifferenceKind.RECORDS, 2, id="value"),
        pytest.param(ALL, [A1, B1, one(2, b"b", b"2"), C1], DifferenceKind.RECORDS, 2, id="key"),
        pytest.param(ALL, [A1, B1, one(2, b"a", b"2", timestamp=5), C1], DifferenceKind.RECORDS, 2, id="timestamp"),
        pytest.param(ALL, [A1, B1, one(2, b"a", b"2", epoch=1), C1], DifferenceKind.HEADER, 2, id="epoch"),
        pytest.param(ALL, [A1, B1, one(2, b"a", b"2", producer_id=3), C1], DifferenceKind.HEADER, 2, id="producer"),
        pytest.param([A1, B1, A2], [A1, A2, C1], DifferenceKind.MISSING, 1, id="a-record-on-each-side"),
    ],
)
def test_other_differences_are_found(
    tmp_path: Path, left: list[bytes], right: list[bytes], kind: DifferenceKind, offset: int, swapped: bool
) -> None:
    found = difference(tmp_path, *((right, left) if swapped else (left, right)))
    assert found is not None
    assert (found.kind, found.offset) == (kind, offset)


def test_a_missing_record_is_on_one_side(tmp_path: Path) -> None:
    found = difference(tmp_path, ALL, [A1, A2, C1])
    assert found is not None
    assert found.right is None
    assert found.left is not None
    assert (found.left.row.base_offset, found.left.row.position) == (1, len(A1))


def test_a_control_flag_is_no_excuse_for_data(tmp_path: Path) -> None:
    """A record counts as a marker only by its batch, and only on its own side."""
    hidden = one(1, b"b", b"1", attributes=TRANSACTIONAL | CONTROL)
    found = difference(tmp_path, ALL, [A1, hidden, A2, C1])
    assert found is not None
    assert (found.kind, found.offset) == (DifferenceKind.MISSING, 1)


def test_a_later_record_may_follow_the_common_range(tmp_path: Path) -> None:
    """A cleaner has seen a record that the other replica has not fetched yet."""
    later = one(4, b"b", b"2")
    assert difference(tmp_path, [A1, B1, A2, C1], [A1, A2, C1, later], end=4) is None
    found = difference(tmp_path / "other", [A1, B1, A2, C1], [A1, A2, C1, one(4, b"d", b"2")], end=4)
    assert found is not None
    assert found.offset == 1


def test_batches_that_overlap_at_the_end(tmp_path: Path) -> None:
    """The logs' last batches end at different offsets. Their common offsets are compared."""
    values = [b"x", b"y", b"z"]
    found = difference(tmp_path, [*ALL, batch(4, values, key=b"a")], [*ALL, batch(5, values, key=b"a")], end=7)
    assert found is not None
    assert (found.kind, found.offset) == (DifferenceKind.RECORDS, 5)


def test_an_aborted_record_supersedes_nothing(tmp_path: Path) -> None:
    aborted = [one(4, b"b", b"2", attributes=TRANSACTIONAL, producer_id=7), marker(5, committed=False)]
    found = difference(tmp_path, [*ALL, *aborted], [A1, A2, C1, *aborted])
    assert found is not None
    assert (found.kind, found.offset) == (DifferenceKind.MISSING, 1)
