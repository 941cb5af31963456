"""The first difference between two replicas: its offset, its place in both files, and the fields that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_maker import MadeReplica, records, write_replica
from log_maker import batch, marker
from tidelog.inspect.compare.difference import Difference, DifferenceKind
from tidelog.inspect.compare.log_difference import first_log_difference
from tidelog.model import CorruptRecordError
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView

SAME = [records(0), records(10), marker(20, committed=True)]


def difference(
    tmp_path: Path, left: dict[int, list[bytes]], right: dict[int, list[bytes]], end: int
) -> Difference | None:
    views = []
    for number, segments in enumerate((left, right)):
        directory = tmp_path / str(number) / "t-0"
        write_replica(directory, MadeReplica(segments=segments))
        (directory.parent / ".kafka_cleanshutdown").touch()
        views.append(LogView(LOCAL, directory))
    return first_log_difference(views[0], views[1], 0, end)


def test_replicas_may_roll_at_different_offsets(tmp_path: Path) -> None:
    """Segment files and positions differ, batches do not."""
    assert difference(tmp_path, {0: SAME}, {0: SAME[:1], 10: SAME[1:]}, 21) is None


@pytest.mark.parametrize(
    ("other", "kind", "offset", "fields"),
    [
        (records(10, epoch=1), DifferenceKind.HEADER, 10, ("leader_epoch",)),
        (records(10, tag="w"), DifferenceKind.HEADER, 10, ("crc",)),
        (records(10, 5), DifferenceKind.HEADER, 10, ("last_offset", "max_timestamp", "size", "record_count", "crc")),
        (records(11, 9), DifferenceKind.HEADER, 10, None),
        (batch(10, [b"v-%d" % n for n in range(10, 20)], producer_id=5), DifferenceKind.HEADER, 10, None),
    ],
)
def test_a_header_that_differs(
    tmp_path: Path, other: bytes, kind: DifferenceKind, offset: int, fields: tuple[str, ...] | None
) -> None:
    found = difference(tmp_path, {0: SAME}, {0: [SAME[0]], 10: [other, SAME[2]]}, 21)
    assert found is not None
    assert (found.kind, found.offset) == (kind, offset)
    if fields is not None:
        assert sorted(found.fields) == sorted(fields)
    assert found.left is not None
    assert found.right is not None
    assert (found.left.path.name, found.left.row.position) == (f"{0:020}.log", len(SAME[0]))
    assert (found.right.path.name, found.right.row.position) == (f"{10:020}.log", 0)


def test_bytes_that_differ_behind_equal_headers(tmp_path: Path) -> None:
    """The CRC shows which of the two is damaged."""
    damaged = bytearray(SAME[1])
    damaged[80] ^= 4
    found = difference(tmp_path, {0: SAME}, {0: [SAME[0], bytes(damaged), SAME[2]]}, 21)
    assert found is not None
    assert (found.kind, found.offset, found.byte) == (DifferenceKind.RECORDS, 10, 80)
    assert found.left is not None
    assert found.right is not None
    assert (found.left.row.crc_ok, found.right.row.crc_ok) == (True, False)


def test_a_batch_that_one_replica_lacks(tmp_path: Path) -> None:
    found = difference(tmp_path, {0: SAME}, {0: [*SAME[:2], records(25)]}, 21)
    assert found is not None
    assert (found.kind, found.offset, found.right) == (DifferenceKind.MISSING, 20, None)
    assert found.left is not None


def test_a_gap_within_one_replica(tmp_path: Path) -> None:
    found = difference(tmp_path, {0: SAME}, {0: [SAME[0], SAME[2]]}, 21)
    assert found is not None
    assert found.offset == 10
    assert "base_offset" in found.fields


def test_bytes_without_a_batch(tmp_path: Path) -> None:
    damaged = bytearray(SAME[0])
    damaged[16] = 9  # an unknown magic
    with pytest.raises(CorruptRecordError, match="magic"):
        difference(tmp_path, {0: SAME, 21: [records(21)]}, {0: [bytes(damaged), *SAME[1:]], 21: [records(21)]}, 31)
