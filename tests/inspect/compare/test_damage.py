"""A damaged byte in one replica's log: the comparison always finds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cluster_maker import ClusterMaker, MadeReplica, records, state_of
from log_maker import batch, data, marker
from memory_disk import MemoryDisk
from tidelog.inspect.compare import ComparedPartition, Placement, compare_cluster, read_broker_directories
from tidelog.kernel import scan_batches
from tidelog.model import TopicPartition

T0 = TopicPartition("t", 0)
NODES = (1, 2, 3)
FIRST = [records(0), data(10, 3), marker(13, committed=True), records(14, epoch=1)]
SECOND = [batch(24, [b"x" * 200, None], epoch=2), records(26, 4, epoch=2)]
END = 30
STATE = state_of(1, 2, 3, epoch=2)
PLACEMENT = Placement(leader=1, leader_epoch=2, replicas=NODES, isr=NODES)


def cluster(root: Path, *, is_clean: bool, is_cleaned: bool) -> ClusterMaker:
    """Write equal replicas. The third one rolled its segment earlier."""
    maker = ClusterMaker(root)
    for node in NODES:
        segments = {0: FIRST, 24: SECOND} if node < 3 else {0: FIRST[:1], 10: [*FIRST[1:], *SECOND]}
        made = MadeReplica(
            segments=segments, epochs=((0, 0), (1, 14), (2, 24)), high_watermark=END, is_cleaned=is_cleaned
        )
        maker.add(node, is_clean=is_clean, t_0=made)
    return maker


def compared(disk: MemoryDisk, maker: ClusterMaker, placement: Placement | None) -> ComparedPartition:
    directories = read_broker_directories(disk, maker.paths.values())  # type: ignore[arg-type]
    placements = {} if placement is None else {T0: placement}
    (found,) = compare_cluster(disk, directories, [T0], placements, threads=1)  # type: ignore[arg-type]
    return found


def base_offsets(content: bytearray) -> set[int]:
    """Return the positions of all base offsets, which no CRC covers.

    In a compacted log, a batch at another offset can be a batch that the other replica's cleaner has removed.
    """
    return {row.position + byte for row in scan_batches(content).rows() for byte in range(8)}


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("placement", [PLACEMENT, None], ids=["metadata", "alone"])
@pytest.mark.parametrize("is_cleaned", [False, True], ids=["deleted", "compacted"])
def test_every_damaged_byte_is_found(
    tmp_path: Path, is_clean: bool, placement: Placement | None, is_cleaned: bool
) -> None:
    maker = cluster(tmp_path, is_clean=is_clean, is_cleaned=is_cleaned)
    disk = MemoryDisk.load(tmp_path)
    assert compared(disk, maker, placement).problems == ()
    logs = [path for path in sorted(disk.paths) if path.suffix == ".log"]

    @settings(max_examples=150, deadline=None)
    @given(chance=st.data())
    def damage(chance: st.DataObject) -> None:
        path = chance.draw(st.sampled_from(logs))
        content = bytearray(disk.data(path))
        position = chance.draw(st.integers(0, len(content) - 1))
        assume(not is_cleaned or position not in base_offsets(content))
        content[position] ^= chance.draw(st.integers(1, 255))
        found = compared(disk.with_file(path, bytes(content)), maker, placement)
        assert found.problems
        assert any(str(node) in found.problems[0] for node in NODES)

    damage()
