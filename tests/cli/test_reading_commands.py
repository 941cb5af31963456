"""The commands ``count``, ``info``, ``verify`` and ``offsets``: columns, totals, notes, exit codes, formats."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import FLIGHTS, FORMATS, SCENARIOS, manifest
from log_maker import data, marker, plain, write_checkpoint, write_segment


def flip(path: Path, position: int) -> Path:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    return path


def test_count_in_every_format(golden: GoldenFactory) -> None:
    directory = golden(FLIGHTS)
    found = {f"{row['topic']}-{row['partition']}": row for row in rows("count", directory)}
    for name, levels in manifest(FLIGHTS).items():
        assert found[name]["records"] == levels["read_uncommitted"]["count"]
        assert found[name]["committed"] == levels["read_committed"]["count"]
    lines = run("count", directory, "--jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == list(found.values())
    table = list(csv.DictReader(io.StringIO(run("count", directory, "--csv").stdout)))
    assert [int(row["records"]) for row in table] == [row["records"] for row in found.values()]


def test_count_has_a_total_and_says_where_it_ends(golden: GoldenFactory) -> None:
    text = run("count", golden(FLIGHTS), "flights-?").stdout
    assert "total" in text
    assert "20,000" in text
    assert "read up to the last valid batch (no process holds it, its last shutdown was clean)" in text
    assert "its last shutdown was unclean" in run("count", golden(FLIGHTS, "unclean"), "airports").stdout
    assert "last valid batch" not in run("count", golden(FLIGHTS), "airports", "--quiet").stdout


def test_count_shows_what_lies_above_the_high_watermark(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0, 10), data(10, 4), marker(14, committed=True)])
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": 8})
    (row,) = rows("count", tmp_path)
    assert (row["records_above_hw"], row["offsets_above_hw"], row["high_watermark"]) == (6, 7, 8)
    assert "records above hw" in run("count", tmp_path).stdout


def test_count_tells_a_partition_that_cannot_be_read(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    log = flip(directory / "airports-0" / f"{0:020d}.log", 100)
    broken, good = rows("count", directory, "airports", "delays-0", code=3)
    assert str(log) in broken["error"]
    assert broken["records"] is None
    assert good["records"] == 1484
    assert "1,484" in run("count", directory, "airports", "delays-0", code=3).stdout


def test_info_shows_ids_and_sums(golden: GoldenFactory) -> None:
    directory = golden(SCENARIOS)
    found = rows("info", directory)
    assert {row["directory_id"] for row in found} == {"E22R0B6NyNTs88C-P9ZI5w"}
    assert {row["condition"] for row in found} == {"clean"}
    text = run("info", directory).stdout
    size = sum(row["bytes"] for row in found)
    topics = len({row["topic"] for row in found})
    assert f"{len(found)} partitions of {topics} topics" in text
    assert f"{size:,} bytes." in text
    assert "clean shutdown (broker epoch 288); cluster PPHkimXOT_2-xjXVnSwxdg, node 1" in text
    assert "unclean shutdown" in run("info", golden(SCENARIOS, "unclean"), "plain").stdout
    assert "node 7" in run("info", golden(FORMATS)).stdout


def test_info_of_a_directory_without_partitions(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=4\n")
    (row,) = rows("info", tmp_path)
    assert (row["node_id"], row["topic"], row["condition"]) == (4, None, "killed")
    assert "0 partitions" in run("info", tmp_path).stdout


def test_info_goes_on_past_a_broken_partition(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(SCENARIOS)
    (directory / "plain-1" / "partition.metadata").write_text("rubbish")
    (directory / "meta.properties").write_text("version=rubbish")
    result = run("info", directory, "plain", code=3)
    assert "partition.metadata" in result.stdout
    assert "Warning: " in result.stdout
    assert "no meta.properties" in result.stdout


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_verify_finds_nothing_on_what_a_broker_left(golden: GoldenFactory, kind: str) -> None:
    found = rows("verify", golden(SCENARIOS, kind))
    assert {row["kind"] for row in found if row["severity"] != "note"} == {"outlook"}
    text = run("verify", golden(SCENARIOS, kind)).stdout
    assert "partitions checked" in text
    assert ("recovers 1 segment from 882 (unflushed)" in text) == (kind == "unclean")


def test_verify_reports_damage_in_rows_and_exit_code(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    log = flip(directory / "flights-0" / f"{0:020d}.log", 20_000)
    found = [row for row in rows("verify", directory, code=1) if row["kind"] == "finding"]
    first = next(row for row in found if row["file"] == str(log))
    assert (first["severity"], first["position"], first["topic"]) == ("error", 18_367, "flights")
    assert first["next_good_position"] > first["position"]
    text = run("verify", directory, "flights-0", code=1).stdout
    assert "Findings" in text
    assert "18,367" in text
    assert run("verify", directory, "flights-1").exit_code == 0


def test_offsets_by_time(golden: GoldenFactory) -> None:
    directory = golden(SCENARIOS)
    asked = ["--time", "earliest", "--time", "latest", "--time", "max-timestamp", "--time", "2099-01-01"]
    found = rows("offsets", directory, "trimmed", *asked)
    assert [(row["time"], row["offset"]) for row in found] == [
        ("earliest", 777),
        ("latest", 2000),
        ("max-timestamp", found[2]["offset"]),
        ("2099-01-01", None),
    ]
    assert 777 <= found[2]["offset"] < 2000
    assert found[2]["timestamp"] > 0
    (row,) = rows("offsets", directory, "txn", "--time", "-1", "--isolation", "read_committed")
    assert row["offset"] == 516
    text = run("offsets", directory, "txn", "--isolation", "read_committed").stdout
    assert "last stable offset" in text


def test_offsets_until_a_checkpoint(golden: GoldenFactory) -> None:
    directory = golden(FLIGHTS, "unclean")
    (row,) = rows("offsets", directory, "airports", "--time", "latest", "--until", "checkpoint")
    stored = (directory / "recovery-point-offset-checkpoint").read_text().split("\n")
    assert f"airports 0 {row['offset']}" in stored or row["offset"] == 0
    text = run("offsets", directory, "airports", "--until", "checkpoint").stdout
    assert "the recovery point in its checkpoint" in text


def test_offsets_of_a_broken_partition(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(SCENARIOS, "unclean")
    for path in (directory / "plain-0").glob("*.log"):
        path.unlink()
        path.mkdir()
    result = run("offsets", directory, "plain", "--jsonl", code=3)
    errors = [json.loads(line)["error"] for line in result.stdout.splitlines()]
    assert [error is None for error in errors] == [False, False, True, True, True, True]


def test_groups_and_their_lag(golden: GoldenFactory) -> None:
    directory = golden(FLIGHTS)
    found = rows("offsets", directory, "--groups")
    assert {row["group"] for row in found} == {"billing", "dashboards"}
    for row in found:
        assert row["lag"] == row["log_end"] - row["offset"] == row["stable_lag"]
    assert {row["group"] for row in rows("offsets", directory, "--group", "bill*")} == {"billing"}
    (row,) = rows("offsets", directory, "flights-0", "--groups")
    assert (row["group"], row["offset"], row["lag"]) == ("dashboards", 2414, 3652)
    assert rows("offsets", directory, "--group", "nobody") == []
    assert "dashboards" in run("offsets", directory, "--groups").stdout


def test_groups_whose_logs_lie_elsewhere(golden_copy: GoldenFactory, tmp_path: Path) -> None:
    directory = golden_copy(FLIGHTS)
    other = tmp_path / "other"
    other.mkdir()
    for number in range(4):
        (directory / f"flights-{number}").rename(other / f"flights-{number}")
    assert {row["lag"] for row in rows("offsets", directory, "--groups")} == {None}
    both = rows("offsets", directory, other, "--groups")
    assert {row["directory"] for row in both} == {str(directory)}
    assert all(row["lag"] is not None for row in both)
    assert "no partition of __consumer_offsets" in run("offsets", other, "--groups").stdout


def test_groups_with_a_damaged_offsets_log(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    log = next(path for path in directory.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
    flip(log, -1)
    assert str(log) in run("offsets", directory, "--groups", code=3).stdout
