"""The meaning of the names in a partition directory."""

from __future__ import annotations

from conftest import GoldenFactory
from golden_sets import SCENARIOS
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.load.listing import list_partition, sort_names
from tidelog.storage.segment.file_names import FileKind, FileState, SegmentFileName


def name(offset: int, kind: str, state: str = "") -> str:
    return f"{offset:020d}.{kind}{state}"


def test_segments_have_their_files() -> None:
    listing = sort_names([name(5, "log"), name(5, "index"), name(0, "log"), name(5, "snapshot"), name(5, "txnindex")])
    assert [segment.base_offset for segment in listing.segments] == [0, 5]
    assert listing.segments[0].kinds == {FileKind.LOG}
    assert listing.segments[1].kinds == {FileKind.LOG, FileKind.INDEX, FileKind.TXN_INDEX}
    assert listing.snapshots == (5,)


def test_leftovers_have_their_places() -> None:
    listing = sort_names(
        [
            name(0, "log"),
            name(3, "log", ".deleted"),
            name(3, "snapshot", ".deleted"),
            name(4, "index"),
            "leader-epoch-checkpoint.tmp",
            "partition.metadata",
            "quorum-state",
        ]
    )
    assert listing.deleted == (
        SegmentFileName(3, FileKind.LOG, FileState.DELETED),
        SegmentFileName(3, FileKind.SNAPSHOT, FileState.DELETED),
    )
    assert listing.orphans == (SegmentFileName(4, FileKind.INDEX),)
    assert listing.temporary == ("leader-epoch-checkpoint.tmp",)
    assert listing.others == ("partition.metadata", "quorum-state")
    assert listing.snapshots == ()


def test_swaps_below_the_first_cleaned_file_are_whole() -> None:
    listing = sort_names(
        [name(0, "log"), name(0, "log", ".swap"), name(7, "log", ".cleaned"), name(7, "log", ".swap"), name(9, "log")]
    )
    assert [segment.base_offset for segment in listing.swaps] == [0]
    assert listing.swaps[0].state is FileState.SWAP
    assert listing.invalid_swaps == (SegmentFileName(7, FileKind.LOG, FileState.SWAP),)
    assert listing.cleaned == (SegmentFileName(7, FileKind.LOG, FileState.CLEANED),)


def test_an_index_swap_without_its_log_follows_the_log_that_was_renamed() -> None:
    listing = sort_names([name(0, "log"), name(0, "index", ".swap"), name(0, "timeindex", ".swap")])
    assert listing.swaps == ()
    assert [file.kind for file in listing.swap_parts] == [FileKind.INDEX, FileKind.TIME_INDEX]


def test_a_killed_brokers_compacted_partition(golden: GoldenFactory) -> None:
    listing = list_partition(LOCAL, golden(SCENARIOS, "unclean") / "compacted-0")
    assert listing.base_offsets == (0, 1960, 2149, 2323, 2360)
    assert len(listing.deleted) > 100
    assert listing.snapshots == (1960, 2149, 2323, 2360)
    assert listing.others == ("leader-epoch-checkpoint", "partition.metadata")
