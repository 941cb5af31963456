"""Work on the partitions of a log directory, in several threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_maker import mark_clean, plain, write_segment
from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.partitions import each_partition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.mark.parametrize(
    ("only", "topic", "expected"),
    [
        (None, None, [T0, T1, U0]),
        ([U0, T0], None, [T0, U0]),
        ([], None, []),
        (None, "t", [T0, T1]),
        ([U0, T1], "t", [T1]),
    ],
)
def test_all_partitions_or_some(
    tmp_path: Path, only: list[TopicPartition] | None, topic: str | None, expected: list[TopicPartition]
) -> None:
    for partition in (U0, T1, T0):
        write_segment(tmp_path / partition.directory_name, 0, [plain(0)])
    mark_clean(tmp_path)
    found = each_partition(LOCAL, tmp_path, lambda view, name, _: (name, view.log_end), only=only, topic=topic)
    assert found == [(partition, 10) for partition in expected]
