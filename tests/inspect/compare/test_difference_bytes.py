"""The bytes around the first difference of two batches, in lines."""

from __future__ import annotations

from pathlib import Path

from cluster_maker import ClusterMaker, MadeReplica, records
from log_maker import batch
from tidelog.inspect.compare import Difference, compare_cluster, read_broker_directories
from tidelog.inspect.compare.difference_bytes import LINE_BYTES, ByteLine, difference_bytes
from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL

T0 = TopicPartition("t", 0)


def found(root: Path, ours: list[bytes], theirs: list[bytes]) -> Difference:
    maker = ClusterMaker(root)
    for node, batches in ((1, ours), (2, theirs)):
        maker.add(node, t_0=MadeReplica(segments={0: batches}))
    (compared,) = compare_cluster(LOCAL, read_broker_directories(LOCAL, maker.paths.values()), [T0], {})
    (difference,) = (one.difference for one in compared.replicas if one.difference is not None)
    return difference


def test_the_lines_around_a_byte_in_the_records(tmp_path: Path) -> None:
    whole = [records(0), batch(10, [b"x" * 5000])]
    broken = bytearray(whole[1])
    broken[3000] ^= 1
    made = difference_bytes(LOCAL, found(tmp_path, whole, [whole[0], bytes(broken)]))
    assert made.byte == 3000
    assert [line.position for line in made.lines] == [16 * number for number in range(183, 192)]
    for line in made.lines:
        at = line.position
        sides = sorted([bytes(line.reference), bytes(line.replica)])
        assert sides == sorted([whole[1][at : at + 16], bytes(broken)[at : at + 16]])
        assert line.different == (frozenset({3000 - at}) if at <= 3000 < at + 16 else frozenset())


def test_batches_with_different_headers_and_sizes(tmp_path: Path) -> None:
    ours, theirs = records(10), records(10, count=4, epoch=3)
    difference = found(tmp_path, [records(0), ours], [records(0), theirs])
    made = difference_bytes(LOCAL, difference)
    expected = next(at for at in range(len(ours)) if ours[at] != theirs[at])
    assert made.byte == expected
    assert made.lines[0].position == 0
    assert b"".join(line.reference for line in made.lines) in (
        ours[: 16 * len(made.lines)],
        theirs[: 16 * len(made.lines)],
    )


def test_a_byte_after_the_first_piece_is_found(tmp_path: Path) -> None:
    ours = [records(0), batch(10, [b"x" * 200_000])]
    theirs = [records(0), batch(10, [b"x" * 199_999 + b"y"])]
    difference = found(tmp_path, ours, theirs)
    made = difference_bytes(LOCAL, difference)
    assert made.byte == next(at for at in range(len(ours[1])) if ours[1][at] != theirs[1][at])
    assert len(made.lines) <= 9


def test_a_batch_that_only_one_replica_has(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    gap = [records(0), records(20)]
    maker.add(1, t_0=MadeReplica(segments={0: [records(0), records(10), records(20)]}))
    maker.add(2, t_0=MadeReplica(segments={0: gap}))
    (compared,) = compare_cluster(LOCAL, read_broker_directories(LOCAL, maker.paths.values()), [T0], {})
    (difference,) = (one.difference for one in compared.replicas if one.difference is not None)
    assert difference.offset == 10
    assert difference_bytes(LOCAL, difference).lines


def test_a_side_that_is_missing_has_no_bytes(tmp_path: Path) -> None:
    difference = found(tmp_path, [records(0), records(10)], [records(0), records(10, epoch=2)])
    alone = Difference(kind=difference.kind, offset=10, left=difference.left)
    made = difference_bytes(LOCAL, alone)
    assert made.byte is None
    assert all(line.replica == b"" and line.reference for line in made.lines)
    assert len(made.lines) == 5


def test_the_positions_that_differ_in_a_line() -> None:
    line = ByteLine(position=0, reference=b"abcd", replica=b"abXdE")
    assert line.different == {2, 4}
    assert LINE_BYTES == 16
