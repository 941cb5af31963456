"""The copies of the metadata log: their ends, and which one is the newest."""

from __future__ import annotations

from pathlib import Path

from conftest import GoldenFactory
from golden_sets import CLUSTER, FORMATS, KRAFT_SETS, UNCLEAN_ELECTION
from metadata_log_maker import NO_OP, MetadataLogMaker
from tidelog.inspect.metadata_copies import metadata_log_bytes, newest_first, survey_metadata_copy
from tidelog.server.metadata.kraft.metadata_view import read_metadata
from tidelog.storage.fs import LOCAL


def test_ends_and_epochs_are_those_of_the_replayed_log(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    paths = [golden(name, kind) for name in KRAFT_SETS for kind in ("clean", "unclean")]
    for path in [*paths, *(brokers / f"broker{number}" for number in (1, 2, 3))]:
        read: list[int] = []
        copy = survey_metadata_copy(LOCAL, path, read.append)
        view = read_metadata(LOCAL, path)
        assert copy is not None
        assert view is not None
        assert (copy.end_offset, copy.epoch, copy.state) == (view.end_offset, view.epoch, view.state)
        assert copy.log_bytes == metadata_log_bytes(LOCAL, path) == sum(read)


def test_without_a_metadata_log(golden: GoldenFactory) -> None:
    assert survey_metadata_copy(LOCAL, golden(FORMATS)) is None
    assert metadata_log_bytes(LOCAL, golden(FORMATS)) == 0


def copy_of(path: Path, records: int, epoch: int) -> None:
    maker = MetadataLogMaker(path, epoch=epoch)
    for _ in range(records):
        maker.add(NO_OP)
    maker.write()


def test_the_epoch_decides_before_the_end_and_an_unreadable_copy_is_last(tmp_path: Path) -> None:
    for name, records, epoch in (("long", 9, 1), ("new", 2, 3), ("newer", 3, 3), ("bad", 9, 9)):
        copy_of(tmp_path / name, records, epoch)
    (tmp_path / "bad" / "__cluster_metadata-0" / "quorum-state").write_text("x")
    found = [survey_metadata_copy(LOCAL, path) for path in sorted(tmp_path.iterdir())]
    ordered = newest_first(one for one in found if one is not None)
    assert [one.log_directory.name for one in ordered] == ["newer", "new", "long", "bad"]
    assert ordered[-1].error is not None


def test_a_snapshot_without_a_log_after_it(tmp_path: Path) -> None:
    maker = MetadataLogMaker(tmp_path, base_offset=70, epoch=4)
    maker.write_snapshot()
    copy = survey_metadata_copy(LOCAL, tmp_path)
    assert copy is not None
    assert (copy.end_offset, copy.epoch, copy.log_start, copy.log_bytes) == (70, 4, None, 0)


def test_records_after_a_damaged_batch_do_not_count(tmp_path: Path) -> None:
    maker = MetadataLogMaker(tmp_path)
    for _ in range(5):
        maker.add(NO_OP)
    path = maker.write()
    data = bytearray(path.read_bytes())
    data[len(data) // 5 * 3 + 60] ^= 1
    path.write_bytes(data)
    copy = survey_metadata_copy(LOCAL, tmp_path)
    assert copy is not None
    assert copy.end_offset == 3
