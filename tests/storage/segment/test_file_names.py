"""Names of segment files and partition directories."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import DirectoryError, TopicPartition
from tidelog.storage.segment.file_names import (
    MAX_DIRECTORY_NAME_LENGTH,
    DirectoryPurpose,
    FileKind,
    FileState,
    PartitionDirectoryName,
    SegmentFileName,
    segment_file,
)

names = st.builds(
    SegmentFileName, st.integers(0, 2**63 - 1), st.sampled_from(list(FileKind)), st.sampled_from(list(FileState))
)


@given(names)
def test_a_name_parses_back(name: SegmentFileName) -> None:
    assert SegmentFileName.parse(str(name)) == name


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    parsed = SegmentFileName.parse(text)
    assert parsed is None or str(parsed) == text


@pytest.mark.parametrize(
    "name",
    [
        "0.log",
        "00000000000000000000.log.tmp",
        "00000000000000000000.logs",
        "00000000000000000000.log.deleted.deleted",
        "99999999999999999999.log",
        "٠" * 20 + ".log",
        "00000000000000000000-0000000001.checkpoint",
        "leader-epoch-checkpoint",
    ],
)
def test_names_that_are_none(name: str) -> None:
    assert SegmentFileName.parse(name) is None


def test_twenty_digits() -> None:
    path = segment_file(Path("/logs/t-0"), 2360, FileKind.TIME_INDEX, FileState.SWAP)
    assert path == Path("/logs/t-0/00000000000000002360.timeindex.swap")


def test_live_directory() -> None:
    assert PartitionDirectoryName.parse("a.b-c_d-12") == (TopicPartition("a.b-c_d", 12), DirectoryPurpose.LIVE, "")


@pytest.mark.parametrize("state", [DirectoryPurpose.DELETE, DirectoryPurpose.FUTURE, DirectoryPurpose.STRAY])
def test_directories_on_their_way(state: DirectoryPurpose) -> None:
    name = PartitionDirectoryName.of(TopicPartition("topic-x", 3), state, "0123456789abcdef0123456789abcdef")
    assert str(name) == f"topic-x-3.0123456789abcdef0123456789abcdef{state.value}"
    assert PartitionDirectoryName.parse(str(name)) == name


def test_a_long_topic_is_cut_where_the_directory_is_to_go() -> None:
    partition = TopicPartition("t" * 249, 0)
    cut = PartitionDirectoryName.of(partition, DirectoryPurpose.DELETE, "f" * 32)
    assert len(str(cut)) == MAX_DIRECTORY_NAME_LENGTH
    whole = PartitionDirectoryName.of(partition, DirectoryPurpose.FUTURE, "f" * 32)
    assert whole.topic_partition == partition


@pytest.mark.parametrize("number", ["2147483648", "9" * 5000])
def test_a_partition_is_a_number_of_32_bits(number: str) -> None:
    assert PartitionDirectoryName.parse("t-2147483647").topic_partition.partition == 2**31 - 1
    with pytest.raises(DirectoryError, match="is not a partition directory"):
        PartitionDirectoryName.parse(f"t-{number}")


@pytest.mark.parametrize(
    "name", ["", "topic", "topic-", "-1", "topic-x", "topic-1-delete", "topic-1.-delete", "a b-0", "topic-delete"]
)
def test_directories_that_are_none(name: str) -> None:
    with pytest.raises(DirectoryError):
        PartitionDirectoryName.parse(name)
