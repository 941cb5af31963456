"""The next start of a log directory, from names and sizes, agrees with the exact plan of recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import KRAFT_SETS
from log_maker import mark_clean, plain, write_checkpoint, write_segment
from tidelog.inspect.start_survey import StartAction, StartOutlook, survey_start
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.directory_state import read_directory_state
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions, plan_directory
from tidelog.storage.segment.file_names import DirectoryPurpose

UNIQUE = "0123456789abcdef0123456789abcdef"


def survey(path: Path) -> dict[str, StartOutlook]:
    found = survey_start(LOCAL, read_directory_state(LOCAL, path), LOCAL.list_directories(path))
    return {log.name: log for log in found}


@pytest.mark.parametrize("kind", ["clean", "unclean"])
@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_real_directories(golden: GoldenFactory, set_name: str, kind: str) -> None:
    path = golden(set_name, kind)
    plan = plan_directory(LOCAL, path, RecoverOptions(now_ms=0))
    found = survey(path)
    assert found.keys() == {part.name for part in plan.partitions}
    for part in plan.partitions:
        log = found[part.name]
        assert (log.recover_segments, log.recover_bytes) == (len(part.recover), part.read_bytes), part.name
        assert log.action is (StartAction.RECOVER if part.recover else StartAction.LOAD)
        assert log.leftovers == len(part.leftovers.removals) + len(part.leftovers.renames)
        assert log.leftover_bytes == part.leftover_bytes
        assert (log.recovery_point or 0) == part.recovery_point
        assert log.bytes == sum(file.stat().st_size for file in (path / part.name).iterdir())


def test_from_the_segment_of_the_recovery_point_on(tmp_path: Path) -> None:
    for base in (0, 10, 20):
        write_segment(tmp_path / "t-0", base, [plain(base)])
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {"t-0": 15})
    sizes = [(tmp_path / "t-0" / f"{base:020d}.log").stat().st_size for base in (0, 10, 20)]
    log = survey(tmp_path)["t-0"]
    assert (log.action, log.recover_segments, log.recover_bytes) == (StartAction.RECOVER, 2, sizes[1] + sizes[2])
    mark_clean(tmp_path)
    log = survey(tmp_path)["t-0"]
    assert (log.action, log.recover_bytes, log.segments, log.log_bytes) == (StartAction.LOAD, 0, 3, sum(sizes))


def test_indexes_that_a_clean_start_rebuilds(tmp_path: Path) -> None:
    for base in (0, 10, 20):
        write_segment(tmp_path / "t-0", base, [plain(base)])
    mark_clean(tmp_path)
    (tmp_path / "t-0" / f"{0:020d}.index").unlink()
    (tmp_path / "t-0" / f"{10:020d}.timeindex").write_bytes(bytes(5))
    log = survey(tmp_path)["t-0"]
    assert (log.action, log.recover_segments) == (StartAction.RECOVER, 2)


def test_directories_that_are_no_live_logs(tmp_path: Path) -> None:
    names = {
        f"t-0.{UNIQUE}-delete": (StartAction.REMOVE, DirectoryPurpose.DELETE),
        f"t-1.{UNIQUE}-stray": (StartAction.KEEP, DirectoryPurpose.STRAY),
        f"t-2.{UNIQUE}-future": (StartAction.RECOVER, DirectoryPurpose.FUTURE),
        "remote-log-index-cache": (StartAction.KEEP, None),
        "notes": (StartAction.REFUSE, None),
    }
    for name in names:
        write_segment(tmp_path / name, 0, [plain(0)])
    found = survey(tmp_path)
    assert {name: (log.action, log.purpose) for name, log in found.items()} == names
    assert found["notes"].error is not None
    assert all(log.bytes for log in found.values())


def test_a_directory_that_disappears_is_left_out(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    done: list[int] = []
    found = survey_start(LOCAL, read_directory_state(LOCAL, tmp_path), ["gone-0", "t-0"], done.append)
    assert [log.name for log in found] == ["t-0"]
    assert done == [1, 1]
