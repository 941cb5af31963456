"""``verify``: no findings after real brokers; after damage the right file, position and next valid batch."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, KRAFT_SETS, SCENARIOS, SETS
from log_maker import batch, mark_clean, plain, write_segment
from tidelog.inspect.verify import Finding, Severity, verify_directory
from tidelog.inspect.verify.directory_check import VerifiedDirectory, verify_log
from tidelog.kernel import BatchTable, crc32c, scan_batches
from tidelog.model import CancelledError, DirectoryError, TopicPartition
from tidelog.storage.fs import LOCAL

DIRECTORIES = [(name, kind) for name in SETS for kind in (("clean", "unclean") if name in KRAFT_SETS else ("clean",))]


def check(directory: Path, *names: str) -> VerifiedDirectory:
    only = [TopicPartition.from_directory_name(name) for name in names] or None
    return verify_directory(LOCAL, directory, only=only)


def only_finding(directory: Path, *names: str) -> Finding:
    found = [finding for finding in check(directory, *names).all_findings if finding.severity is not Severity.NOTE]
    assert len(found) == 1, found
    return found[0]


def first_log(partition: Path) -> tuple[Path, bytearray, BatchTable]:
    path = min(partition.glob("*.log"))
    data = path.read_bytes()
    return path, bytearray(data), scan_batches(data)


@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_what_a_broker_left_is_sound(golden: GoldenFactory, set_name: str, kind: str) -> None:
    verified = check(golden(set_name, kind))
    assert verified.has_no_errors
    assert verified.condition == ("killed" if kind == "unclean" else "clean")
    assert verified.partitions


@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_the_outlook_is_recovery_after_a_kill_and_nothing_after_a_stop(
    golden: GoldenFactory, set_name: str, kind: str
) -> None:
    for part in check(golden(set_name, kind)).partitions:
        if kind == "clean" and part.partition.topic != "__cluster_metadata":
            assert part.outlook == "loads it as it is"
        else:
            assert re.search(r"recovers \d+ segments? from", part.outlook)


def test_a_flipped_bit_names_the_batch_and_the_next(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    path, data, table = first_log(directory / "flights-0")
    data[int(table.position[1]) + 100] ^= 0x10
    path.write_bytes(data)
    found = list(check(directory, "flights-0").all_findings)
    (finding,) = (finding for finding in found if finding.next_good_position is not None)
    assert finding == Finding(
        path=path,
        message=finding.message,
        position=int(table.position[1]),
        end_position=int(table.position[2]),
        offset=int(table.base_offset[1]),
        next_good_position=int(table.position[2]),
        next_good_offset=int(table.base_offset[2]),
    )
    assert "CRC" in finding.message
    # Index entries that refer to the damaged batch may be reported too.
    assert {finding.path.name for finding in found} <= {path.name, f"{path.stem}.index", f"{path.stem}.timeindex"}


def test_a_destroyed_length_is_skipped_to_the_next_good_batch(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    path, data, table = first_log(directory / "flights-0")
    struct.pack_into(">i", data, int(table.position[1]) + 8, -5)
    path.write_bytes(data)
    found = [f for f in check(directory, "flights-0").all_findings if f.path == path]
    damage = next(finding for finding in found if finding.position == table.position[1])
    assert (damage.next_good_position, damage.next_good_offset) == (table.position[2], table.base_offset[2])


def test_a_file_cut_in_a_batch(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS, "unclean")
    path = max((directory / "flights-0").glob("*.log"))
    data = path.read_bytes()
    table = scan_batches(data)
    path.write_bytes(data[:-7])
    verified = check(directory, "flights-0")
    damage = next(finding for finding in verified.all_findings if finding.path == path)
    assert damage.position == table.position[-1]
    assert damage.next_good_position is None
    assert damage.severity is Severity.WARNING, "its broker was killed"
    left = len(data) - 7 - int(table.position[-1])
    assert (
        f"truncates {left:,} bytes at position {int(table.position[-1]):,} of {path.name}"
        in verified.partitions[0].outlook
    )


def test_a_batch_that_is_cut_off_where_its_broker_stopped_in_order(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", 0, [plain(0), plain(1)[:-7]])
    mark_clean(tmp_path)
    findings = [finding for finding in check(tmp_path).all_findings if finding.path == path]
    assert [(finding.position, finding.severity) for finding in findings] == [(len(plain(0)), Severity.ERROR)]


def test_zeros_behind_the_last_batch_of_a_killed_log_are_a_warning(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS, "unclean")
    path = max((directory / "flights-0").glob("*.log"))
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(1000))
    finding = only_finding(directory, "flights-0")
    assert (finding.path, finding.position, finding.severity) == (path, size, Severity.WARNING)


def test_records_that_do_not_decode_behind_a_right_crc(tmp_path: Path) -> None:
    good = batch(0, [b"a", b"b", b"c"])
    body = bytearray(good[21:])
    body[40 + 8] ^= 0xFF  # a record's length, in the bytes after the header
    bad = good[:17] + struct.pack(">I", crc32c(body)) + bytes(body)
    path = write_segment(tmp_path / "t-0", 0, [bad, plain(3)])
    mark_clean(tmp_path)
    finding = only_finding(tmp_path)
    assert finding.path == path
    assert finding.severity is Severity.ERROR
    assert finding.position is not None
    assert 0 <= finding.position < len(good)


@pytest.mark.parametrize("offsets", [(0, 10, 5), (0, 10, 4_000_000_000)])
def test_offsets_that_do_not_ascend_or_fit(tmp_path: Path, offsets: tuple[int, ...]) -> None:
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.parent.mkdir()
    data = b"".join(plain(offset) for offset in offsets)
    path.write_bytes(data)
    mark_clean(tmp_path)
    errors = [finding for finding in check(tmp_path).all_findings if finding.severity is Severity.ERROR]
    (finding,) = (finding for finding in errors if finding.path == path)
    assert (finding.position, finding.offset) == (scan_batches(data).position[2], offsets[2])


def test_an_epoch_that_falls(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"a"], epoch=5), batch(1, [b"b"], epoch=4)])
    mark_clean(tmp_path)
    finding = only_finding(tmp_path)
    assert "leader epoch 4 follows 5" in finding.message
    assert finding.offset == 1


def test_a_kill_while_a_segment_rolls_is_normal(tmp_path: Path) -> None:
    """The old segment is not trimmed yet, the new segment has no indexes, and the snapshot at its base is empty."""
    partition = tmp_path / "t-0"
    write_segment(partition, 0, [plain(0), plain(10)])
    write_segment(partition, 20, [])
    for kind in (".index", ".timeindex"):
        with (partition / f"{0:020d}{kind}").open("ab") as file:
            file.write(bytes(120))
        (partition / f"{20:020d}{kind}").unlink()
    (partition / f"{20:020d}.snapshot").touch()
    verified = check(tmp_path)
    assert verified.condition == "killed"
    assert verified.has_no_errors, list(verified.all_findings)
    assert len(list(verified.all_findings)) == 3  # reported, but as the normal result of a crash

    mark_clean(tmp_path)
    assert not check(tmp_path).has_no_errors


def flip(position: int) -> Callable[[bytearray], None]:
    def damage(data: bytearray) -> None:
        data[position] ^= 0x01

    return damage


def append_byte(data: bytearray) -> None:
    data.append(7)


@pytest.mark.parametrize(
    ("name", "damage", "position"),
    [
        (".index", flip(8 + 7), 8),  # the position of the second entry
        (".index", flip(8 + 3), 8),  # its offset
        (".timeindex", flip(12 + 7), 12),
        (".timeindex", flip(12 + 10), 12),
        (".txnindex", flip(34 + 9), 34),  # the producer of the second transaction
        (".txnindex", flip(34 + 25), 34),  # its last offset
        (".index", append_byte, None),
        (".timeindex", append_byte, None),
        (".txnindex", append_byte, None),
        (".snapshot", flip(40), None),
        ("leader-epoch-checkpoint", flip(4), None),
        ("partition.metadata", flip(12), None),
    ],
)
def test_each_file_of_a_partition(
    golden_copy: GoldenFactory, name: str, damage: Callable[[bytearray], None], position: int | None
) -> None:
    directory = golden_copy(SCENARIOS)
    partition = directory / "txn-0"
    files = sorted(partition.glob(f"*{name}"))
    path = next(file for file in files if file.stat().st_size > 34 or not name.startswith("."))
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)
    found = [f for f in check(directory).all_findings if f.severity is not Severity.NOTE]
    assert {finding.path for finding in found} == {path}
    if position is not None:
        assert found[0].position == position


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_a_missing_index_is_a_warning_and_a_missing_txnindex_an_error(golden_copy: GoldenFactory, kind: str) -> None:
    directory = golden_copy(SCENARIOS)
    path = directory / "txn-0" / f"{146:020d}{kind}"
    path.unlink()
    verified = check(directory, "txn-0")
    assert [(f.path, f.severity) for f in verified.all_findings] == [(path, Severity.WARNING)]
    if kind == ".index":
        assert "recovers 1 segment from 146 (index missing)" in verified.partitions[0].outlook
    path.with_suffix(".txnindex").unlink()
    errors = [f for f in check(directory, "txn-0").all_findings if f.severity is Severity.ERROR]
    assert {finding.path for finding in errors} == {path.with_suffix(".txnindex")}


CHECKPOINTS = ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint"]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_against_the_logs(golden_copy: GoldenFactory, name: str) -> None:
    directory = golden_copy(SCENARIOS)
    path = directory / name
    path.write_text("0\n2\nplain 0 1001\nnowhere 7 3\n")
    found = {finding.offset: finding for finding in check(directory).findings}
    assert {finding.path for finding in found.values()} == {path}
    assert found[1001].severity is Severity.ERROR
    assert "above the log's end 1000" in found[1001].message
    assert found[3].severity is Severity.WARNING
    assert "not in this directory" in found[3].message


@pytest.mark.parametrize("name", [*CHECKPOINTS, "meta.properties", "bootstrap.checkpoint"])
def test_small_files_that_cannot_be_read(golden_copy: GoldenFactory, name: str) -> None:
    directory = golden_copy(SCENARIOS)
    (directory / name).write_bytes(b"\xff\xfe rubbish\n")
    assert directory / name in {finding.path for finding in check(directory).findings}


def test_a_stray_temporary_file_is_a_note(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    (directory / "recovery-point-offset-checkpoint.tmp").write_text("0\n")
    (finding,) = check(directory).findings
    assert finding.severity is Severity.NOTE


def test_random_indexes_are_abridged(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    path = min((directory / "flights-0").glob("*.index"))
    rubbish = np.random.default_rng(7).integers(1, 2**30, 400).astype(">i4").tobytes()
    path.write_bytes(rubbish)
    found = [finding for finding in check(directory, "flights-0").all_findings if finding.path == path]
    assert len(found) == 21
    assert "more entries" in found[-1].message


def test_progress_adds_up_to_the_bytes(golden: GoldenFactory) -> None:
    read: list[int] = []
    directory = golden(FLIGHTS)
    verify_directory(LOCAL, directory, advance=read.append)
    assert sum(read) == sum(path.stat().st_size for path in directory.glob("*-*/*.log"))


def test_the_end_of_the_damaged_bytes(tmp_path: Path) -> None:
    batches = [plain(0), plain(10), plain(20), plain(30)]
    size = len(batches[0])
    path = write_segment(tmp_path / "t-0", 0, batches)
    mark_clean(tmp_path)
    data = bytearray(path.read_bytes())
    data[size + 70] ^= 1
    struct.pack_into(">i", data, 2 * size + 8, -5)
    path.write_bytes(data)
    found = [(one.position, one.end_position) for one in check(tmp_path).all_findings if one.path == path]
    assert found[:2] == [(size, 2 * size), (2 * size, 3 * size)]
    path.write_bytes(data[: 3 * size])
    found = [(one.position, one.end_position) for one in check(tmp_path).all_findings if one.path == path]
    assert found[:2] == [(size, 2 * size), (2 * size, 3 * size)]


def test_logs_that_are_added_or_removed(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    unique = "0123456789abcdef0123456789abcdef"
    for partition, purpose in ((0, "delete"), (1, "future"), (2, "stray")):
        (directory / f"flights-{partition}").rename(directory / f"flights-{partition}.{unique}-{purpose}")
    found = {
        name: verify_log(LOCAL, directory, name)
        for name in (*(f"flights-{n}.{unique}-{p}" for n, p in enumerate(("delete", "future", "stray"))), "flights-3")
    }
    assert [one.outlook for one in found.values()] == [
        "deletes the directory",
        "loads it as it is",
        "leaves the directory alone",
        "loads it as it is",
    ]
    assert all(one.findings == () and one.directory.name == name for name, one in found.items())
    assert found["flights-3"] == check(directory, "flights-3").partitions[0]
    with pytest.raises(DirectoryError):
        verify_log(LOCAL, directory, "meta.properties")


def test_a_cancelled_check_is_no_finding(golden: GoldenFactory) -> None:
    def advance(_count: int) -> None:
        raise CancelledError("no longer wanted")

    with pytest.raises(CancelledError):
        verify_directory(LOCAL, golden(FLIGHTS), advance=advance)
    with pytest.raises(CancelledError):
        verify_log(LOCAL, golden(FLIGHTS), "flights-0", advance)
